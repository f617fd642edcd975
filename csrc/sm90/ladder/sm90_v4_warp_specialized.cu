// Step 4: copies and products no longer wait for each other: a producer runs ahead of two consumers
// through a ring of stages.
//
// A block of three warpgroups makes a 128x128 tile of c. Of warpgroup 0 one thread copies the tiles
// of a and b into whatever stage is empty. Warpgroups 1 and 2 multiply, each 64x128 of c by
// m64n128k16, and give a stage back as soon as their products of it are done. Instances for rings
// of 2 to 6 stages, other box heights and L2 promotions show what those do.
//
// Barriers: `full` of each stage, 1 arrival (the producer's) and the bytes of both tiles; `empty`
// of each stage, 8 arrivals (a lane of each consumer warp). One __syncthreads after their
// initialisation.
// Shared memory: Stages x (a 128x64, b 128x64: 32 KB), then the barriers.
// Registers: 168 a thread, of which a consumer needs 64 for accumulators.
#include "../../common/ring.cuh"
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm90_ladder {
namespace {

constexpr int kBM = 128, kBN = 128;
constexpr int kThreads = 3 * kWarpgroup;
constexpr int kTileBytes = kBM * kBK * 2;
constexpr int kStageBytes = 2 * kTileBytes;
constexpr int kConsumerWarps = 8;

template <class T, int Stages>
__global__ void __launch_bounds__(kThreads, 1)
    warp_specialized_kernel(const __grid_constant__ OperandMaps maps,
                            const __grid_constant__ GemmParams p, int box_rows) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const RingBarriers<Stages> ring{tiles + Stages * kStageBytes};
  const int warpgroup = threadIdx.x / kWarpgroup;
  const TileCoord tile = strip_raster(blockIdx.x, p.tiles_m, p.tiles_n, kStrip);
  const int64_t m0 = tile.m * kBM, n0 = tile.n * kBN;
  const int k_tiles = int(ceil_div(p.k, kBK));
  if (threadIdx.x == 0) {
    for (int s = 0; s < Stages; ++s) {
      ptx::mbarrier_init(ring.full(s), 1);
      ptx::mbarrier_init(ring.empty(s), kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  RingPlace<Stages> at;
  if (warpgroup == 0) {
    if (threadIdx.x == 0) {
      for (int kt = 0; kt < k_tiles; ++kt, at.advance()) {
        const uint32_t a_tile = tiles + at.stage * kStageBytes, full = ring.full(at.stage);
        ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
        ptx::mbarrier_arrive_expect_tx(full, kStageBytes);
        load_tile(a_tile, maps.a, full, kt * kBK, m0, kBM, box_rows);
        load_tile(a_tile + kTileBytes, maps.b, full, kt * kBK, n0, kBN, box_rows);
      }
    }
    return;
  }
  const int half = (warpgroup - 1) * 64;
  float acc[64] = {};
  for (int kt = 0; kt < k_tiles; ++kt, at.advance()) {
    const uint32_t a_tile = tiles + at.stage * kStageBytes;
    ptx::mbarrier_wait(ring.full(at.stage), at.parity);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBK / 16; ++step) {
      const uint64_t a = k_major_descriptor<Swizzle::k128>(a_tile, kBM, half, step);
      const uint64_t b = k_major_descriptor<Swizzle::k128>(a_tile + kTileBytes, kBN, 0, step);
      ptx::Wgmma<T, 128>::run(acc, a, b);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(ring.empty(at.stage));
  }
  finish<T>(acc, p, m0 + half, n0);
  store_accumulators<T>(acc, p, 0, m0 + half, n0);
#endif
}

template <class T, int Stages, int BoxRows, L2Promotion Promotion>
int launch(const LaunchArgs& args) {
  constexpr auto kernel = warp_specialized_kernel<T, Stages>;
  constexpr int bytes = Stages * kStageBytes + RingBarriers<Stages>::kBytes;
  if (const cudaError_t error = allow_shared_memory<kernel>(bytes)) return error;
  OperandMaps maps;
  const Boxes boxes{BoxRows, BoxRows, Swizzle::k128, Promotion};
  if (const int error = make_operand_maps(args.problem, boxes, &maps)) return error;
  const GemmParams p = make_gemm_params(args.problem, kBM, kBN);
  const auto stream = static_cast<cudaStream_t>(args.stream);
  kernel<<<unsigned(p.tiles_m * p.tiles_n), kThreads, bytes, stream>>>(maps, p, BoxRows);
  return cudaGetLastError();
}

template <int Stages, int BoxRows = kBM, L2Promotion Promotion = L2Promotion::k256>
int launch_variant(const LaunchArgs& args) {
  return launch_by_type<launch<__half, Stages, BoxRows, Promotion>,
                        launch<__nv_bfloat16, Stages, BoxRows, Promotion>>(args);
}

constexpr int kStages = 4;

}  // namespace

int launch_v4_warp_specialized(const LaunchArgs& args) { return launch_variant<kStages>(args); }
int launch_v4_s2(const LaunchArgs& args) { return launch_variant<2>(args); }
int launch_v4_s3(const LaunchArgs& args) { return launch_variant<3>(args); }
int launch_v4_s4(const LaunchArgs& args) { return launch_variant<4>(args); }
int launch_v4_s5(const LaunchArgs& args) { return launch_variant<5>(args); }
int launch_v4_s6(const LaunchArgs& args) { return launch_variant<6>(args); }
int launch_v4_l2_none(const LaunchArgs& args) {
  return launch_variant<kStages, kBM, L2Promotion::kNone>(args);
}
int launch_v4_l2_64(const LaunchArgs& args) {
  return launch_variant<kStages, kBM, L2Promotion::k64>(args);
}
int launch_v4_l2_128(const LaunchArgs& args) {
  return launch_variant<kStages, kBM, L2Promotion::k128>(args);
}
int launch_v4_box_32(const LaunchArgs& args) { return launch_variant<kStages, 32>(args); }
int launch_v4_box_64(const LaunchArgs& args) { return launch_variant<kStages, 64>(args); }

}  // namespace vitamin::sm90_ladder
