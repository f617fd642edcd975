// How the kernels for few rows or columns of the Hopper path cut a problem up: what their launches
// and the cost model both need to know.
#pragma once

#include <algorithm>

#include "kernel_table.h"

namespace vitamin {

// The streaming kernel. One operand is wide (many rows of a, or columns of b), the other thin.
struct StreamShape {
  bool wide_is_b = false;
  bool by_rows = false;  // K is contiguous in the wide operand; else its other index
  int64_t wide = 0, thin = 0;
  int columns = 0;  // of the thin operand at once: 8, 16 or 32
  int classes = 1;  // rows (or lines, of an index of K) this far apart begin alike in 16 bytes
  int groups = 1;   // by_rows: of 16 rows, that a warp takes at once
  int rows = 0;     // of the wide operand that a block takes
  int step = 0, steps = 0;  // indices of K at once, and how often
  int64_t blocks = 0;       // of one part of K, of all matrices
};

StreamShape stream_shape(const Problem& problem);

// Shared memory of a block: two share an SM.
constexpr int kStreamBytes = kHopperSmem / 2 - 1024;

constexpr int kStreamRowStep = 32, kStreamColumnStep = 16;  // of K
constexpr int kStreamColumnTile = 64;  // of the wide operand, where K is not contiguous in it

// The same of the kernel for shallow K.
struct ShallowShape {
  bool wide_is_b = false;
  bool by_rows = false;
  int64_t wide = 0, thin = 0;
  int columns = 0;            // of the thin operand at once: 2, 4, 8 or 16
  int rows = 0;               // of the wide operand that a thread takes: 1 or 2
  bool c_whole = false;       // a tile of c has no gaps
  bool side_by_side = false;  // neighbouring threads write neighbouring values of c
  int thin_bytes = 0;         // of shared memory: the thin operand in fp32
  int64_t buffer_bytes = 0;   // and each of two buffers, for the rows of a tile and then for its c
  int64_t blocks = 0;         // tiles of all matrices
};

ShallowShape shallow_shape(const Problem& problem);

constexpr int kShallowThreads = 256;
// Limits of it: of K, and of the shared memory of a block.
constexpr int kShallowK = 128, kShallowBytes = 160 * 1024;

// The kernel with a tile of 64x64 a block: the largest K, stages of 64 of K, bytes of a line of a
// tile of an operand in shared memory.
constexpr int kOnceK = 1024, kOnceStages = 3;
constexpr int kOnceLine = 2 * 64 + 16, kOnceTileBytes = 64 * kOnceLine;
constexpr int kOnceStageBytes = 2 * kOnceTileBytes;

// Blocks of 4 or 8 warps that the registers of an SM allow.
constexpr int once_blocks(int warps) { return warps == 8 ? 4 : 6; }

// 8 warps make a tile sooner; of 4 an SM holds more blocks, which counts where there are many that
// do little but load and store.
constexpr int once_warps(int64_t blocks, int64_t k, int sm_count) {
  return k > 64 || blocks <= int64_t(2) * sm_count ? 8 : 4;
}

// Shared memory of a block.
constexpr int once_bytes(int64_t k) {
  return int(std::clamp<int64_t>((k + 63) / 64, 1, kOnceStages)) * kOnceStageBytes;
}

}  // namespace vitamin
