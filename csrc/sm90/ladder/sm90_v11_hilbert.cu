// Step 11: tiles along a Hilbert curve, and a loop that never lets the tensor cores wait.
//
// As step 10, with two changes. The tiles are handed out along a Hilbert curve over the pairs of
// tiles: those that run at the same time cover a compact region whatever the grid, so L2 serves
// more of their reads (row-major, grouped and serpentine order, and no clusters, are there to
// compare). And the tensor cores always have work: the products of one k-tile stay under way while
// those of the next are issued, a stage is given back as soon as the products before have left it,
// descriptors advance by an addition, and a finished tile is only rounded into 64 registers: its
// boxes go out one by one under the first k-tiles of the next.
//
// Barriers: `full` of each stage, 1 arrival (the own producer's) and the bytes of both tiles, some
// of which the peer's producer sends; `empty` of each stage, 8 arrivals a block (a lane of each
// consumer warp of every block). Cluster barriers after their initialisation and before the exit.
// For each consumer warpgroup a named barrier (1, 2) around the filling of a box.
// Shared memory: 4 x (a 128x64, b 256x64: 48 KB), for each consumer 2 boxes of 64x64 (32 KB), then
// the barriers: 224 KB.
// Registers: 168 a thread at entry; 40 a producer thread and 232 a consumer thread afterwards,
// which holds 128 accumulators and 64 pairs on their way out.
#include "../../common/cluster_launch.cuh"
#include "../../common/ring.cuh"
#include "../../common/staged_store.cuh"
#include "../../common/tile_order.h"
#include "../../ptx/cluster.cuh"
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm90_ladder {
namespace {

constexpr int kBM = 128, kBN = 256, kStages = 4;
constexpr int kThreads = 3 * kWarpgroup;
constexpr int kABytes = kBM * kBK * 2, kBBytes = kBN * kBK * 2;
constexpr int kStageBytes = kABytes + kBBytes;
constexpr int kStoreBuffers = 2;
constexpr int kBoxes = kBN / kStoreColumns;
constexpr int kStagingBytes = 2 * kStoreBuffers * kStoreBytes;
constexpr int kSmemBytes = kStages * kStageBytes + kStagingBytes + RingBarriers<kStages>::kBytes;
constexpr int kConsumerWarps = 8;
constexpr int kGroup = 8;  // columns of a strip of the grouped and the serpentine order

// Gives a stage back to the producers of all blocks of the cluster.
template <int Cluster>
__device__ __forceinline__ void release(uint32_t empty) {
  const uint32_t lane = threadIdx.x % 32;
  if constexpr (Cluster == 1) {
    if (lane == 0) ptx::mbarrier_arrive(empty);
  } else {
    if (lane < Cluster) ptx::mbarrier_arrive_at(empty, lane);
  }
}

// Copies this block's share of a tile of `rows` rows to every block of the cluster.
template <int Cluster>
__device__ __forceinline__ void load_share(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                           int k0, int64_t row0, int rows, uint32_t rank) {
  if constexpr (Cluster == 1) {
    load_tile(to, map, barrier, k0, row0, rows, rows);
  } else {
    const int first = int(rank) * (rows / Cluster);
    ptx::tma_load_multicast(to + first * (kBK * 2), map, barrier, k0, int(row0) + first, 0b11);
  }
}

// ByTma: whether TMA can write c.
template <class T, int Cluster, bool ByTma>
__global__ void __launch_bounds__(kThreads, 1)
    hilbert_kernel(const __grid_constant__ OperandMaps maps,
                   const __grid_constant__ CUtensorMap c_map, Order order,
                   const __grid_constant__ GemmParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const uint32_t staging = tiles + kStages * kStageBytes;
  const RingBarriers<kStages> ring{staging + kStagingBytes};
  const int warpgroup = threadIdx.x / kWarpgroup;
  const uint32_t rank = ptx::cluster_rank();
  // Pairs of tiles; the second tile of a pair may lie outside of c.
  const int64_t pairs_m = ceil_div(p.tiles_m, Cluster);
  const int k_tiles = int(ceil_div(p.k, kBK));
  if (threadIdx.x == 0) {
    if (k_tiles > 0) {
      ptx::prefetch_tensor_map(maps.a);
      ptx::prefetch_tensor_map(maps.b);
    }
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrier_init(ring.full(s), 1);
      ptx::mbarrier_init(ring.empty(s), Cluster * kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();

  RingPlace<kStages> at;
  if (warpgroup == 0) {
    ptx::release_registers<40>();
    if (threadIdx.x == 0) {
      for (int64_t pair = blockIdx.x / Cluster; pair < pairs_m * p.tiles_n;
           pair += gridDim.x / Cluster) {
        const TileCoord at_pair = order_tile(order, pair, pairs_m, p.tiles_n, kGroup);
        const int64_t m0 = (at_pair.m * Cluster + rank) * kBM;
        const int64_t n0 = at_pair.n * kBN;
        for (int kt = 0; kt < k_tiles; ++kt, at.advance()) {
          const uint32_t a_tile = tiles + at.stage * kStageBytes, full = ring.full(at.stage);
          ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, kStageBytes);
          load_tile(a_tile, maps.a, full, kt * kBK, m0, kBM, kBM);
          load_share<Cluster>(a_tile + kABytes, maps.b, full, kt * kBK, n0, kBN, rank);
        }
      }
    }
  } else {
    ptx::take_registers<232>();
    const int consumer = warpgroup - 1, half = consumer * 64;
    StoreTarget target{&c_map, staging + consumer * kStoreBuffers * kStoreBytes, warpgroup,
                       threadIdx.x % kWarpgroup == 0};
    const uint64_t a_start = k_major_descriptor<Swizzle::k128>(tiles, kBM, half, 0);
    const uint64_t b_start = k_major_descriptor<Swizzle::k128>(tiles + kABytes, kBN, 0, 0);
    float acc[128];
    uint32_t packed[64];  // the tile before, on its way out
    bool pending = false;
    StorePlace place{0, 0};

    // Issues the products of a k-tile, and gives the stage before back when its own are done.
    const auto multiply = [&](bool first, auto&& meanwhile) {
      ptx::mbarrier_wait(ring.full(at.stage), at.parity);
      const uint64_t offset = at.stage * (kStageBytes >> 4);
      ptx::wgmma_fence();
#pragma unroll
      for (int step = 0; step < kBK / 16; ++step) {
        ptx::Wgmma<T, 256>::run(acc, a_start + offset + step * 2, b_start + offset + step * 2);
      }
      ptx::wgmma_commit();
      meanwhile();
      ptx::wgmma_wait<1>();
      if (!first) release<Cluster>(ring.empty(at.stage == 0 ? kStages - 1 : at.stage - 1));
      at.advance();
    };
    const auto nothing = [] {};

    for (int64_t pair = blockIdx.x / Cluster; pair < pairs_m * p.tiles_n;
         pair += gridDim.x / Cluster) {
#pragma unroll
      for (float& x : acc) x = 0.0f;
      int kt = 0;
      if (pending && k_tiles >= kBoxes) {
        multiply(true, [&] { store_box<kStoreBuffers, 0>(packed, target, place); });
        multiply(false, [&] { store_box<kStoreBuffers, 1>(packed, target, place); });
        multiply(false, [&] { store_box<kStoreBuffers, 2>(packed, target, place); });
        multiply(false, [&] { store_box<kStoreBuffers, 3>(packed, target, place); });
        kt = kBoxes;
      } else if (pending) {
        store_boxes<kStoreBuffers>(packed, target, place);
      }
      for (; kt < k_tiles; ++kt) multiply(kt == 0, nothing);
      const TileCoord at_pair = order_tile(order, pair, pairs_m, p.tiles_n, kGroup);
      const int64_t m0 = (at_pair.m * Cluster + rank) * kBM + half;
      const int64_t n0 = at_pair.n * kBN;
      ptx::wgmma_wait<0>();
      ptx::pin(acc);
      if (k_tiles > 0) release<Cluster>(ring.empty(at.stage == 0 ? kStages - 1 : at.stage - 1));
      finish<T>(acc, p, m0, n0);
      if constexpr (ByTma) {
        pack<T>(acc, packed);
        pending = true;
        place = {int(m0), int(n0)};
      } else {
        store_accumulators<T>(acc, p, 0, m0, n0);
      }
    }
    if (pending) store_boxes<kStoreBuffers>(packed, target, place);
    if (target.leader) ptx::tma_store_wait_read<0>();
  }
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
#endif
}

template <class T, int Cluster, Order O>
int launch(const LaunchArgs& args) {
  OperandMaps maps;
  if (const int error = make_operand_maps(args.problem, {kBM, kBN / Cluster}, &maps)) return error;
  const GemmParams p = make_gemm_params(args.problem, kBM, kBN);
  const int64_t pairs = ceil_div(p.tiles_m, Cluster) * p.tiles_n;
  const auto stream = static_cast<cudaStream_t>(args.stream);
  CUtensorMap c_map{};
  if (!args.problem.c_by_tma()) {
    return launch_clusters<hilbert_kernel<T, Cluster, false>>(Clusters::kResident, pairs, Cluster,
                                                              kThreads, kSmemBytes, stream,
                                                              Start::kInTurn, maps, c_map, O, p);
  }
  if (const int error = make_output_map(args.problem, &c_map)) return error;
  return launch_clusters<hilbert_kernel<T, Cluster, true>>(Clusters::kResident, pairs, Cluster,
                                                           kThreads, kSmemBytes, stream,
                                                           Start::kInTurn, maps, c_map, O, p);
}

template <int Cluster, Order O>
int launch_order(const LaunchArgs& args) {
  return launch_by_type<launch<__half, Cluster, O>, launch<__nv_bfloat16, Cluster, O>>(args);
}

}  // namespace

int launch_v11_hilbert(const LaunchArgs& args) { return launch_order<2, Order::kHilbert>(args); }
int launch_v11_row(const LaunchArgs& args) { return launch_order<2, Order::kRow>(args); }
int launch_v11_grouped(const LaunchArgs& args) { return launch_order<2, Order::kGrouped>(args); }
int launch_v11_serpentine(const LaunchArgs& args) {
  return launch_order<2, Order::kSerpentine>(args);
}
int launch_v11_hilbert_nc(const LaunchArgs& args) { return launch_order<1, Order::kHilbert>(args); }
int launch_v11_row_nc(const LaunchArgs& args) { return launch_order<1, Order::kRow>(args); }
int launch_v11_grouped_nc(const LaunchArgs& args) { return launch_order<1, Order::kGrouped>(args); }
int launch_v11_serpentine_nc(const LaunchArgs& args) {
  return launch_order<1, Order::kSerpentine>(args);
}

}  // namespace vitamin::sm90_ladder
