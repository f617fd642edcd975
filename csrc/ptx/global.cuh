// Accesses to global memory whose width the compiler must not change.
#pragma once

#include <cstdint>

namespace vitamin::ptx {

// 16 bytes, aligned to as many, and 2 bytes. They stay behind a wait for the kernels before.
__device__ __forceinline__ uint4 ld_global_v4(const void* from) {
  uint4 x;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w)
               : "l"(from)
               : "memory");
  return x;
}

__device__ __forceinline__ uint32_t ld_global_u16(const void* from) {
  uint32_t x;
  asm volatile("ld.global.u16 %0, [%1];\n" : "=r"(x) : "l"(from) : "memory");
  return x;
}

// 16 bytes, aligned to as many.
__device__ __forceinline__ void st_global_v4(void* to, uint32_t x, uint32_t y, uint32_t z,
                                             uint32_t w) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "r"(x), "r"(y), "r"(z),
               "r"(w)
               : "memory");
}

}  // namespace vitamin::ptx
