// The order in which output tiles are worked on.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace vitamin {

template <class Int>
struct TilePlace {
  Int m;
  Int n;
};
using TileCoord = TilePlace<int64_t>;

// Strips of `width` tile columns, each walked row by row: the blocks that run at the same time
// cover a compact rectangle of the output, so they share rows of a and columns of b in L2. In
// 32-bit integers too, where the tiles are fewer.
template <class Int>
VITAMIN_HD TilePlace<Int> strip_raster_in(Int tile, Int tiles_m, Int tiles_n, int width) {
  const Int strip = tile < tiles_m * width ? 0 : tile / (tiles_m * width);
  const Int in_strip = tile - strip * tiles_m * width;
  const Int left = tiles_n - strip * width;
  const Int columns = left < Int(width) ? left : Int(width);
  const Int row = in_strip / columns;
  return {row, strip * width + (in_strip - row * columns)};
}

VITAMIN_HD TileCoord strip_raster(int64_t tile, int64_t tiles_m, int64_t tiles_n, int width) {
  return strip_raster_in<int64_t>(tile, tiles_m, tiles_n, width);
}

// Part `split` of `count` k-tiles cut into `splits` runs whose lengths differ by at most one.
struct TileRange {
  int begin;
  int end;
};
VITAMIN_HD TileRange split_range(int count, int splits, int split) {
  const int length = count / splits;
  const int longer = count - length * splits;
  const int begin = split * length + (split < longer ? split : longer);
  return {begin, begin + length + (split < longer ? 1 : 0)};
}

}  // namespace vitamin
