// cp.async: copies from global to shared memory that bypass the registers (PTX ISA 9.7.9.25).
#pragma once

#include <cstdint>

namespace vitamin::ptx {

// 16 bytes through L2 only, prefetching the 128-byte line.
__device__ __forceinline__ void cp_async_16(uint32_t dst, const void* src) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;\n" ::"r"(dst), "l"(src)
               : "memory");
}

// The same, or zeros if `valid` is 0. What is between copies all 16, whatever PTX says.
__device__ __forceinline__ void cp_async_16_fill(uint32_t dst, const void* src, int valid) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src),
               "r"(valid)
               : "memory");
}

// The same by way of L1, which is faster where a warp copies pieces of several lines.
__device__ __forceinline__ void cp_async_16_fill_l1(uint32_t dst, const void* src, int valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;\n" ::"r"(dst), "l"(src), "r"(valid)
               : "memory");
}

// 8 or 4 bytes, for rows that are aligned to no more, or zeros if `valid` is 0.
template <int Bytes>
__device__ __forceinline__ void cp_async_small(uint32_t dst, const void* src, int valid) {
  static_assert(Bytes == 8 || Bytes == 4, "cp.async copies 4, 8 or 16 bytes");
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;\n" ::"r"(dst), "l"(src), "n"(Bytes),
               "r"(valid)
               : "memory");
}

__device__ __forceinline__ void cp_async_commit() {
  asm volatile("cp.async.commit_group;\n" ::: "memory");
}

// Returns when at most `Pending` of this thread's groups are still under way.
template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}

}  // namespace vitamin::ptx
