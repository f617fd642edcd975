// The tiles of the production Hopper kernel: what the kernel table says of them, and what they are
// compiled with.
#pragma once

#include "../dispatch/kernel_table.h"

namespace vitamin::sm90 {

// Consumers of 64 rows each make a tile of m x n, K by 64. Used swapped, the m rows are columns of
// c, and n are rows of it.
struct Tile {
  int n, stages;
  int consumers = 2, blocks_per_sm = 1;

  static constexpr int k = 64;

  constexpr int m() const { return consumers * 64; }
  // Whether the accumulators need registers that a producer warpgroup gives away.
  constexpr bool moves_registers() const { return m() * n >= 128 * 128; }
  // Of a multiplying thread then, of the 40 * 128 less that the producers keep.
  constexpr int registers() const { return consumers == 3 ? 152 : 232; }
  // A warp for each operand, at least.
  constexpr int producers() const { return moves_registers() ? 128 : 64; }
  constexpr int threads() const { return consumers * 128 + producers(); }
  // Columns of b in shared memory: MN-major operands lie in blocks of 64.
  constexpr int b_rows(bool k_major) const { return k_major ? n : (n + 63) / 64 * 64; }
  constexpr int stage_bytes(bool k_major) const { return (m() + b_rows(k_major)) * k * 2; }
  // Boxes of c for each consumer, if c leaves through shared memory: three consumers have no
  // registers for a tile on its way out.
  constexpr int boxes() const { return n % 64 || consumers == 3 ? 0 : n / 64; }
  constexpr int buffers() const { return boxes() < 2 ? boxes() : 2; }
  constexpr int staging_bytes() const { return consumers * buffers() * 64 * 64 * 2; }
  // `stages` of them, or as many as there is room for.
  constexpr int stages_of(bool k_major) const {
    const int room = (kHopperSmem / blocks_per_sm - 1024 - staging_bytes()) / stage_smem(k_major);
    return stages < room ? stages : room;
  }
  constexpr int smem_bytes(bool k_major) const {
    return stages_of(k_major) * stage_smem(k_major) + staging_bytes();
  }

 private:
  // With its two barriers.
  constexpr int stage_smem(bool k_major) const { return stage_bytes(k_major) + 16; }
};

inline constexpr Tile k128x256{.n = 256, .stages = 4};
inline constexpr Tile k192x160{.n = 160, .stages = 5, .consumers = 3};
inline constexpr Tile k192x112{.n = 112, .stages = 5, .consumers = 3};
inline constexpr Tile k192x96{.n = 96, .stages = 6, .consumers = 3};
inline constexpr Tile k128x208{.n = 208, .stages = 5};
inline constexpr Tile k128x192{.n = 192, .stages = 4};
inline constexpr Tile k128x176{.n = 176, .stages = 5};
inline constexpr Tile k128x144{.n = 144, .stages = 6};
inline constexpr Tile k128x128{.n = 128, .stages = 6};
inline constexpr Tile k128x112{.n = 112, .stages = 7};
inline constexpr Tile k128x96{.n = 96, .stages = 8};
inline constexpr Tile k128x64{.n = 64, .stages = 8};
inline constexpr Tile k128x48{.n = 48, .stages = 8};
inline constexpr Tile k128x32{.n = 32, .stages = 9};
inline constexpr Tile k128x16{.n = 16, .stages = 9};
inline constexpr Tile k64x128{.n = 128, .stages = 8, .consumers = 1};
inline constexpr Tile k64x32{.n = 32, .stages = 16, .consumers = 1};
inline constexpr Tile k64x64{.n = 64, .stages = 6, .consumers = 1, .blocks_per_sm = 2};
inline constexpr Tile k64x16{.n = 16, .stages = 10, .consumers = 1, .blocks_per_sm = 2};

// The launch functions, a tile and a type each.
#define VITAMIN_SM90_TILE(name)                    \
  int launch_##name##_f16(const LaunchArgs& args); \
  int launch_##name##_bf16(const LaunchArgs& args);
VITAMIN_SM90_TILE(128x256)
VITAMIN_SM90_TILE(192x160)
VITAMIN_SM90_TILE(192x112)
VITAMIN_SM90_TILE(192x96)
VITAMIN_SM90_TILE(128x208)
VITAMIN_SM90_TILE(128x192)
VITAMIN_SM90_TILE(128x176)
VITAMIN_SM90_TILE(128x144)
VITAMIN_SM90_TILE(128x128)
VITAMIN_SM90_TILE(128x112)
VITAMIN_SM90_TILE(128x96)
VITAMIN_SM90_TILE(128x64)
VITAMIN_SM90_TILE(128x48)
VITAMIN_SM90_TILE(128x32)
VITAMIN_SM90_TILE(128x16)
VITAMIN_SM90_TILE(64x128)
VITAMIN_SM90_TILE(64x64)
VITAMIN_SM90_TILE(64x32)
VITAMIN_SM90_TILE(64x16)
VITAMIN_SM90_TILE(once)
VITAMIN_SM90_TILE(stream)
VITAMIN_SM90_TILE(shallow)
#undef VITAMIN_SM90_TILE

}  // namespace vitamin::sm90
