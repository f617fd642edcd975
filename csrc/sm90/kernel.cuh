// The production kernel of the Hopper path.
//
// A persistent block: a thread each copies tiles of a and of b by TMA into a ring of stages; one to
// three warpgroups multiply, each 64 rows of a tile, by wgmma. Of large tiles the copying threads
// are those of one more warpgroup, which gives its registers to the others; of small ones, of two
// warps. The tensor cores always have work: the products of one k-tile stay under way while those
// of the next are issued, and a finished tile is only rounded into registers: its boxes go out
// under the first k-tiles of the next one.
//
// A cluster works on a group of tiles: those below each other share tiles of b, those side by side
// tiles of a, of which each block copies a part to all. With K split, it has blocks for every part.
// Group i of the matrices of the batch goes to cluster i modulo their number.
//
// A launch may start before the kernel before it has ended, and sets up meanwhile.
//
// Barriers: `full` of each stage, 2 arrivals (a producer's each) and the bytes of both tiles;
// `empty` of each stage, a lane of each consumer warp of each block that this one copies to: all of
// them are waited for before the exit. A cluster barrier after their initialisation. Named barriers
// 1 to 3, one a consumer; 4, all. Shared memory: config.cuh. Registers: 40 a producer thread and
// 232 (152 of three consumers) a consumer thread where they are moved.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>
#include <utility>

#include "../ptx/cluster.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/grid.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/shared.cuh"
#include "../ptx/warpgroup.cuh"
#include "../ptx/wgmma.cuh"
#include "config.cuh"
#include "direct_store.cuh"
#include "splitk.cuh"
#include "store.cuh"
#include "work.cuh"

namespace vitamin::sm90 {

template <class C>
struct Consumer {
  using T = typename C::T;
  const Params& p;
  const Maps& maps;
  unsigned char* shared;
  RingBarriers<C::Stages> ring;
  ClusterPlace place;
  int id;
  RingPlace<C::Stages> at;
  uint32_t empty = 0;  // `empty` of stage 0 of the block that this lane gives stages back to

  // Gives the stage before `at` back to the producers that fill it.
  __device__ __forceinline__ void release() {
    const int stage = at.stage == 0 ? C::Stages - 1 : at.stage - 1;
    if (empty) ptx::mbarrier_arrive_cluster(empty + stage * 8);
  }

  __device__ __forceinline__ void run() {
    const GemmParams& gemm = p.gemm;
    const uint32_t tiles = ptx::shared_address(shared);
    const int rows = id * 64, barrier = 1 + id;
    const uint32_t staging = tiles + C::StagingAt + id * (C::StagingBytes / C::Consumers);
    const int lane = threadIdx.x % 32;
    if (lane < place.sources(p)) {
      empty = ptx::cluster_address(ring.empty(0), place.source(p, lane));
    }
    StoreTarget target{&maps.c, staging, barrier, threadIdx.x % kWarpgroup == 0};
    const uint64_t a_start = C::A::descriptor(tiles, rows);
    const uint64_t b_start = C::B::descriptor(tiles + C::A::kBytes, 0);
    typename C::Accumulators acc;
    uint32_t packed[C::BN / 4];  // the tile before, on its way out
    bool pending = false;
    StorePlace stored{0, 0, 0};

    // Issues the products of a k-tile, and gives the stage before back when its own are done.
    const auto multiply = [&](bool first, auto&& meanwhile) {
      ptx::mbarrier_wait(ring.full(at.stage), at.parity);
      const uint64_t offset = at.stage * (C::StageBytes >> 4);
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        ptx::Wgmma<T, C::BN, C::TransposeA, C::TransposeB>::run(
            acc, a_start + offset + step * C::A::kStep, b_start + offset + step * C::B::kStep);
      }
      ptx::wgmma_commit();
      meanwhile();
      ptx::wgmma_wait<1>();
      if (!first) release();
      at.advance();
    };
    // What is sent under a k-tile: a box by TMA; by the threads half of one, or all of it.
    const auto send = [&](auto piece, bool last = false) {
      if constexpr (C::Out == Store::kTma) {
        store_box<C::Buffers, piece.value>(packed, target, stored);
      } else if constexpr (C::Out == Store::kRows) {
        constexpr int kBox = piece.value / 2, kHalf = piece.value % 2;
        const bool all = last || gemm.k >= kDeepK;
        if (kHalf == 1 && all) return;
        // What can be found out again takes no register meanwhile.
        const int now = (ptx::thread_now() - C::FirstConsumer) / kWarpgroup;
        const uint32_t box = tiles + C::StagingAt + now * (C::StagingBytes / C::Consumers);
        const int64_t c_offset = stored.index * gemm.batch.c[0];
        const auto to = BoxOfRows::get(gemm, c_offset, stored.m, stored.n + kBox * kStoreColumns);
        if (kHalf == 0) put_box(packed + kBox * kBoxRegisters, box, 1 + now);
        copy_box_out(box, to, kHalf, all ? 2 : kHalf + 1);
      }
    };
    using Sent = std::make_integer_sequence<int, C::Sent>;

    WorkList<C> list(p, place);
    ptx::wait_for_kernels_before();
    for (; !list.done(); list.advance()) {
#pragma unroll
      for (float& x : acc) x = 0.0f;
      const Work work = list.now();
      int kt = work.k_begin;
      if (pending && work.k_end - kt >= C::Sent) {
        for_each(Sent(), [&](auto i) { multiply(i.value == 0, [&] { send(i); }); });
        kt += C::Sent;
      } else if (pending) {
        for_each(Sent(), [&](auto i) { send(i, true); });
      }
      pending = false;
      for (; kt < work.k_end; ++kt) multiply(kt == work.k_begin, [] {});
      ptx::wgmma_wait<0>();
      ptx::pin(acc);
      if (work.k_end > work.k_begin) release();

      const int m0 = work.m0 + rows;
      if (gemm.splits > 1) {
        reduce_and_store<T, C::Consumers>(acc, p, place, id, shared, work.index * gemm.batch.c[0],
                                          m0, work.n0);
        continue;
      }
      if (work.m0 >= gemm.m || work.n0 >= gemm.n) continue;  // of a group that c ends within
      finish<T>(acc, gemm, m0, work.n0);
      if constexpr (C::Out == Store::kDirect) {
        store_straight<T>(acc, p, work.index * gemm.batch.c[0], m0, work.n0);
      } else {
        pack<T>(acc, packed);
        pending = true;
        stored = {m0, work.n0, work.index};
      }
    }
    if (pending) for_each(Sent(), [&](auto i) { send(i, true); });
    if (C::Out == Store::kTma && target.leader) ptx::tma_store_wait_read<0>();
  }

 private:
  // From this K on, whole boxes of rows under every second k-tile cost less than halves under each.
  static constexpr int kDeepK = 2048;

  // Calls f with each number as a type.
  template <int... I, class F>
  static __device__ __forceinline__ void for_each(std::integer_sequence<int, I...>, const F& f) {
    (f(std::integral_constant<int, I>()), ...);
  }
};

// What copies the tiles of an operand: a thread each.
template <class C, bool IsA>
__device__ __forceinline__ void produce(const Params& p, const Maps& maps, uint32_t tiles,
                                        RingBarriers<C::Stages> ring, ClusterPlace place) {
  using Operand = std::conditional_t<IsA, typename C::A, typename C::B>;
  const CUtensorMap& map = IsA ? maps.a : maps.b;
  const Share share = IsA ? place.share_of_a(p) : place.share_of_b(p);
  const int rows = IsA ? p.a_rows : p.b_rows, step = IsA ? p.a_step : p.b_step;
  if (!IsA) tiles += C::A::kBytes;
  RingPlace<C::Stages> at;
  WorkList<C> list(p, place);
  ptx::wait_for_kernels_before();
  for (; !list.done(); list.advance()) {
    const Work work = list.now();
    for (int kt = work.k_begin; kt < work.k_end; ++kt, at.advance()) {
      const uint32_t full = ring.full(at.stage);
      ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, rows * 128);
      Operand::load(tiles + at.stage * C::StageBytes, map, full, rows, kt * 64,
                    IsA ? work.m0 : work.n0, work.index * step, share);
    }
  }
  // Blocks of the next kernel that came earlier would only be in the way.
  ptx::let_next_kernel_start();
  // Others give stages back to this block, which must still be there.
  if (IsA) {
    for (int s = 0; s < C::Stages; ++s, at.advance()) {
      ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
    }
  }
}

template <class C>
__global__ void __launch_bounds__(C::Threads, C::BlocksPerSm)
    gemm_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const RingBarriers<C::Stages> ring{tiles + C::RingAt};
  const ClusterPlace place = ClusterPlace::get(p);
  const bool alone = p.cluster_m * p.cluster_n * p.gemm.splits == 1;
  if (threadIdx.x == 0) {
    if (p.gemm.k > 0) {
      ptx::prefetch_tensor_map(maps.a);
      ptx::prefetch_tensor_map(maps.b);
    }
    for (int s = 0; s < C::Stages; ++s) {
      ptx::mbarrier_init(ring.full(s), 2);
      ptx::mbarrier_init(ring.empty(s), place.sources(p) * C::Consumers * 4);
    }
    ptx::fence_mbarrier_init();
  }
  if (alone) {
    __syncthreads();
  } else {
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }
  const int consumer = (int(threadIdx.x) - C::FirstConsumer) >> 7;
  if (consumer < 0 || consumer >= C::Consumers) {
    if constexpr (C::MovesRegisters) ptx::release_registers<40>();
    const int producer = int(threadIdx.x) - C::Producer;
    if (producer == 0) produce<C, true>(p, maps, tiles, ring, place);
    if (producer == 32) produce<C, false>(p, maps, tiles, ring, place);
    if (p.gemm.splits > 1) {
      // The barriers of reduce_and_store.
      __syncwarp();
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
      ptx::cluster_arrive_relaxed();
      ptx::cluster_wait();
    }
  } else {
    if constexpr (C::MovesRegisters) ptx::take_registers<C::Registers>();
    Consumer<C>{p, maps, shared, ring, place, consumer, {}}.run();
  }
#endif
}

}  // namespace vitamin::sm90
