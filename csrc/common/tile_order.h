// The orders in which a kernel can go through the tiles of the output. Tiles that follow each
// other run at the same time: the fewer rows and columns of tiles they span, the more of a and b
// they share in L2.
#pragma once

#include <cstdint>

#include "host_device.h"
#include "raster.h"

namespace vitamin {

enum class Order : int { kRow, kGrouped, kSerpentine, kHilbert };

// strip_raster with every other row of a strip walked backwards and every other strip upwards.
// Every step inside a strip goes to a neighbour. A step to the next strip stays in its row: it
// goes to the neighbour if tiles_m is odd or width is 1, else `width` tiles to the right.
VITAMIN_HD TileCoord serpentine_tile(int64_t index, int64_t tiles_m, int64_t tiles_n, int width) {
  TileCoord at = strip_raster(index, tiles_m, tiles_n, width);
  const int64_t strip = at.n / width;
  if (at.m % 2) {
    const int64_t left = tiles_n - strip * width;
    const int64_t columns = left < width ? left : width;
    at.n = 2 * strip * width + columns - 1 - at.n;
  }
  if (strip % 2) at.m = tiles_m - 1 - at.m;
  return at;
}

// Coordinates modulo 2^32, so that a step may be backwards.
struct GridStep {
  uint32_t m;
  uint32_t n;
};

// A Hilbert curve over a grid of any size below 2^32 tiles: every tile once, every step to a
// neighbour. A square whose side is a power of two gets Hilbert's own curve.
//
// The curve of a rectangle runs from a corner to the other end of one side, its `length`; `depth`
// is the other extent. Its length·depth - 1 steps lead length - 1 tiles away, so the two must be
// of one parity: length even or depth odd. Of an odd and an even side the even one is the length.
// - Length above 3/2 of the depth: one curve after the other, the first of an even length.
// - Else three curves: up on the first half of the length, across what is left on top, and down
//   on the second half. Their height is even.
// Both cuts keep the parity right. Each round goes on with the part that holds `index`, until two
// rows or one are left: at most log2(tiles) rounds on every grid up to 200x200.
VITAMIN_HD TileCoord hilbert_tile(uint32_t index, uint32_t tiles_m, uint32_t tiles_n) {
  const bool odd_m = tiles_m % 2, odd_n = tiles_n % 2;
  const bool along_m = odd_m == odd_n ? tiles_m > tiles_n : odd_n;
  uint32_t length = along_m ? tiles_m : tiles_n;
  uint32_t depth = along_m ? tiles_n : tiles_m;
  GridStep at{0, 0}, along{along_m, !along_m}, up{!along_m, along_m};
  while (depth > 2) {
    if (length > depth + depth / 2) {
      const uint32_t cut = (length + 2) / 4 * 2;
      if (index < cut * depth) {
        length = cut;
      } else {
        index -= cut * depth;
        at = {at.m + cut * along.m, at.n + cut * along.n};
        length -= cut;
      }
    } else {
      const uint32_t height = (depth + 2) / 4 * 2;
      const uint32_t half = length / 2;
      const uint32_t top = half * height;
      const uint32_t down = top + length * (depth - height);
      if (index >= top && index < down) {
        index -= top;
        at = {at.m + height * up.m, at.n + height * up.n};
        depth -= height;
        continue;
      }
      const GridStep before = along;
      if (index < top) {
        along = up;
        up = before;
        depth = half;
      } else {
        index -= down;
        at.m += (length - 1) * along.m + (height - 1) * up.m;
        at.n += (length - 1) * along.n + (height - 1) * up.n;
        along = {0 - up.m, 0 - up.n};
        up = {0 - before.m, 0 - before.n};
        depth = length - half;
      }
      length = height;
    }
  }
  // Two rows: up, along, down, along.
  const uint32_t column = depth == 2 ? index / 2 : index;
  const uint32_t row = depth == 2 ? (index ^ column) & 1 : 0;
  return {at.m + column * along.m + row * up.m, at.n + column * along.n + row * up.n};
}

// The index-th of tiles_m x tiles_n tiles. `group`: columns of a strip of kGrouped, kSerpentine.
VITAMIN_HD TileCoord order_tile(Order order, int64_t index, int64_t tiles_m, int64_t tiles_n,
                                int group) {
  switch (order) {
    case Order::kRow:
      return {index / tiles_n, index % tiles_n};
    case Order::kGrouped:
      return strip_raster(index, tiles_m, tiles_n, group);
    case Order::kSerpentine:
      return serpentine_tile(index, tiles_m, tiles_n, group);
    case Order::kHilbert:
      break;
  }
  return hilbert_tile(uint32_t(index), uint32_t(tiles_m), uint32_t(tiles_n));
}

}  // namespace vitamin
