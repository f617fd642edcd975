// Accesses to global memory whose width the compiler must not change.
#pragma once

#include <cstdint>

namespace vitamin::ptx {

// 16 bytes, aligned to as many.
__device__ __forceinline__ void st_global_v4(void* to, uint32_t x, uint32_t y, uint32_t z,
                                             uint32_t w) {
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};\n" ::"l"(to), "r"(x), "r"(y), "r"(z),
               "r"(w)
               : "memory");
}

}  // namespace vitamin::ptx
