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
  // 16 vectors at a time: their loads don't wait for each other, and fit in registers.
  constexpr int group = vectors < 16 ? vectors : 16;
#pragma unroll
  for (int first = 0; first < vectors; first += group) {
    float4 sum[group] = {};
#pragma unroll 1
    for (int s = 0; s < p.splits; ++s) {
      const float4* part = base + (int64_t(s) * vectors + first) * C::Threads;
#pragma unroll
      for (int v = 0; v < group; ++v) {
        const float4 x = part[v * C::Threads];
        sum[v].x += x.x;
        sum[v].y += x.y;
        sum[v].z += x.z;
        sum[v].w += x.w;
      }
    }
#pragma unroll
    for (int v = 0; v < group; ++v) {
      float* f = acc[(first + v) / C::NI][(first + v) % C::NI];
      f[0] = sum[v].x;
      f[1] = sum[v].y;
      f[2] = sum[v].z;
      f[3] = sum[v].w;
    }
  }
  return true;
}

}  // namespace vitamin::sm80
