// The order in which output tiles are worked on.
#pragma once

#include <cstdint>

#include "host_device.h"

namespace vitamin {

struct TileCoord {
  int64_t m;
  int64_t n;
};

// Strips of `width` tile columns, each walked row by row: the blocks that run at the same time
// cover a compact rectangle of the output, so they share rows of a and columns of b in L2.
VITAMIN_HD TileCoord strip_raster(int64_t tile, int64_t tiles_m, int64_t tiles_n, int width) {
  const int64_t strip = tile / (tiles_m * width);
  const int64_t in_strip = tile - strip * tiles_m * width;
  const int64_t left = tiles_n - strip * width;
  const int64_t columns = left < width ? left : width;
  const int64_t row = in_strip / columns;
  return {row, strip * width + (in_strip - row * columns)};
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
