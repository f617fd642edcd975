// Step 1: cp.async, ldmatrix and mma.sync, and nothing hidden.
//
// Each k-tile: copy it to shared memory, wait, multiply, wait until all have read it. The copies
// and the tensor cores take turns. Rows of the A tile are 64 bytes, rows of the B tile 256: the 8
// rows that an ldmatrix reads at once fall into 2 (A) or 1 (B) groups of 4 banks, so the reads
// conflict.
//
// Barriers: two __syncthreads a k-tile (tile has landed; tile has been read).
// Shared memory: A 128x32, B 32x128: 16 KB. Registers: 64 accumulators, 24 of fragments.
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm80_ladder {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads, 2) naive_kernel(const __grid_constant__ GemmParams p) {
  __shared__ __align__(128) T a_tile[kBM * kBK];
  __shared__ __align__(128) T b_tile[kBK * kBN];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;
  const TileCoord tile = strip_raster(blockIdx.x, p.tiles_m, p.tiles_n, kStrip);
  const int64_t m0 = tile.m * kBM, n0 = tile.n * kBN;
  const int m_left = left(m0, p.m, kBM), n_left = left(n0, p.n, kBN);
  const T* const a_rows = static_cast<const T*>(p.a) + m0 * p.a_outer;
  const T* const b_columns = static_cast<const T*>(p.b) + n0;

  Accumulators acc = {};
  for (int64_t k0 = 0; k0 < p.k; k0 += kBK) {
    const int k_left = left(k0, p.k, kBK);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int a_row = tid / 4 + i * 64, a_chunk = tid % 4;
      copy_chunk(a_tile + a_row * kBK + a_chunk * 8, a_rows + k0, p.a_outer, a_row, a_chunk * 8,
                 m_left, k_left);
      const int b_row = tid / 16 + i * 16, b_chunk = tid % 16;
      copy_chunk(b_tile + b_row * kBN + b_chunk * 8, b_columns + k0 * p.b_outer, p.b_outer, b_row,
                 b_chunk * 8, k_left, n_left);
    }
    ptx::cp_async_commit();
    ptx::cp_async_wait<0>();
    __syncthreads();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      uint32_t a[kMI][4], b[kNI][2];
#pragma unroll
      for (int i = 0; i < kMI; ++i) {
        const RowChunk at = ldmatrix_a_k_major(lane);
        const int row = warp_m + i * 16 + at.row, chunk = step * 2 + at.chunk;
        ptx::ldmatrix_x4(a[i], ptx::shared_address(a_tile + row * kBK + chunk * 8));
      }
#pragma unroll
      for (int j = 0; j < kNI; ++j) {
        const int row = step * 16 + lane % 16, chunk = (warp_n + j * 8) / 8;
        ptx::ldmatrix_x2_trans(b[j], ptx::shared_address(b_tile + row * kBN + chunk * 8));
      }
#pragma unroll
      for (int i = 0; i < kMI; ++i) {
#pragma unroll
        for (int j = 0; j < kNI; ++j) ptx::mma_m16n8k16<T>(acc[i][j], a[i], b[j]);
      }
    }
    __syncthreads();
  }
  store_accumulators<T>(acc, p, m0 + warp_m, n0 + warp_n);
}

}  // namespace

int launch_naive(const LaunchArgs& args) {
  return launch_step(naive_kernel<__half>, naive_kernel<__nv_bfloat16>, args);
}

}  // namespace vitamin::sm80_ladder
