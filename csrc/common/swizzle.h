// The xor swizzle of a shared-memory tile of 16-bit elements, in 16-byte chunks.
//
// A tile is `rows` rows of `Inner` contiguous elements. ldmatrix reads the same chunk of 8
// consecutive rows at once: unswizzled, with rows of 128 bytes or more, all 8 fall into the same
// 4 banks. Exchanging the chunks of each row by an xor with the row spreads them over all 32.
#pragma once

#include "host_device.h"

namespace vitamin {

// What the chunk index of `row` is xored with. Depends on row % 8 only.
template <int Inner>
VITAMIN_HD constexpr int swizzle_xor(int row) {
  static_assert(Inner >= 16 && Inner % 16 == 0, "a row is a whole number of 32-byte sectors");
  return Inner % 64 == 0 ? (row & 7) : Inner % 32 == 0 ? ((row >> 1) & 3) : ((row >> 2) & 1);
}

// Offset in elements of chunk `chunk` (8 elements) of row `row`.
template <int Inner>
VITAMIN_HD constexpr int swizzled_offset(int row, int chunk) {
  return row * Inner + ((chunk ^ swizzle_xor<Inner>(row)) << 3);
}

}  // namespace vitamin
