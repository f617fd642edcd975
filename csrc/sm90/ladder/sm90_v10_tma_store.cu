// Step 10: c goes out by TMA, asynchronously.
//
// As step 8 in its 2x1 form, but the consumers don't store their accumulators themselves: stmatrix
// puts 64x64 boxes of c together in shared memory, swizzled, and TMA writes them in whole lines,
// clipped to c, while the consumers go on with the next box and then with the next tile. What TMA
// can't write (rows that are not 16-byte aligned, fp32) is stored straight, as in step 8.
//
// Barriers: as step 8; and for each consumer warpgroup a named barrier (1, 2) around the filling of
// a box.
// Shared memory: 4 x (a 128x64, b 256x64: 48 KB), for each consumer 2 boxes of 64x64 (32 KB), then
// the barriers: 224 KB.
// Registers: 168 a thread at entry; 40 a producer thread and 232 a consumer thread afterwards.
#include "../../common/cluster_launch.cuh"
#include "../../common/ring.cuh"
#include "../../common/staged_store.cuh"
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
constexpr int kStagingBytes = 2 * kStoreBuffers * kStoreBytes;
constexpr int kSmemBytes = kStages * kStageBytes + kStagingBytes + RingBarriers<kStages>::kBytes;
constexpr int kCluster = 2, kConsumerWarps = 8;

// Copies this block's half of a tile of `rows` rows to both blocks.
__device__ __forceinline__ void load_half(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                          int k0, int64_t row0, int rows, uint32_t rank) {
  const int first = int(rank) * (rows / kCluster);
  ptx::tma_load_multicast(to + first * (kBK * 2), map, barrier, k0, int(row0) + first, 0b11);
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    tma_store_kernel(const __grid_constant__ OperandMaps maps,
                     const __grid_constant__ CUtensorMap c_map, bool by_tma,
                     const __grid_constant__ GemmParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const uint32_t staging = tiles + kStages * kStageBytes;
  const RingBarriers<kStages> ring{staging + kStagingBytes};
  const int warpgroup = threadIdx.x / kWarpgroup;
  const uint32_t rank = ptx::cluster_rank();
  // Pairs of tiles; the second tile of a pair may lie outside of c.
  const int64_t pairs_m = ceil_div(p.tiles_m, kCluster);
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
      for (int64_t pair = blockIdx.x / kCluster; pair < pairs_m * p.tiles_n;
           pair += gridDim.x / kCluster) {
        const TileCoord at_pair = strip_raster(pair, pairs_m, p.tiles_n, kStrip);
        const int64_t m0 = (at_pair.m * kCluster + rank) * kBM;
        const int64_t n0 = at_pair.n * kBN;
        for (int kt = 0; kt < k_tiles; ++kt, at.advance()) {
          const uint32_t a_tile = tiles + at.stage * kStageBytes, full = ring.full(at.stage);
          ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
          ptx::mbarrier_arrive_expect_tx(full, kStageBytes);
          load_tile(a_tile, maps.a, full, kt * kBK, m0, kBM, kBM);
          load_half(a_tile + kABytes, maps.b, full, kt * kBK, n0, kBN, rank);
        }
      }
    }
  } else {
    ptx::take_registers<232>();
    const int consumer = warpgroup - 1, half = consumer * 64;
    StoreTarget target{&c_map, staging + consumer * kStoreBuffers * kStoreBytes, warpgroup,
                       threadIdx.x % kWarpgroup == 0};
    for (int64_t pair = blockIdx.x / kCluster; pair < pairs_m * p.tiles_n;
         pair += gridDim.x / kCluster) {
      const TileCoord at_pair = strip_raster(pair, pairs_m, p.tiles_n, kStrip);
      const int64_t m0 = (at_pair.m * kCluster + rank) * kBM;
      const int64_t n0 = at_pair.n * kBN;
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
      if (by_tma) {
        uint32_t packed[64];
        pack<T>(acc, packed);
        store_boxes<kStoreBuffers>(packed, target, {int(m0) + half, int(n0)});
      } else {
        store_accumulators<T>(acc, p, 0, m0 + half, n0);
      }
    }
    if (target.leader) ptx::tma_store_wait_read<0>();
  }
  __syncwarp();
  ptx::cluster_arrive();
  ptx::cluster_wait();
#endif
}

template <class T>
int launch(const LaunchArgs& args) {
  OperandMaps maps;
  if (const int error = make_operand_maps(args.problem, {kBM, kBN / kCluster}, &maps)) return error;
  const GemmParams p = make_gemm_params(args.problem, kBM, kBN);
  const bool by_tma = args.problem.c_by_tma();
  CUtensorMap c_map;
  if (by_tma) {
    if (const int error = make_output_map(args.problem, &c_map)) return error;
  }
  const int64_t pairs = ceil_div(p.tiles_m, kCluster) * p.tiles_n;
  return launch_clusters<tma_store_kernel<T>>(Clusters::kResident, pairs, kCluster, kThreads,
                                              kSmemBytes, static_cast<cudaStream_t>(args.stream),
                                              Start::kInTurn, maps, c_map, by_tma, p);
}

}  // namespace

int launch_v10_tma_store(const LaunchArgs& args) {
  return launch_by_type<launch<__half>, launch<__nv_bfloat16>>(args);
}

}  // namespace vitamin::sm90_ladder
