// Step 8: two blocks of a cluster share an operand: each copies half of it, and TMA delivers every
// half to both.
//
// As step 6, but blocks work in pairs on neighbouring tiles. 2x1: the two tiles lie below each
// other, need the same 256 columns of b, and each block copies 128 of them for both; per k-tile an
// SM asks L2 for 32 KB instead of 48. 1x2: the two tiles lie side by side and share a; 40 KB. A
// stage may be overwritten only when the consumers of both blocks have let go of it.
//
// Barriers: `full` of each stage, 1 arrival (the own producer's) and the bytes of both tiles, some
// of which the peer's producer sends; `empty` of each stage, 16 arrivals (a lane of each consumer
// warp of both blocks). Cluster barriers after their initialisation and before the exit: nobody
// leaves while a peer may still arrive at his barriers.
// Shared memory: 4 x (a 128x64, b 256x64: 48 KB), then the barriers.
// Registers: 168 a thread at entry; 40 a producer thread and 232 a consumer thread afterwards.
#include "../../common/cluster_launch.cuh"
#include "../../common/ring.cuh"
#include "../../ptx/cluster.cuh"
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm90_ladder {
namespace {

constexpr int kBM = 128, kBN = 256, kStages = 4;
constexpr int kThreads = 3 * kWarpgroup;
constexpr int kABytes = kBM * kBK * 2, kBBytes = kBN * kBK * 2;
constexpr int kStageBytes = kABytes + kBBytes;
constexpr int kSmemBytes = kStages * kStageBytes + RingBarriers<kStages>::kBytes;
constexpr int kCluster = 2, kConsumerWarps = 8;

// Copies this block's half of a tile of `rows` rows to both blocks.
__device__ __forceinline__ void load_half(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                          int k0, int64_t row0, int rows, uint32_t rank) {
  const int first = int(rank) * (rows / kCluster);
  ptx::tma_load_multicast(to + first * (kBK * 2), map, barrier, k0, int(row0) + first, 0b11);
}

template <class T, int ClusterM, int ClusterN>
__global__ void __launch_bounds__(kThreads, 1)
    cluster_kernel(const __grid_constant__ OperandMaps maps, const __grid_constant__ GemmParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const RingBarriers<kStages> ring{tiles + kStages * kStageBytes};
  const int warpgroup = threadIdx.x / kWarpgroup;
  const uint32_t rank = ptx::cluster_rank();
  const int rank_m = ClusterM == 2 ? rank : 0, rank_n = ClusterN == 2 ? rank : 0;
  // Pairs of tiles; the second tile of a pair may lie outside of c.
  const int64_t pairs_m = ceil_div(p.tiles_m, ClusterM), pairs_n = ceil_div(p.tiles_n, ClusterN);
  const int k_tiles = int(ceil_div(p.k, kBK));
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrier_init(ring.full(s), 1);
      ptx::mbarrier_init(ring.empty(s), kCluster * kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();

  RingPlace<kStages> at;
  if (warpgroup == 0) {
    ptx::release_registers<40>();
    if (threadIdx.x == 0) {
      for (int64_t pair = blockIdx.x / kCluster; pair < pairs_m * pairs_n;
           pair += gridDim.x / kCluster) {
        const TileCoord at_pair = strip_raster(pair, pairs_m, pairs_n, kStrip / ClusterN);
        const int64_t m0 = (at_pair.m * ClusterM + rank_m) * kBM;
        const int64_t n0 = (at_pair.n * ClusterN + rank_n) * kBN;
        for (int kt = 0; kt < k_tiles; ++kt, at.advance()) {
          const uint32_t a_tile = tiles + at.stage * kStageBytes, full = ring.full(at.stage);
          ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, kStageBytes);
          if constexpr (ClusterM == 2) {
            load_tile(a_tile, maps.a, full, kt * kBK, m0, kBM, kBM);
            load_half(a_tile + kABytes, maps.b, full, kt * kBK, n0, kBN, rank);
          } else {
            load_half(a_tile, maps.a, full, kt * kBK, m0, kBM, rank);
            load_tile(a_tile + kABytes, maps.b, full, kt * kBK, n0, kBN, kBN);
          }
        }
      }
    }
  } else {
    ptx::take_registers<232>();
    const int half = (warpgroup - 1) * 64;
    for (int64_t pair = blockIdx.x / kCluster; pair < pairs_m * pairs_n;
         pair += gridDim.x / kCluster) {
      const TileCoord at_pair = strip_raster(pair, pairs_m, pairs_n, kStrip / ClusterN);
      const int64_t m0 = (at_pair.m * ClusterM + rank_m) * kBM;
      const int64_t n0 = (at_pair.n * ClusterN + rank_n) * kBN;
      float acc[128] = {};
      for (int kt = 0; kt < k_tiles; ++kt, at.advance()) {
        const uint32_t a_tile = tiles + at.stage * kStageBytes;
        ptx::mbarrier_wait(ring.full(at.stage), at.parity);
        ptx::wgmma_fence();
#pragma unroll
        for (int step = 0; step < kBK / 16; ++step) {
          const uint64_t a = k_major_descriptor<Swizzle::k128>(a_tile, kBM, half, step);
          const uint64_t b = k_major_descriptor<Swizzle::k128>(a_tile + kABytes, kBN, 0, step);
          ptx::Wgmma<T, 256>::run(acc, a, b);
        }
        ptx::wgmma_commit();
        ptx::wgmma_wait<0>();
        if (threadIdx.x % 32 < kCluster) {
          ptx::mbarrier_arrive_at(ring.empty(at.stage), threadIdx.x % 32);
        }
      }
      finish<T>(acc, p, m0 + half, n0);
      store_accumulators<T>(acc, p, 0, m0 + half, n0);
    }
  }
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
#endif
}

template <class T, int ClusterM, int ClusterN>
int launch(const LaunchArgs& args) {
  OperandMaps maps;
  const Boxes boxes{kBM / ClusterN, kBN / ClusterM};
  if (const int error = make_operand_maps(args.problem, boxes, &maps)) return error;
  const GemmParams p = make_gemm_params(args.problem, kBM, kBN);
  const int64_t pairs = ceil_div(p.tiles_m, ClusterM) * ceil_div(p.tiles_n, ClusterN);
  return launch_clusters<cluster_kernel<T, ClusterM, ClusterN>>(
      Clusters::kResident, pairs, kCluster, kThreads, kSmemBytes,
      static_cast<cudaStream_t>(args.stream), Start::kInTurn, maps, p);
}

}  // namespace

int launch_v8_cluster(const LaunchArgs& args) {
  return launch_by_type<launch<__half, 2, 1>, launch<__nv_bfloat16, 2, 1>>(args);
}
int launch_v8_cluster_1x2(const LaunchArgs& args) {
  return launch_by_type<launch<__half, 1, 2>, launch<__nv_bfloat16, 1, 2>>(args);
}

}  // namespace vitamin::sm90_ladder
