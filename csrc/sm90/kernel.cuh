// The production kernel of the Hopper path.
//
// A persistent block: one thread copies tiles of a and b by TMA into a ring of stages; one or two
// warpgroups multiply, each 64 rows of a tile, by wgmma. Of large tiles the copying thread is that
// of a third warpgroup, which gives its registers to the others; of small ones, of a warp. Where a
// warpgroup copies instead of TMA: copies.cuh.
// The tensor cores always have work: the products of one k-tile stay under way while those of the
// next are issued, and a finished tile is only rounded into registers: its boxes go out under the
// first k-tiles of the next one. Blocks of a cluster work on tiles below each other and share b.
//
// Work items are the parts (split-K) of the tiles of the matrices of the batch, parts of a tile
// next to each other; item i goes to block (or cluster) i modulo their number.
//
// A launch may start before the kernel before it has ended, and sets up meanwhile.
//
// Barriers: `full` of each stage, 1 arrival (the producer's) and the bytes of both tiles, or 4 (of
// each copying warp); `empty` of each stage, a lane of each consumer warp of each block of the
// cluster. Cluster barriers after their initialisation and before the exit. Named barriers 1 and 2,
// one a consumer; 3, both. Shared memory: config.cuh. Registers: 40 a producer thread and 232 a
// consumer thread where they are moved.
#pragma once

#include <cuda_runtime.h>

#include "../ptx/cluster.cuh"
#include "../ptx/fence.cuh"
#include "../ptx/grid.cuh"
#include "../ptx/mbarrier.cuh"
#include "../ptx/shared.cuh"
#include "../ptx/warpgroup.cuh"
#include "../ptx/wgmma.cuh"
#include "config.cuh"
#include "copies.cuh"
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
  uint32_t rank;
  int k_tiles;
  int id;
  RingPlace<C::Stages> at;

  // Gives the stage before `at` back to the producers of all blocks of the cluster.
  __device__ __forceinline__ void release() {
    const uint32_t empty = ring.empty(at.stage == 0 ? C::Stages - 1 : at.stage - 1);
    const uint32_t lane = threadIdx.x % 32;
    if constexpr (C::Cluster == 1) {
      if (lane == 0) ptx::mbarrier_arrive(empty);
    } else {
      if (lane < C::Cluster) ptx::mbarrier_arrive_at(empty, lane);
    }
  }

  __device__ __forceinline__ void run() {
    const GemmParams& gemm = p.gemm;
    const uint32_t tiles = ptx::shared_address(shared);
    const int rows = id * 64, barrier = 1 + id;
    const uint32_t staging = tiles + C::StagingAt + id * (C::StagingBytes / C::Consumers);
    StoreTarget target{&maps.c, staging, barrier, threadIdx.x % kWarpgroup == 0};
    const uint64_t a_start = C::A::descriptor(tiles, rows);
    const uint64_t b_start = C::B::descriptor(tiles + C::A::kBytes, 0);
    typename C::Accumulators acc;
    uint32_t packed[C::BN / 4];  // the tile before, on its way out
    bool pending = false;
    StorePlace place{0, 0, 0};

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
    const auto send = [&](auto box) {
      if constexpr (C::Out == Store::kTma) {
        store_box<C::Buffers, box.value>(packed, target, place);
      } else if constexpr (C::Out == Store::kRows) {
        const int64_t c_offset = place.index * gemm.batch.c[0];
        store_rows<box.value>(packed, staging, barrier, gemm, c_offset, place);
      }
    };
    const auto send_all = [&] {
      send(Index<0>());
      if constexpr (C::Boxes > 1) send(Index<1>());
      if constexpr (C::Boxes > 2) send(Index<2>());
      if constexpr (C::Boxes > 3) send(Index<3>());
    };

    for (uint32_t item = blockIdx.x / C::Cluster; item < p.items; item += gridDim.x / C::Cluster) {
#pragma unroll
      for (float& x : acc) x = 0.0f;
      const Work work = get_work<C>(p, item, rank, k_tiles);
      int kt = work.k_begin;
      if (pending && work.k_end - kt >= C::Boxes) {
        multiply(true, [&] { send(Index<0>()); });
        if constexpr (C::Boxes > 1) multiply(false, [&] { send(Index<1>()); });
        if constexpr (C::Boxes > 2) multiply(false, [&] { send(Index<2>()); });
        if constexpr (C::Boxes > 3) multiply(false, [&] { send(Index<3>()); });
        kt += C::Boxes;
      } else if (pending) {
        send_all();
      }
      pending = false;
      for (; kt < work.k_end; ++kt) multiply(kt == work.k_begin, [] {});
      ptx::wgmma_wait<0>();
      ptx::pin(acc);
      if (work.k_end > work.k_begin) release();

      const int m0 = work.m0 + rows;
      if constexpr (C::Cluster == 1) {
        if (gemm.splits > 1) {
          reduce_and_store<T, C::Consumers>(acc, gemm, id, shared, work.index * gemm.batch.c[0], m0,
                                            work.n0);
          continue;
        }
      }
      if (work.m0 >= gemm.m) continue;  // the second tile of a pair may lie outside of c
      finish<T>(acc, gemm, m0, work.n0);
      if constexpr (C::Out == Store::kDirect) {
        store_accumulators<T>(acc, gemm, work.index * gemm.batch.c[0], m0, work.n0);
      } else {
        pack<T>(acc, packed);
        pending = true;
        place = {m0, work.n0, work.index};
      }
    }
    if (pending) send_all();
    if (C::Out == Store::kTma && target.leader) ptx::tma_store_wait_read<0>();
  }

 private:
  template <int I>
  struct Index {
    static constexpr int value = I;
  };
};

template <class C>
__device__ __forceinline__ void produce(const Params& p, const Maps& maps, uint32_t tiles,
                                        RingBarriers<C::Stages> ring, uint32_t rank, int k_tiles) {
  RingPlace<C::Stages> at;
  ptx::wait_for_kernels_before();
  for (uint32_t item = blockIdx.x / C::Cluster; item < p.items; item += gridDim.x / C::Cluster) {
    const Work work = get_work<C>(p, item, rank, k_tiles);
    for (int kt = work.k_begin; kt < work.k_end; ++kt, at.advance()) {
      const uint32_t a_tile = tiles + at.stage * C::StageBytes, full = ring.full(at.stage);
      ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full, p.copied_bytes);
      C::A::template load<1>(a_tile, maps.a, full, p.a_rows, kt * 64, work.m0,
                             work.index * p.a_step, 0);
      C::B::template load<C::Cluster>(a_tile + C::A::kBytes, maps.b, full, p.b_rows, kt * 64,
                                      work.n0, work.index * p.b_step, rank);
    }
  }
  // Blocks of the next kernel that came earlier would only be in the way.
  ptx::let_next_kernel_start();
}

template <class C>
__global__ void __launch_bounds__(C::Threads, C::BlocksPerSm)
    gemm_kernel(const __grid_constant__ Maps maps, const __grid_constant__ Params p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const RingBarriers<C::Stages> ring{tiles + C::RingAt};
  const uint32_t rank = C::Cluster == 1 ? 0 : ptx::cluster_rank();
  const int k_tiles = int(ceil_div(p.gemm.k, 64));
  if (threadIdx.x == 0) {
    if (k_tiles > 0 && !C::Copies) {
      ptx::prefetch_tensor_map(maps.a);
      ptx::prefetch_tensor_map(maps.b);
    }
    for (int s = 0; s < C::Stages; ++s) {
      ptx::mbarrier_init(ring.full(s), C::Copies ? 4 : 1);
      ptx::mbarrier_init(ring.empty(s), C::Cluster * C::Consumers * 4);
    }
    ptx::fence_mbarrier_init();
  }
  if constexpr (C::Cluster == 1) {
    __syncthreads();
  } else {
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
  const int consumer = (int(threadIdx.x) - C::FirstConsumer) >> 7;
  if (consumer < 0 || consumer >= C::Consumers) {
    if constexpr (C::MovesRegisters) ptx::release_registers<40>();
    if constexpr (C::Copies) {
      produce_by_copies<C>(p, tiles, ring, k_tiles);
    } else {
      if (threadIdx.x == C::Producer) produce<C>(p, maps, tiles, ring, rank, k_tiles);
    }
    if (C::Cluster == 1 && p.gemm.splits > 1) {
      // The barriers of reduce_and_store.
      __syncwarp();
      ptx::cluster_arrive();
      ptx::cluster_wait();
      ptx::cluster_arrive();
      ptx::cluster_wait();
    }
  } else {
    if constexpr (C::MovesRegisters) ptx::take_registers<232>();
    ptx::wait_for_kernels_before();
    Consumer<C>{p, maps, shared, ring, rank, k_tiles, consumer, {}}.run();
  }
  if constexpr (C::Cluster > 1) {
    __syncwarp();
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
#endif
}

}  // namespace vitamin::sm90
