// From a warpgroup's accumulators to global memory: bias, activation, rounding, direct stores.
#pragma once

#include "epilogue.cuh"
#include "gemm_params.h"

namespace vitamin {

constexpr int kWarpgroup = 128;  // threads

// A warpgroup's accumulators of 64 rows: lane l of warp w has, of each 8 columns,
// columns 2 (l % 4) and the next, of rows 16 w + l / 4 and 8 below.
__device__ __forceinline__ int fragment_row() {
  return threadIdx.x % kWarpgroup / 32 * 16 + threadIdx.x % 32 / 4;
}
__device__ __forceinline__ int fragment_column() { return threadIdx.x % 4 * 2; }

// Adds the bias and applies the activation in place to a warpgroup's tile at (m0, n0). The
// registers go round in a circle, some at a time, so that the code for them is there once.
template <class T, int Count>
__device__ __forceinline__ void finish(float (&acc)[Count], const GemmParams& p, int64_t m0,
                                       int64_t n0) {
  if (p.bias == nullptr && p.activation == Activation::kNone) return;
  const T* const bias = static_cast<const T*>(p.bias);
  constexpr int Part = Count % 16 ? 8 : 16;
  static_assert(Count % Part == 0);
#pragma unroll 1
  for (int part = 0; part < Count / Part; ++part) {
    float v[Part];
#pragma unroll
    for (int i = 0; i < Part; ++i) {
      const int64_t n = n0 + part * (Part * 2) + i / 4 * 8 + fragment_column() + i % 2;
      const int64_t m = m0 + fragment_row() + i / 2 % 2 * 8;
      v[i] = acc[i];
      const bool inside = p.transposed ? m < p.m : n < p.n;
      if (bias && inside) v[i] += to_float(bias[(p.transposed ? m : n) * p.bias_stride]);
    }
    activate(p.activation, v);
#pragma unroll
    for (int i = 0; i < Count - Part; ++i) acc[i] = acc[i + Part];
#pragma unroll
    for (int i = 0; i < Part; ++i) acc[Count - Part + i] = v[i];
  }
}

template <class Out, int Count>
__device__ __forceinline__ void store_as(const float (&acc)[Count], const GemmParams& p,
                                         int64_t c_offset, int64_t m0, int64_t n0) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t m = m0 + fragment_row() + half * 8;
    if (m >= p.m) continue;
    Out* const row = static_cast<Out*>(p.c) + c_offset + m * p.c_row;
#pragma unroll
    for (int j = 0; j < Count / 4; ++j) {
      const int64_t n = n0 + j * 8 + fragment_column();
      const float lo = acc[j * 4 + half * 2], hi = acc[j * 4 + half * 2 + 1];
      if (p.c_vector && n + 1 < p.n) {
        if constexpr (sizeof(Out) == 4) {
          *reinterpret_cast<float2*>(row + n) = make_float2(lo, hi);
        } else {
          *reinterpret_cast<uint32_t*>(row + n) = pack2<Out>(lo, hi);
        }
      } else {
        if (n < p.n) row[n * p.c_col] = from_float<Out>(lo);
        if (n + 1 < p.n) row[(n + 1) * p.c_col] = from_float<Out>(hi);
      }
    }
  }
}

// Writes a warpgroup's tile at (m0, n0) of the matrix that begins at c_offset, as it lies in the
// registers: 4 lanes share 8 columns of a row, so a warp's store touches 8 rows, 16 bytes (32 in
// fp32) of each.
template <class T, int Count>
__device__ __forceinline__ void store_accumulators(const float (&acc)[Count], const GemmParams& p,
                                                   int64_t c_offset, int64_t m0, int64_t n0) {
  if (p.out_f32) {
    store_as<float>(acc, p, c_offset, m0, n0);
  } else {
    store_as<T>(acc, p, c_offset, m0, n0);
  }
}

}  // namespace vitamin
