// How tiles of 16-bit operands lie in shared memory for TMA and WGMMA, and the 64-bit descriptors
// by which wgmma finds them (PTX ISA 9.7.15.5.1).
//
// A K-major tile of `rows` rows is cut along K into blocks as wide as the swizzle's span (64, 32 or
// 16 elements; 8 without swizzle), each block one TMA box: rows x span, contiguous. Within a block,
// the 16-byte chunk c of row r lies at chunk c ^ swizzle_xor(r) of its row. Blocks start at
// multiples of 1024 bytes.
//
// An MN-major tile, contiguous along its rows, is cut along them into blocks of 64, each one TMA
// box: 64 lines of K, 128 bytes a line. Chunk c of line k lies at chunk c ^ (k % 8) of its line.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace vitamin {

enum class Swizzle : int { kNone = 0, k128 = 1, k64 = 2, k32 = 3 };  // as the descriptor has it

// Bytes of a row of a block.
VITAMIN_HD constexpr int span_bytes(Swizzle swizzle) {
  return swizzle == Swizzle::k128  ? 128
         : swizzle == Swizzle::k64 ? 64
         : swizzle == Swizzle::k32 ? 32
                                   : 16;
}

// `lead` and `stride`, of K-major tiles: bytes between neighbouring core matrices (8 rows of 16
// bytes, or 8 rows of the swizzle's span) along K and along the rows; with a swizzle `lead` has no
// meaning.
VITAMIN_HD constexpr uint64_t wgmma_descriptor(uint32_t address, uint32_t lead, uint32_t stride,
                                               Swizzle swizzle) {
  return (uint64_t(address & 0x3ffff) >> 4) | uint64_t(lead >> 4) << 16 |
         uint64_t(stride >> 4) << 32 | uint64_t(swizzle) << 62;
}

// Bytes from the start of a K-major tile of `rows` rows to row `row` (a multiple of 8) of k16 step
// `step`.
template <Swizzle S>
VITAMIN_HD constexpr uint32_t k_major_offset(int rows, int row, int step) {
  constexpr int span = span_bytes(S);
  const int byte = step * 32;
  return uint32_t(byte / span * (rows * span) + row * span + byte % span);
}

// The descriptor of that place.
template <Swizzle S>
VITAMIN_HD constexpr uint64_t k_major_descriptor(uint32_t tile, int rows, int row, int step) {
  return wgmma_descriptor(tile + k_major_offset<S>(rows, row, step),
                          S == Swizzle::kNone ? rows * 16 : 16, 8 * span_bytes(S), S);
}

constexpr int kMnMajorBlockBytes = 64 * 128;

// Bytes from the start of an MN-major tile to row `row` (a multiple of 64) of k16 step `step`.
VITAMIN_HD constexpr uint32_t mn_major_offset(int row, int step) {
  return uint32_t(row / 64 * kMnMajorBlockBytes + step * 16 * 128);
}

// The descriptor of that place: `lead` is from block to block, `stride` from 8 lines to the next.
VITAMIN_HD constexpr uint64_t mn_major_descriptor(uint32_t tile, int row, int step) {
  return wgmma_descriptor(tile + mn_major_offset(row, step), kMnMajorBlockBytes, 8 * 128,
                          Swizzle::k128);
}

}  // namespace vitamin
