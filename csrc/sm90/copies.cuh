// The producer that needs no TMA: a warpgroup copies tiles by cp.async, or through its registers.
//
// It takes rows of any alignment. For deep K it is slower than aligned copies of the operands and
// TMA, for shallow K a launch and its latency faster.
#pragma once

#include "../common/tile_loader.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/grid.cuh"
#include "../ptx/mbarrier.cuh"
#include "config.cuh"
#include "work.cuh"

namespace vitamin::sm90 {

// A tile of an operand of up to 64 rows (of a, or columns of b), in the layout in which Operand's
// boxes leave it.
template <class T, bool KMajor, int Rows>
class TileCopy {
 public:
  // Of `extent` rows from row0 on, K from k0 on.
  __device__ __forceinline__ TileCopy(const T* base, int64_t outer, int64_t inner, int align,
                                      int row0, int64_t extent, int k0)
      : loader_(base, outer, inner, row0, extent - row0, k0, align),
        contiguous_(inner == 1),
        piece_(align / 2) {}

  // Begins the copy of a k-tile, of which `k_left` indices are left.
  __device__ __forceinline__ void begin(uint32_t tile, int k_left) {
    // cp.async takes no odd addresses, and no pieces that end within K.
    by_registers_ = contiguous_ && (piece_ == 1 || (k_left < 64 && k_left % piece_ != 0));
    if (by_registers_) {
#pragma unroll
      for (int pass = 0; pass < Loader::kPasses; ++pass) {
        chunk_[pass] = loader_.read_pass(pass, k_left);
      }
    } else if (k_left < 64) {
      loader_.load_tail(tile, 0, k_left);
    } else {
#pragma unroll
      for (int pass = 0; pass < Loader::kPasses; ++pass) {
        loader_.template load_pass<false>(tile, pass);
      }
    }
  }

  // Writes what begin() has read into registers, and goes on to the next k-tile.
  __device__ __forceinline__ void end(uint32_t tile) {
    if (by_registers_) {
#pragma unroll
      for (int pass = 0; pass < Loader::kPasses; ++pass) {
        loader_.write_pass(tile, pass, chunk_[pass]);
      }
    }
    loader_.next_k_tile();
  }

  // Whether all is in shared memory after end().
  __device__ __forceinline__ bool by_registers() const { return by_registers_; }

 private:
  static_assert(KMajor || Rows == 64);
  using Loader = TileLoader<T, KMajor ? Rows : 64, 64, kWarpgroup, KMajor, true>;

  Loader loader_;
  uint4 chunk_[Loader::kPasses];
  bool contiguous_, by_registers_ = false;
  int piece_;  // elements that begin at a multiple of their bytes
};

// The threads of warpgroup 0. A stage is `full` when a lane of each of its warps has arrived.
template <class C>
__device__ __forceinline__ void produce_by_copies(const Params& p, uint32_t tiles,
                                                  RingBarriers<C::Stages> ring, int k_tiles) {
  using T = typename C::T;
  using CopyA = TileCopy<T, C::TransposeA == 0, C::BM>;
  using CopyB = TileCopy<T, C::TransposeB == 0, C::B::kBytes / 128>;
  // Copies of so many stages are under way. The consumers hold one or two stages more.
  constexpr int kUnderWay = C::Stages - 2;
  const GemmParams& g = p.gemm;
  RingPlace<C::Stages> at, landed;
  int pending = 0;
  const auto land = [&] {
    ptx::fence_proxy_async();
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(ring.full(landed.stage));
    landed.advance();
    --pending;
  };
  ptx::wait_for_kernels_before();
  for (uint32_t item = blockIdx.x; item < p.items; item += gridDim.x) {
    const Work work = get_work<C>(p, item, 0, k_tiles);
    const int k0 = work.k_begin * 64;
    CopyA a(static_cast<const T*>(g.a) + work.index * g.batch.a[0], g.a_outer, g.a_inner, g.a_align,
            work.m0, g.m, k0);
    CopyB b(static_cast<const T*>(g.b) + work.index * g.batch.b[0], g.b_outer, g.b_inner, g.b_align,
            work.n0, g.n, k0);
    for (int kt = work.k_begin; kt < work.k_end; ++kt, at.advance()) {
      const uint32_t a_tile = tiles + at.stage * C::StageBytes, b_tile = a_tile + C::A::kBytes;
      const int k_left = int(min(g.k - int64_t(kt) * 64, int64_t(64)));
      ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
      a.begin(a_tile, k_left);
      b.begin(b_tile, k_left);
      a.end(a_tile);
      b.end(b_tile);
      ptx::cp_async_commit();
      ++pending;
      if (a.by_registers() || b.by_registers()) {
        ptx::cp_async_wait<0>();
        while (pending > 0) land();
      } else if (pending > kUnderWay) {
        ptx::cp_async_wait<kUnderWay>();
        land();
      }
    }
  }
  ptx::cp_async_wait<0>();
  while (pending > 0) land();
  ptx::let_next_kernel_start();
}

}  // namespace vitamin::sm90
