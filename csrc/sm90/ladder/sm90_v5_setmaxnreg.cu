// Step 5: a tile of 128x256, whose accumulators the consumers can hold because the producer gives
// them registers.
//
// As step 4, but each consumer multiplies 64x256 of c by m64n256k16: 128 accumulators a thread. Per
// k-tile a block now copies 48 KB for 128x256x64 products, three quarters of what two blocks of
// step 4 copy for the same, and b is read from shared memory half as often. The producer's
// warpgroup keeps 40 registers a thread, the consumers take 232.
//
// Barriers: `full` of each stage, 1 arrival (the producer's) and the bytes of both tiles; `empty`
// of each stage, 8 arrivals (a lane of each consumer warp). One __syncthreads after their
// initialisation.
// Shared memory: 4 x (a 128x64, b 256x64: 48 KB), then the barriers.
// Registers: 168 a thread at entry; 128 x 40 + 256 x 232 = 64,512 of the 65,536 afterwards.
#include "../../common/ring.cuh"
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm90_ladder {
namespace {

constexpr int kBM = 128, kBN = 256, kStages = 4;
constexpr int kThreads = 3 * kWarpgroup;
constexpr int kABytes = kBM * kBK * 2, kBBytes = kBN * kBK * 2;
constexpr int kStageBytes = kABytes + kBBytes;
constexpr int kSmemBytes = kStages * kStageBytes + RingBarriers<kStages>::kBytes;
constexpr int kConsumerWarps = 8;

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    setmaxnreg_kernel(const __grid_constant__ OperandMaps maps,
                      const __grid_constant__ GemmParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t tiles = ptx::shared_address(shared);
  const RingBarriers<kStages> ring{tiles + kStages * kStageBytes};
  const int warpgroup = threadIdx.x / kWarpgroup;
  const TileCoord tile = strip_raster(blockIdx.x, p.tiles_m, p.tiles_n, kStrip);
  const int64_t m0 = tile.m * kBM, n0 = tile.n * kBN;
  const int k_tiles = int(ceil_div(p.k, kBK));
  if (threadIdx.x == 0) {
    for (int s = 0; s < kStages; ++s) {
      ptx::mbarrier_init(ring.full(s), 1);
      ptx::mbarrier_init(ring.empty(s), kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();

  RingPlace<kStages> at;
  if (warpgroup == 0) {
    ptx::release_registers<40>();
    if (threadIdx.x == 0) {
      for (int kt = 0; kt < k_tiles; ++kt, at.advance()) {
        const uint32_t a_tile = tiles + at.stage * kStageBytes, full = ring.full(at.stage);
        ptx::mbarrier_wait(ring.empty(at.stage), at.parity ^ 1);
        ptx::mbarrier_arrive_expect_tx(full, kStageBytes);
        load_tile(a_tile, maps.a, full, kt * kBK, m0, kBM, kBM);
        load_tile(a_tile + kABytes, maps.b, full, kt * kBK, n0, kBN, kBN);
      }
    }
  } else {
    ptx::take_registers<232>();
    const int half = (warpgroup - 1) * 64;
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
      if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(ring.empty(at.stage));
    }
    finish<T>(acc, p, m0 + half, n0);
    store_accumulators<T>(acc, p, 0, m0 + half, n0);
  }
#endif
}

template <class T>
int launch(const LaunchArgs& args) {
  constexpr auto kernel = setmaxnreg_kernel<T>;
  if (const cudaError_t error = allow_shared_memory<kernel>(kSmemBytes)) return error;
  OperandMaps maps;
  if (const int error = make_operand_maps(args.problem, {kBM, kBN}, &maps)) return error;
  const GemmParams p = make_gemm_params(args.problem, kBM, kBN);
  kernel<<<unsigned(p.tiles_m * p.tiles_n), kThreads, kSmemBytes,
           static_cast<cudaStream_t>(args.stream)>>>(maps, p);
  return cudaGetLastError();
}

}  // namespace

int launch_v5_setmaxnreg(const LaunchArgs& args) {
  return launch_by_type<launch<__half>, launch<__nv_bfloat16>>(args);
}

}  // namespace vitamin::sm90_ladder
