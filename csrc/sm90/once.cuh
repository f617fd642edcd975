// The kernel for rows of any alignment and K up to 1024: a block makes one tile of 64x64 and is
// done.
//
// Its threads copy lines of a and b as they lie in memory, by cp.async, through a ring of three
// stages of 64 of K; warps multiply 16 rows each by mma.sync, reading element by element what
// begins anywhere in shared memory, and store. Nothing is set up, nothing is copied twice, and
// several blocks an SM hide each other's latency: what takes longest where there is little to
// multiply.
//
// Shared memory: for each stage 64 lines of a and of b; then a box of c in their place.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "../ptx/grid.cuh"
#include "../ptx/mma.cuh"
#include "config.cuh"
#include "direct_store.cuh"
#include "line_tile.cuh"
#include "store.cuh"

namespace vitamin::sm90 {

// Adds up a warp's 16 rows from `row` on and `Columns` columns from `column` on of a stage of both
// tiles, of which `depth` of K count.
template <class T, int Columns, bool PairsA, bool PairsB, class A, class B>
__device__ __forceinline__ void multiply_stage(float (&acc)[Columns / 2], const A& a, const B& b,
                                               uint32_t stage, int row, int column, int depth) {
  const int lane = threadIdx.x % 32, k = lane % 4 * 2;
  const auto from_a = a.place(stage, row + lane / 4);
  const auto from_b = b.place(stage + kOnceTileBytes, column + lane / 4);
#pragma unroll 1
  for (int k8 = 0; k8 * 8 < depth; k8 += 2) {
    // What lies beyond K is whatever was there.
    const int left = depth - k8 * 8;
    const auto mask = [&](int from) {
      return left >= from + 2 ? ~0u : left == from + 1 ? 0xffffu : 0u;
    };
    const uint32_t low = mask(k), high = mask(k + 8);
    uint32_t x[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) x[i] = A::template read<PairsA>(from_a, i % 2, k8 + i / 2);
    if (left < 16) {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] &= i < 2 ? low : high;
    }
#pragma unroll
    for (int first = 0; first < Columns / 8; first += 4) {
      if (first > 0 && first * 8 >= b.rows()) continue;
      uint32_t y[4][2];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        y[j][0] = B::template read<PairsB>(from_b, first + j, k8);
        y[j][1] = B::template read<PairsB>(from_b, first + j, k8 + 1);
      }
      if (left < 16) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          y[j][0] &= low;
          y[j][1] &= high;
        }
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        ptx::mma_m16n8k16<T>(reinterpret_cast<float (&)[4]>(acc[(first + j) * 4]), x, y[j]);
      }
    }
  }
}

// ARows, BRows: K is contiguous. Of 8 warps, each makes 32 columns, of 4, 64.
template <class T, bool ARows, bool BRows, Store Out, int Warps>
__global__ void __launch_bounds__(Warps * 32, once_blocks(Warps))
    once_kernel(const __grid_constant__ Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const GemmParams& g = p.gemm;
  const uint32_t group = blockIdx.x / p.groups_a_matrix;
  const uint32_t at = blockIdx.x - group * p.groups_a_matrix;
  const uint32_t below = at / p.groups_n;
  const int m0 = int(below) * 64, n0 = int(at - below * p.groups_n) * 64, k = int(g.k);
  const BatchOffset offset = batch_offset(g.batch, group);
  constexpr int kColumns = 256 / Warps, kThreads = Warps * 32;
  const LineTile<ARows, kThreads> a(static_cast<const T*>(g.a) + offset.a, g.a_outer, g.a_inner, m0,
                                    g.m, k);
  const LineTile<BRows, kThreads> b(static_cast<const T*>(g.b) + offset.b, g.b_outer, g.b_inner, n0,
                                    g.n, k);
  ptx::wait_for_kernels_before();
  float acc[kColumns / 2] = {};
  const int warp = threadIdx.x / 32, row = warp % 4 * 16, column = warp / 4 * kColumns;
  const int stages = (k + 63) / 64;
  const bool pairs_a = ARows && g.a_align >= 4, pairs_b = BRows && g.b_align >= 4;
  RingPlace<kOnceStages> to, from;
#pragma unroll 1
  for (int i = 0; i < stages + kOnceStages - 1; ++i) {
    if (i < stages) {
      if (i >= kOnceStages) __syncthreads();  // of the products before
      auto late_a = a.copy(tiles + to.stage * kOnceStageBytes, i * 64);
      auto late_b = b.copy(tiles + to.stage * kOnceStageBytes + kOnceTileBytes, i * 64);
      late_a.write();
      late_b.write();
      to.advance();
    }
    ptx::cp_async_commit();
    const int now = i - (kOnceStages - 1);
    if (now < 0) continue;
    ptx::cp_async_wait<kOnceStages - 1>();
    __syncthreads();
    if (i + 1 >= stages) ptx::let_next_kernel_start();
    if (row < a.rows() && column < b.rows()) {
      const auto multiply = [&](auto with_a, auto with_b) {
        multiply_stage<T, kColumns, with_a.value, with_b.value>(
            acc, a, b, tiles + from.stage * kOnceStageBytes, row, column, min(k - now * 64, 64));
      };
      constexpr std::bool_constant<ARows> in_a;
      constexpr std::bool_constant<BRows> in_b;
      constexpr std::false_type by_element;
      if (pairs_a && pairs_b) {
        multiply(in_a, in_b);
      } else if (pairs_a) {
        multiply(in_a, by_element);
      } else if (pairs_b) {
        multiply(by_element, in_b);
      } else {
        multiply(by_element, by_element);
      }
    }
    from.advance();
  }

  finish<T>(acc, g, m0, n0 + column);
  if constexpr (Out == Store::kDirect) {
    store_straight<T>(acc, p, offset.c, m0, n0 + column);
  } else {
    uint32_t packed[kColumns / 4];
    pack<T>(acc, packed);
    __syncthreads();
    fill_box<kColumns / 16>(packed, tiles, ptx::thread_now(), column / 16);
    __syncthreads();
    const auto to = BoxOfRows::get(g, offset.c, m0, n0);
    copy_box_out(tiles, to, warp / 4, Warps == 4 ? 2 : warp / 4 + 1);
  }
#endif
}

}  // namespace vitamin::sm90
