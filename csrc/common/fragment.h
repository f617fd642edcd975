// Who holds what in mma.m16n8k16, and which row a lane points ldmatrix at.
#pragma once

#include "host_device.h"

namespace vitamin {

// Accumulator element i (0..3) of `lane`: its row (0..15) and column (0..7) in the 16x8 tile.
VITAMIN_HD constexpr int acc_row(int lane, int i) { return (lane >> 2) + ((i >> 1) << 3); }
VITAMIN_HD constexpr int acc_col(int lane, int i) { return ((lane & 3) << 1) + (i & 1); }

// A place in a tile: a row of it and a 16-byte chunk of that row.
struct RowChunk {
  int row;
  int chunk;
};

// ldmatrix.x4 of a 16x16 operand tile, by how the operand lies in shared memory.
// A, K contiguous: rows are m, chunks are k.
VITAMIN_HD constexpr RowChunk ldmatrix_a_k_major(int lane) { return {lane & 15, lane >> 4}; }
// A, M contiguous (.trans): rows are k, chunks are m.
VITAMIN_HD constexpr RowChunk ldmatrix_a_m_major(int lane) {
  return {(lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1};
}
// B, K contiguous: two n8 blocks; rows are n, chunks are k. Registers 0, 1 are the first block's.
VITAMIN_HD constexpr RowChunk ldmatrix_b_k_major(int lane) {
  return {(lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1};
}
// B, N contiguous (.trans): rows are k, chunks are n. Registers 0, 1 are the first block's.
VITAMIN_HD constexpr RowChunk ldmatrix_b_n_major(int lane) { return {lane & 15, lane >> 4}; }

}  // namespace vitamin
