// The production tiles of the mma.sync path: one instance of kernel.cuh each, in all four layouts.
//
// Chosen from benchmarks/results/sm80-tiles-h200.csv (4096^3 and 8192^3, bf16), from which and from
// sm80-select-h200.csv come the shares of the main loop.
#pragma once

#include "../dispatch/kernel_table.h"

namespace vitamin::sm80 {

struct Tile {
  int m, n, k;
  int warp_m, warp_n;
  int stages;
  int blocks_per_sm;       // that the registers allow
  double main_loop_share;  // of the mma rate, on a full SM
  bool any_align;

  constexpr int threads() const { return m / warp_m * (n / warp_n) * 32; }
  constexpr int ring_bytes() const { return (m + n) * k * 2 * stages; }
  // The epilogue's patches lie in the ring: 8 rows of warp_n + 8 floats a warp.
  constexpr int patch_bytes() const { return threads() / 32 * 8 * (warp_n + 8) * 4; }
  constexpr int smem_bytes() const {
    return ring_bytes() > patch_bytes() ? ring_bytes() : patch_bytes();
  }
};

inline constexpr Tile k256x128x64{256, 128, 64, 64, 64, 4, 1, 0.87, false};
inline constexpr Tile k128x256x64{128, 256, 64, 64, 64, 4, 1, 0.87, false};
inline constexpr Tile k256x128x32{256, 128, 32, 64, 64, 4, 1, 0.79, false};
inline constexpr Tile k128x128x64{128, 128, 64, 64, 64, 3, 2, 0.8, false};
inline constexpr Tile k64x64x64{64, 64, 64, 32, 32, 4, 3, 0.5, false};
inline constexpr Tile k16x128x64{16, 128, 64, 16, 32, 5, 3, 0.4, false};
inline constexpr Tile k128x16x64{128, 16, 64, 32, 16, 5, 3, 0.4, false};
inline constexpr Tile kAny128x128x32{128, 128, 32, 64, 32, 3, 1, 0.42, true};
inline constexpr Tile kAny64x64x64{64, 64, 64, 32, 32, 3, 3, 0.36, true};

// Defined in tile_*.cu. Each returns a cudaError_t.
int launch_256x128x64_f16(const LaunchArgs& args);
int launch_256x128x64_bf16(const LaunchArgs& args);
int launch_128x256x64_f16(const LaunchArgs& args);
int launch_128x256x64_bf16(const LaunchArgs& args);
int launch_256x128x32_f16(const LaunchArgs& args);
int launch_256x128x32_bf16(const LaunchArgs& args);
int launch_128x128x64_f16(const LaunchArgs& args);
int launch_128x128x64_bf16(const LaunchArgs& args);
int launch_64x64x64_f16(const LaunchArgs& args);
int launch_64x64x64_bf16(const LaunchArgs& args);
int launch_16x128x64_f16(const LaunchArgs& args);
int launch_16x128x64_bf16(const LaunchArgs& args);
int launch_128x16x64_f16(const LaunchArgs& args);
int launch_128x16x64_bf16(const LaunchArgs& args);
int launch_any_128x128x32_f16(const LaunchArgs& args);
int launch_any_128x128x32_bf16(const LaunchArgs& args);
int launch_any_64x64x64_f16(const LaunchArgs& args);
int launch_any_64x64x64_bf16(const LaunchArgs& args);

}  // namespace vitamin::sm80
