// Step 4: as step 3, with C going out through shared memory, so that the stores are coalesced.
//
// The accumulators of a lane are pairs scattered over 8 rows: stored straight, a warp touches half
// a 32-byte sector in each. Two buffers of A and B are exactly as large as the 128x128 tile of C in
// 16 bits: the tile is put together there, swizzled (chunk ^ (row & 7)) so that neither side
// conflicts, and leaves in 16-byte stores, 8 a thread, 256 contiguous bytes a half-warp.
//
// Barriers: one __syncthreads a k-tile as in step 3, two around the filling of the C tile.
// Shared memory: union of 2 x (A 128x32, B 32x128) and C 128x128: 32 KB. Registers: 64
// accumulators, 24 of fragments. A float32 C does not fit and is stored straight, in whole sectors.
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm80_ladder {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads)
    bcf_dbf_rw_kernel(const __grid_constant__ GemmParams p) {
  __shared__ __align__(128) T shared[2 * (kBM * kBK + kBK * kBN)];
  const auto a_tile = reinterpret_cast<T(*)[kBM * kBK]>(shared);
  const auto b_tile = reinterpret_cast<T(*)[kBK * kBN]>(shared + 2 * kBM * kBK);
  T* const c_tile = shared;
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 32;
  const TileCoord tile = strip_raster(blockIdx.x, p.tiles_m, p.tiles_n, kStrip);
  const int64_t m0 = tile.m * kBM, n0 = tile.n * kBN;

  const auto load = [&](int buffer, int64_t k0) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int a_row = tid / 4 + i * 64, a_chunk = tid % 4;
      copy_chunk(a_tile[buffer] + swizzled_offset<kBK>(a_row, a_chunk), p.a, p.a_outer, m0 + a_row,
                 k0 + a_chunk * 8, p.m, p.k);
      const int b_row = tid / 16 + i * 16, b_chunk = tid % 16;
      copy_chunk(b_tile[buffer] + swizzled_offset<kBN>(b_row, b_chunk), p.b, p.b_outer, k0 + b_row,
                 n0 + b_chunk * 8, p.k, p.n);
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
  if (p.out_f32) {
    store_accumulators<T>(acc, p, m0 + warp_m, n0 + warp_n);
    return;
  }

  ptx::cp_async_wait<0>();
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kMI; ++i) {
#pragma unroll
    for (int j = 0; j < kNI; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = warp_m + i * 16 + acc_row(lane, 2 * half);
        const int column = warp_n + j * 8 + acc_col(lane, 0);
        float v[2] = {acc[i][j][2 * half], acc[i][j][2 * half + 1]};
        if (p.bias || p.activation != Activation::kNone) finish_pair<T>(v, p, n0 + column);
        T* at = c_tile + swizzled_offset<kBN>(row, column / 8) + column % 8;
        *reinterpret_cast<uint32_t*>(at) = pack2<T>(v[0], v[1]);
      }
    }
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int row = tid / 16 + i * 16, chunk = tid % 16;
    store_chunk(c_tile + swizzled_offset<kBN>(row, chunk), p, m0 + row, n0 + chunk * 8);
  }
}

}  // namespace

int launch_bcf_dbf_rw(const LaunchArgs& args) {
  return launch_step(bcf_dbf_rw_kernel<__half>, bcf_dbf_rw_kernel<__nv_bfloat16>, args);
}

}  // namespace vitamin::sm80_ladder
