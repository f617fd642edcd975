// Step 4: as step 3, with C going out through shared memory, so that the stores are coalesced.
//
// The accumulators of a lane are pairs scattered over 8 rows: stored straight, a warp touches half
// a 32-byte sector in each. Two buffers of A and B are exactly as large as the 128x128 tile of C in
// 16 bits: the tile is put together there, swizzled (chunk ^ (row & 7)) so that neither side
// conflicts, and leaves in 16-byte stores, 8 a thread, 256 contiguous bytes a half-warp.
//
// Barriers: one __syncthreads a k-tile as in step 3, two around the filling of the C tile.
// Shared memory: union of 2 x (A 128x32, B 32x128) and C 128x128: 32 KB. Registers: 64
// accumulators, 24 of fragments. A float32 C does not fit, and bias and activation would cost the
// main loop registers: those are stored straight, as in step 3.
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm80_ladder {
namespace {

template <class T>
__global__ void __launch_bounds__(kThreads, 2)
    bcf_dbf_rw_kernel(const __grid_constant__ GemmParams p) {
  struct Operands {
    T a[2][kBM * kBK];
    T b[2][kBK * kBN];
  };
  union Shared {
    Operands operands;
    T c[kBM * kBN];
    __device__ Shared() {}
  };
  __shared__ __align__(128) Shared shared;
  auto& a_tile = shared.operands.a;
  auto& b_tile = shared.operands.b;
  auto& c_tile = shared.c;
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
  if (p.out_f32 || p.bias || p.activation != Activation::kNone) {
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
        T* at = c_tile + swizzled_offset<kBN>(row, column / 8) + column % 8;
        *reinterpret_cast<uint32_t*>(at) = pack2<T>(acc[i][j][2 * half], acc[i][j][2 * half + 1]);
      }
    }
  }
  __syncthreads();
#pragma unroll 1
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
