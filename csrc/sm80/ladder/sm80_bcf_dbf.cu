// Step 3: as step 2, with two buffers: the copies of the next k-tile run under this one's mma.
//
// Barriers: one __syncthreads a k-tile: it says that this tile has landed and that nobody reads the
// buffer any more which the next copies fill.
// Shared memory: 2 x (A 128x32, B 32x128): 32 KB. Registers: 64 accumulators, 24 of fragments.
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm80_ladder {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    bcf_dbf_kernel(const __grid_constant__ GemmParams p) {
  __shared__ __align__(128) T a_tile[2][kBM * kBK];
  __shared__ __align__(128) T b_tile[2][kBK * kBN];
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;
  const TileCoord tile = strip_raster(blockIdx.x, p.tiles_m, p.tiles_n, kStrip);
  const int64_t m0 = tile.m * kBM, n0 = tile.n * kBN;
  const int m_left = left(m0, p.m, kBM), n_left = left(n0, p.n, kBN);
  const T* const a_rows = static_cast<const T*>(p.a) + m0 * p.a_outer;
  const T* const b_columns = static_cast<const T*>(p.b) + n0;

  const auto load = [&](int buffer, int64_t k0) {
    const int k_left = left(k0, p.k, kBK);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int a_row = tid / 4 + i * 64, a_chunk = tid % 4;
      copy_chunk(a_tile[buffer] + swizzled_offset<kBK>(a_row, a_chunk), a_rows + k0, p.a_outer,
                 a_row, a_chunk * 8, m_left, k_left);
      const int b_row = tid / 16 + i * 16, b_chunk = tid % 16;
      copy_chunk(b_tile[buffer] + swizzled_offset<kBN>(b_row, b_chunk), b_columns + k0 * p.b_outer,
                 p.b_outer, b_row, b_chunk * 8, k_left, n_left);
    }
    ptx::cp_async_commit();
  };

  Accumulators acc = {};
  int buffer = 0;
  load(buffer, 0);
  for (int64_t k0 = 0; k0 < p.k; k0 += kBK) {
    ptx::cp_async_wait<0>();
    __syncthreads();
    if (k0 + kBK < p.k) load(buffer ^ 1, k0 + kBK);
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      uint32_t a[kMI][4], b[kNI][2];
#pragma unroll
      for (int i = 0; i < kMI; ++i) {
        const RowChunk at = ldmatrix_a_k_major(lane);
        const int row = warp_m + i * 16 + at.row, chunk = step * 2 + at.chunk;
        ptx::ldmatrix_x4(a[i],
                         ptx::shared_address(a_tile[buffer] + swizzled_offset<kBK>(row, chunk)));
      }
#pragma unroll
      for (int j = 0; j < kNI; ++j) {
        const int row = step * 16 + lane % 16, chunk = (warp_n + j * 8) / 8;
        ptx::ldmatrix_x2_trans(
            b[j], ptx::shared_address(b_tile[buffer] + swizzled_offset<kBN>(row, chunk)));
      }
#pragma unroll
      for (int i = 0; i < kMI; ++i) {
#pragma unroll
        for (int j = 0; j < kNI; ++j) ptx::mma_m16n8k16<T>(acc[i][j], a[i], b[j]);
      }
    }
    buffer ^= 1;
  }
  store_accumulators<T>(acc, p, m0 + warp_m, n0 + warp_n);
}

}  // namespace

int launch_bcf_dbf(const LaunchArgs& args) {
  return launch_step(bcf_dbf_kernel<__half>, bcf_dbf_kernel<__nv_bfloat16>, args);
}

}  // namespace vitamin::sm80_ladder
