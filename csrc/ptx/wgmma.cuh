// wgmma: a 64xN product, K 16, by a warpgroup, both operands in shared memory, accumulated in fp32
// registers, asynchronously (PTX ISA 9.7.15). Operands are given by descriptors
// (common/wgmma_descriptor.h); TransposeA and TransposeB are 1 for operands whose contiguous index
// is m or n instead of k.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace vitamin::ptx {

// Before the first wgmma, and after registers that it reads have been written otherwise.
__device__ __forceinline__ void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}

// Returns when at most `Pending` groups are under way.
template <int Pending>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(Pending) : "memory");
}

// Keeps the compiler from moving uses of the accumulators across this point.
template <int Count>
__device__ __forceinline__ void pin(float (&c)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(c[i])::"memory");
}

// acc += a · b
template <class T, int N, int TransposeA = 0, int TransposeB = 0>
struct Wgmma;

// Operands %(10 * tens) to %(10 * tens + 9).
#define VITAMIN_R10(tens)                                                                 \
  "%" #tens "0, %" #tens "1, %" #tens "2, %" #tens "3, %" #tens "4, %" #tens "5, %" #tens \
  "6, %" #tens "7, %" #tens "8, %" #tens "9, "
#define VITAMIN_F2(c, i) "+f"(c[i]), "+f"(c[i + 1])
#define VITAMIN_F4(c, i) VITAMIN_F2(c, i), VITAMIN_F2(c, i + 2)
#define VITAMIN_F8(c, i) VITAMIN_F4(c, i), VITAMIN_F4(c, i + 4)
#define VITAMIN_F16(c, i) VITAMIN_F8(c, i), VITAMIN_F8(c, i + 8)
#define VITAMIN_F32(c, i) VITAMIN_F16(c, i), VITAMIN_F16(c, i + 16)
#define VITAMIN_F24(c, i) VITAMIN_F16(c, i), VITAMIN_F8(c, i + 16)
#define VITAMIN_F48(c, i) VITAMIN_F32(c, i), VITAMIN_F16(c, i + 32)
#define VITAMIN_F56(c, i) VITAMIN_F48(c, i), VITAMIN_F8(c, i + 48)
#define VITAMIN_F72(c, i) VITAMIN_F64(c, i), VITAMIN_F8(c, i + 64)
#define VITAMIN_F80(c, i) VITAMIN_F64(c, i), VITAMIN_F16(c, i + 64)
#define VITAMIN_F88(c, i) VITAMIN_F72(c, i), VITAMIN_F16(c, i + 72)
#define VITAMIN_F104(c, i) VITAMIN_F96(c, i), VITAMIN_F8(c, i + 96)
#define VITAMIN_F96(c, i) VITAMIN_F32(c, i), VITAMIN_F32(c, i + 32), VITAMIN_F32(c, i + 64)
#define VITAMIN_F64(c, i) VITAMIN_F32(c, i), VITAMIN_F32(c, i + 32)
#define VITAMIN_F128(c, i) VITAMIN_F64(c, i), VITAMIN_F64(c, i + 64)

#define VITAMIN_WGMMA(type, name, n, registers, accumulators, a, b, ta, tb)                        \
  template <int TransposeA, int TransposeB>                                                        \
  struct Wgmma<type, n, TransposeA, TransposeB> {                                                  \
    static __device__ __forceinline__ void run(float (&c)[n / 2], uint64_t desc_a,                 \
                                               uint64_t desc_b) {                                  \
      asm volatile(                                                                                \
          "{\n"                                                                                    \
          ".reg .pred p;\n"                                                                        \
          "setp.ne.b32 p, 1, 0;\n"                                                                 \
          "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." name "." name " {" registers "}, %" #a \
          ", %" #b ", p, 1, 1, %" #ta ", %" #tb                                                    \
          ";\n"                                                                                    \
          "}\n"                                                                                    \
          : accumulators(c, 0)                                                                     \
          : "l"(desc_a), "l"(desc_b), "n"(TransposeA), "n"(TransposeB));                           \
    }                                                                                              \
  };

#define VITAMIN_WGMMA_BOTH(n, registers, accumulators, a, b, ta, tb)     \
  VITAMIN_WGMMA(__half, "f16", n, registers, accumulators, a, b, ta, tb) \
  VITAMIN_WGMMA(__nv_bfloat16, "bf16", n, registers, accumulators, a, b, ta, tb)

#define VITAMIN_R30 VITAMIN_R10() VITAMIN_R10(1) VITAMIN_R10(2)
#define VITAMIN_R60 VITAMIN_R30 VITAMIN_R10(3) VITAMIN_R10(4) VITAMIN_R10(5)
#define VITAMIN_R90 VITAMIN_R60 VITAMIN_R10(6) VITAMIN_R10(7) VITAMIN_R10(8)
#define VITAMIN_R120                                                                      \
  VITAMIN_R60 VITAMIN_R10(6) VITAMIN_R10(7) VITAMIN_R10(8) VITAMIN_R10(9) VITAMIN_R10(10) \
      VITAMIN_R10(11)

VITAMIN_WGMMA_BOTH(16, "%0, %1, %2, %3, %4, %5, %6, %7", VITAMIN_F8, 8, 9, 10, 11)
VITAMIN_WGMMA_BOTH(32, VITAMIN_R10() "%10, %11, %12, %13, %14, %15", VITAMIN_F16, 16, 17, 18, 19)
VITAMIN_WGMMA_BOTH(48, VITAMIN_R10() VITAMIN_R10(1) "%20, %21, %22, %23", VITAMIN_F24, 24, 25, 26,
                   27)
VITAMIN_WGMMA_BOTH(64, VITAMIN_R30 "%30, %31", VITAMIN_F32, 32, 33, 34, 35)
VITAMIN_WGMMA_BOTH(96, VITAMIN_R30 VITAMIN_R10(3) "%40, %41, %42, %43, %44, %45, %46, %47",
                   VITAMIN_F48, 48, 49, 50, 51)
VITAMIN_WGMMA_BOTH(112, VITAMIN_R30 VITAMIN_R10(3) VITAMIN_R10(4) "%50, %51, %52, %53, %54, %55",
                   VITAMIN_F56, 56, 57, 58, 59)
VITAMIN_WGMMA_BOTH(128, VITAMIN_R60 "%60, %61, %62, %63", VITAMIN_F64, 64, 65, 66, 67)
VITAMIN_WGMMA_BOTH(144, VITAMIN_R60 VITAMIN_R10(6) "%70, %71", VITAMIN_F72, 72, 73, 74, 75)
VITAMIN_WGMMA_BOTH(160,
                   VITAMIN_R60 VITAMIN_R10(6) "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79",
                   VITAMIN_F80, 80, 81, 82, 83)
VITAMIN_WGMMA_BOTH(176,
                   VITAMIN_R60 VITAMIN_R10(6)
                       VITAMIN_R10(7) "%80, %81, %82, %83, %84, %85, %86, %87",
                   VITAMIN_F88, 88, 89, 90, 91)
VITAMIN_WGMMA_BOTH(192, VITAMIN_R90 "%90, %91, %92, %93, %94, %95", VITAMIN_F96, 96, 97, 98, 99)
VITAMIN_WGMMA_BOTH(208, VITAMIN_R90 VITAMIN_R10(9) "%100, %101, %102, %103", VITAMIN_F104, 104, 105,
                   106, 107)
VITAMIN_WGMMA_BOTH(256, VITAMIN_R120 "%120, %121, %122, %123, %124, %125, %126, %127", VITAMIN_F128,
                   128, 129, 130, 131)

}  // namespace vitamin::ptx
