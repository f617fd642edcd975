// Step 2: TMA copies and WGMMA, in turn.
//
// A block of two warpgroups makes a 128x128 tile of c, 64x128 of it a warpgroup, as two m64n64k16
// products a k16 step. One thread has TMA copy the next 128x64 tiles of a and b, all wait for them,
// multiply, wait for the products, and only then may the tiles be overwritten. Two blocks share
// an SM: what one waits for, another may use. The same kernel with 64-, 32-byte and no swizzle
// shows what the choice does to the copies' writes and the products' reads.
//
// Barriers: `landed`, an mbarrier with 1 arrival (the copying thread's) and the bytes of both
// tiles; one __syncthreads a k-tile (tiles have been read). Shared memory: a 128x64, b 128x64: 32
// KB; `landed`. Registers: 64 accumulators.
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm90_ladder {
namespace {

constexpr int kBM = 128, kBN = 128;
constexpr int kThreads = 2 * kWarpgroup;
constexpr int kTileBytes = kBM * kBK * 2;
constexpr int kSmemBytes = 2 * kTileBytes + 16;

template <class T, Swizzle S>
__global__ void __launch_bounds__(kThreads, 2)
    tma_wgmma_kernel(const __grid_constant__ OperandMaps maps,
                     const __grid_constant__ GemmParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(1024) unsigned char shared[];
  const uint32_t a_tile = ptx::shared_address(shared), b_tile = a_tile + kTileBytes;
  const uint32_t landed = b_tile + kTileBytes;
  const int warpgroup = threadIdx.x / kWarpgroup;
  const TileCoord tile = strip_raster(blockIdx.x, p.tiles_m, p.tiles_n, kStrip);
  const int64_t m0 = tile.m * kBM, n0 = tile.n * kBN;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(landed, 1);
    ptx::fence_mbarrier_init();
  }

  float acc[2][32] = {};
  uint32_t parity = 0;
  for (int64_t k0 = 0; k0 < p.k; k0 += kBK, parity ^= 1) {
    __syncthreads();
    if (threadIdx.x == 0) {
      ptx::mbarrier_arrive_expect_tx(landed, 2 * kTileBytes);
      load_tile<S>(a_tile, maps.a, landed, int(k0), m0, kBM, kBM);
      load_tile<S>(b_tile, maps.b, landed, int(k0), n0, kBN, kBN);
    }
    ptx::mbarrier_wait(landed, parity);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kBK / 16; ++step) {
      const uint64_t a = k_major_descriptor<S>(a_tile, kBM, warpgroup * 64, step);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint64_t b = k_major_descriptor<S>(b_tile, kBN, half * 64, step);
        ptx::Wgmma<T, 64>::run(acc[half], a, b);
      }
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<0>();
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    finish<T>(acc[half], p, m0 + warpgroup * 64, n0 + half * 64);
    store_accumulators<T>(acc[half], p, 0, m0 + warpgroup * 64, n0 + half * 64);
  }
#endif
}

template <class T, Swizzle S>
int launch(const LaunchArgs& args) {
  OperandMaps maps;
  if (const int error = make_operand_maps(args.problem, {kBM, kBN, S}, &maps)) return error;
  const GemmParams p = make_gemm_params(args.problem, kBM, kBN);
  const auto stream = static_cast<cudaStream_t>(args.stream);
  tma_wgmma_kernel<T, S>
      <<<unsigned(p.tiles_m * p.tiles_n), kThreads, kSmemBytes, stream>>>(maps, p);
  return cudaGetLastError();
}

template <Swizzle S>
int launch_swizzle(const LaunchArgs& args) {
  return launch_by_type<launch<__half, S>, launch<__nv_bfloat16, S>>(args);
}

}  // namespace

int launch_v2_tma_wgmma(const LaunchArgs& args) { return launch_swizzle<Swizzle::k128>(args); }
int launch_v2_tma_wgmma_sw64(const LaunchArgs& args) { return launch_swizzle<Swizzle::k64>(args); }
int launch_v2_tma_wgmma_sw32(const LaunchArgs& args) { return launch_swizzle<Swizzle::k32>(args); }
int launch_v2_tma_wgmma_sw0(const LaunchArgs& args) { return launch_swizzle<Swizzle::kNone>(args); }

}  // namespace vitamin::sm90_ladder
