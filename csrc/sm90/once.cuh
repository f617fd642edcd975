// The kernel for K up to 128 and rows of any alignment: a block makes one tile of 64x64 and is
// done.
//
// Its threads copy all that they need of a and b at once, by cp.async or through registers,
// multiply by wgmma and store. Nothing is set up, and several blocks an SM hide each other's
// latency: what takes longest where there is so little to multiply.
//
// Shared memory: for each 64 of K a tile of a and one of b, as Operand lays them out; then a box
// of c in the place of the first.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "../dispatch/stream_shape.h"
#include "../ptx/cp_async.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/grid.cuh"
#include "../ptx/wgmma.cuh"
#include "config.cuh"
#include "direct_store.cuh"
#include "store.cuh"
#include "tile_copy.cuh"

namespace vitamin::sm90 {

// What the copies of a k-tile need to know.
template <class C>
struct OnceTile {
  using T = typename C::T;
  using CopyA = TileCopy<T, C::TransposeA == 0, C::BM>;
  using CopyB = TileCopy<T, C::TransposeB == 0, C::BN>;

  const GemmParams& g;
  BatchOffset offset;
  int m0, n0;

  __device__ __forceinline__ CopyA copy_a(int k0) const {
    return CopyA(static_cast<const T*>(g.a) + offset.a, g.a_outer, g.a_inner, g.a_align, m0, g.m,
                 k0);
  }
  __device__ __forceinline__ CopyB copy_b(int k0) const {
    return CopyB(static_cast<const T*>(g.b) + offset.b, g.b_outer, g.b_inner, g.b_align, n0, g.n,
                 k0);
  }
};

template <class C>
__global__ void __launch_bounds__(kWarpgroup, kOnceBlocks)
    once_kernel(const __grid_constant__ Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using T = typename C::T;
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const GemmParams& g = p.gemm;
  const uint32_t group = blockIdx.x / p.groups_a_matrix;
  const uint32_t at = blockIdx.x - group * p.groups_a_matrix;
  const uint32_t row = at / p.groups_n;
  const OnceTile<C> tile{g, batch_offset(g.batch, group), int(row) * C::BM,
                         int(at - row * p.groups_n) * C::BN};
  const int k = int(g.k);

  // What lies beyond rows and columns of the matrices is not copied: it makes values that are not
  // stored. K is filled up to 16, 32 or 64.
  const int rows_a = int(min(g.m - tile.m0, int64_t(C::BM)));
  const int rows_b = int(min(g.n - tile.n0, int64_t(C::BN)));
  const auto lines = [](int k_left) { return k_left <= 16 ? 16 : k_left <= 32 ? 32 : 64; };
  const auto begin = [&](auto& a, auto& b, uint32_t to, int k_left) {
    a.begin(to, min(k_left, 64), C::TransposeA ? lines(k_left) : rows_a);
    b.begin(to + C::A::kBytes, min(k_left, 64), C::TransposeB ? lines(k_left) : rows_b);
  };
  const auto end = [&](auto& a, auto& b, uint32_t to) {
    a.end(to);
    b.end(to + C::A::kBytes);
  };

  ptx::wait_for_kernels_before();
  if (k > 0) {
    auto a = tile.copy_a(0);
    auto b = tile.copy_b(0);
    begin(a, b, tiles, k);
    if (k > 64) {
      auto a_next = tile.copy_a(64);
      auto b_next = tile.copy_b(64);
      begin(a_next, b_next, tiles + C::StageBytes, k - 64);
      end(a_next, b_next, tiles + C::StageBytes);
    }
    end(a, b, tiles);
  }
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  ptx::fence_proxy_async();
  __syncthreads();
  ptx::let_next_kernel_start();

  typename C::Accumulators acc;
#pragma unroll
  for (float& x : acc) x = 0.0f;
  const uint64_t a_start = C::A::descriptor(tiles, 0);
  const uint64_t b_start = C::B::descriptor(tiles + C::A::kBytes, 0);
  const auto multiply = [&](int k0, auto steps) {
    const uint64_t stage = k0 / 64 * (C::StageBytes >> 4);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < decltype(steps)::value; ++step) {
      ptx::Wgmma<T, C::BN, C::TransposeA, C::TransposeB>::run(
          acc, a_start + stage + step * C::A::kStep, b_start + stage + step * C::B::kStep);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    ptx::pin(acc);
  };
#pragma unroll 1
  for (int k0 = 0; k0 < k; k0 += 64) {
    if (k - k0 <= 16) {
      multiply(k0, std::integral_constant<int, 1>());
    } else if (k - k0 <= 32) {
      multiply(k0, std::integral_constant<int, 2>());
    } else {
      multiply(k0, std::integral_constant<int, 4>());
    }
  }

  finish<T>(acc, g, tile.m0, tile.n0);
  if constexpr (C::Out == Store::kDirect) {
    store_straight<T>(acc, p, tile.offset.c, tile.m0, tile.n0);
  } else {
    uint32_t packed[C::BN / 4];
    pack<T>(acc, packed);
    store_rows<0>(packed, tiles, 1, g, tile.offset.c, {tile.m0, tile.n0, int(group)});
  }
#endif
}

}  // namespace vitamin::sm90
