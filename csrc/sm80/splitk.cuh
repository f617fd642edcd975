// Deterministic split-K in one kernel: every part of a tile leaves its fp32 accumulators in the
// workspace, and whichever block of the tile comes last adds them all up in the order of K.
// The order of arrival decides only who adds, never what is added to what.
#pragma once

#include "../common/gemm_params.h"

namespace vitamin::sm80 {

// Replaces acc by the sum over all parts in the last block of a tile; false in the others.
template <class C>
__device__ __forceinline__ bool reduce_splits(float (&acc)[C::MI][C::NI][4], const GemmParams& p,
                                              int64_t tile, int split, void* smem) {
  constexpr int vectors = C::MI * C::NI;
  float4* base =
      reinterpret_cast<float4*>(p.partial) + tile * p.splits * vectors * C::Threads + threadIdx.x;
  float4* mine = base + int64_t(split) * vectors * C::Threads;
#pragma unroll
  for (int v = 0; v < vectors; ++v) {
    const float* f = acc[v / C::NI][v % C::NI];
    mine[v * C::Threads] = make_float4(f[0], f[1], f[2], f[3]);
  }
  __threadfence();
  __syncthreads();
  unsigned* last = static_cast<unsigned*>(smem);
  if (threadIdx.x == 0) *last = atomicAdd(p.arrived + tile, 1u) == unsigned(p.splits - 1);
  __syncthreads();
  const bool is_last = *last;
  __syncthreads();  // smem is the epilogue's from here on
  if (!is_last) return false;
  __threadfence();
#pragma unroll
  for (int v = 0; v < vectors; ++v) {
    float4 sum = base[v * C::Threads];
    for (int s = 1; s < p.splits; ++s) {
      const float4 part = base[(int64_t(s) * vectors + v) * C::Threads];
      sum.x += part.x;
      sum.y += part.y;
      sum.z += part.z;
      sum.w += part.w;
    }
    float* f = acc[v / C::NI][v % C::NI];
    f[0] = sum.x;
    f[1] = sum.y;
    f[2] = sum.z;
    f[3] = sum.w;
  }
  return true;
}

}  // namespace vitamin::sm80
