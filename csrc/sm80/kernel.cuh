// The production kernel of the mma.sync path: one block an output tile and part of K.
//
// Roles: all warps copy (cp.async), all multiply; WarpsM x WarpsN of them, WM x WN of the tile
// each. Barriers: __syncthreads only; see mainloop.cuh. Shared memory: the ring of mainloop.cuh,
// then the epilogue's patches in the same bytes. Registers: WM·WN/32 accumulators and two sets of
// fragments.
#pragma once

#include "../common/raster.h"
#include "../ptx/grid.cuh"
#include "mainloop.cuh"
#include "splitk.cuh"
#include "store.cuh"

namespace vitamin::sm80 {

// Which output tile, of which batch, and which part of K a block works on.
template <class C>
struct Place {
  int64_t tile;  // over all batches
  int split;
  int64_t m_begin, n_begin;
  BatchOffset offset;

  __device__ __forceinline__ Place(const GemmParams& p, unsigned block_index) {
    const int64_t block = p.first_block + block_index;
    tile = block / p.splits;
    split = int(block - tile * p.splits);
    const int64_t tiles_a_matrix = p.tiles_m * p.tiles_n;
    const int64_t batch = p.batch.dims ? tile / tiles_a_matrix : 0;
    const TileCoord at = strip_raster(tile - batch * tiles_a_matrix, p.tiles_m, p.tiles_n, kStrip);
    m_begin = at.m * C::BM;
    n_begin = at.n * C::BN;
    offset = batch_offset(p.batch, batch);
  }
};

template <class C, int BlocksPerSm>
__global__ void __launch_bounds__(C::Threads, BlocksPerSm)
    gemm_kernel(const __grid_constant__ GemmParams p) {
  extern __shared__ __align__(1024) unsigned char smem[];
  using T = typename C::T;

  ptx::let_next_kernel_start();
  ptx::wait_for_kernels_before();
  const Place<C> at(p, blockIdx.x);
  const int k_tiles = int(ceil_div(p.k, C::BK));
  const TileRange range = split_range(k_tiles, p.splits, at.split);
  const int64_t k_begin = int64_t(range.begin) * C::BK;

  typename C::LoaderA load_a(static_cast<const T*>(p.a) + at.offset.a, p.a_outer, p.a_inner,
                             at.m_begin, p.a_mn - at.m_begin, k_begin, p.a_align);
  typename C::LoaderB load_b(static_cast<const T*>(p.b) + at.offset.b, p.b_outer, p.b_inner,
                             at.n_begin, p.b_mn - at.n_begin, k_begin, p.b_align);
  float acc[C::MI][C::NI][4] = {};
  const int tiles = range.end - range.begin;
  const int64_t k_last = k_begin + int64_t(tiles - 1) * C::BK;
  const auto tail = [&](int64_t k) { return int(k - k_last < C::BK ? k - k_last : C::BK); };
  const uint32_t ring = ptx::shared_address(smem);
  // With any alignment the bounds cost little beside the copies: one main loop is enough.
  if (!C::AnyAlign && at.m_begin + C::BM <= p.m && at.n_begin + C::BN <= p.n) {
    Mainloop<C>::template run<true>(acc, load_a, load_b, ring, tiles, tail(p.a_k), tail(p.b_k));
  } else {
    Mainloop<C>::template run<false>(acc, load_a, load_b, ring, tiles, tail(p.a_k), tail(p.b_k));
  }
  if (p.splits > 1 && !reduce_splits<C>(acc, p, at.tile, at.split, smem)) return;
  TileStore<C>::run(acc, p, at.offset.c, at.m_begin, at.n_begin, reinterpret_cast<float*>(smem));
}

}  // namespace vitamin::sm80
