// Stores straight from the accumulators.
#pragma once

#include "../common/wgmma_store.cuh"
#include "../ptx/global.cuh"
#include "../ptx/movmatrix.cuh"
#include "config.cuh"

namespace vitamin::sm90 {

// Of the four lanes of a quad, lane i gets element i of all: x[s] from lane s.
__device__ __forceinline__ void transpose_quad(uint32_t (&x)[4]) {
  const int lane = threadIdx.x % 4;
#pragma unroll
  for (int far = 1; far <= 2; far *= 2) {
    const bool upper = lane & far;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i & far) continue;
      const uint32_t other = __shfl_xor_sync(~0u, upper ? x[i] : x[i + far], far);
      (upper ? x[i] : x[i + far]) = other;
    }
  }
}

// Stores 16 columns from n0 on of a warp's 16 rows from m0 on, a lane 8 elements: of a row of c,
// or, ByColumns, of a column. Where c ends, it ends with a multiple of 8.
template <class T, bool ByColumns>
__device__ __forceinline__ void store_pieces(const float* acc, const GemmParams& p,
                                             int64_t c_offset, int64_t m0, int64_t n0) {
  const int row = threadIdx.x % 32 / 4, lane = threadIdx.x % 4;
  // Of each 8 columns of the lane's two rows, its two.
  uint32_t x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int columns = ByColumns ? i / 2 : i % 2, half = ByColumns ? i % 2 : i / 2;
    x[i] = pack2<T>(acc[columns * 4 + half * 2], acc[columns * 4 + half * 2 + 1]);
    if (ByColumns) x[i] = ptx::movmatrix_trans(x[i]);
  }
  transpose_quad(x);
  const int64_t m = m0 + (ByColumns ? lane % 2 * 8 : lane / 2 * 8 + row);
  const int64_t n = n0 + (ByColumns ? lane / 2 * 8 + row : lane % 2 * 8);
  T* const to = static_cast<T*>(p.c) + c_offset + (ByColumns ? n * p.c_col + m : m * p.c_row + n);
  if (m < p.m && n < p.n) ptx::st_global_v4(to, x[0], x[1], x[2], x[3]);
}

// Writes a warpgroup's accumulators of 64 rows from m0 on and some columns from n0 on, of the
// matrix that begins at c_offset.
template <class T, int Count>
__device__ __forceinline__ void store_straight(const float (&acc)[Count], const Params& params,
                                               int64_t c_offset, int64_t m0, int64_t n0) {
  static_assert(Count % 8 == 0, "16 columns at once");
  if (params.pieces == Pieces::kNone) {
    store_accumulators<T>(acc, params.gemm, c_offset, m0, n0);
    return;
  }
  const int64_t m = m0 + threadIdx.x % kWarpgroup / 32 * 16;
  if (params.pieces == Pieces::kOfRows) {
#pragma unroll
    for (int i = 0; i < Count; i += 8) {
      store_pieces<T, false>(acc + i, params.gemm, c_offset, m, n0 + i * 2);
    }
  } else {
#pragma unroll
    for (int i = 0; i < Count; i += 8) {
      store_pieces<T, true>(acc + i, params.gemm, c_offset, m, n0 + i * 2);
    }
  }
}

}  // namespace vitamin::sm90
