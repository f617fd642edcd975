// The tiles of the production Hopper kernel: what the kernel table says of them, and what they are
// compiled with.
#pragma once

#include "../dispatch/kernel_table.h"

namespace vitamin::sm90 {

// Two consumers of 64 rows each make a tile of 128 x n, K by 64. Swapped: the 128 rows are columns
// of c, and n are few rows of it.
struct Tile {
  int n, stages, cluster;
  bool swapped = false;

  static constexpr int m = 128, k = 64, threads = 384;

  // Columns of b in shared memory: MN-major operands lie in blocks of 64.
  constexpr int b_rows() const { return n < 64 ? 64 : n; }
  constexpr int stage_bytes() const { return (m + b_rows()) * k * 2; }
  // Two boxes of c for each consumer, if c leaves through shared memory.
  constexpr int boxes() const { return n / 64; }
  constexpr int buffers() const { return boxes() < 2 ? boxes() : 2; }
  constexpr int staging_bytes() const { return 2 * buffers() * 64 * 64 * 2; }
  // And two barriers for each stage.
  constexpr int smem_bytes() const {
    return stages * stage_bytes() + staging_bytes() + stages * 16;
  }
};

inline constexpr Tile k128x256c2{256, 4, 2};
inline constexpr Tile k128x256{256, 4, 1};
inline constexpr Tile k128x192c2{192, 4, 2};
inline constexpr Tile k128x128{128, 6, 1};
inline constexpr Tile k128x64{64, 8, 1};
inline constexpr Tile k64x128{64, 8, 1, true};
inline constexpr Tile k32x128{32, 9, 1, true};
inline constexpr Tile k16x128{16, 9, 1, true};

// The launch functions, a tile and a type each.
#define VITAMIN_SM90_TILE(name)                    \
  int launch_##name##_f16(const LaunchArgs& args); \
  int launch_##name##_bf16(const LaunchArgs& args);
VITAMIN_SM90_TILE(128x256c2)
VITAMIN_SM90_TILE(128x256)
VITAMIN_SM90_TILE(128x192c2)
VITAMIN_SM90_TILE(128x128)
VITAMIN_SM90_TILE(128x64)
VITAMIN_SM90_TILE(64x128)
VITAMIN_SM90_TILE(32x128)
VITAMIN_SM90_TILE(16x128)
#undef VITAMIN_SM90_TILE

}  // namespace vitamin::sm90
