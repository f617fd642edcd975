// What a block works on, in which order.
#pragma once

#include "../common/raster.h"
#include "config.cuh"

namespace vitamin::sm90 {

// A part of a tile: where it lies, and its k-tiles.
struct Work {
  int m0, n0, index, split;
  int k_begin, k_end;
};

template <class C>
__device__ __forceinline__ Work get_work(const Params& p, uint32_t item, uint32_t rank,
                                         int k_tiles) {
  const uint32_t splits = p.gemm.splits, tiles_n = uint32_t(p.gemm.tiles_n);
  const uint32_t group = item / splits;
  Work work;
  work.split = int(item - group * splits);
  work.index = int(group / p.groups_a_matrix);
  const uint32_t at = group - work.index * p.groups_a_matrix;
  const auto tile = strip_raster_in<uint32_t>(at, p.groups_m, tiles_n, C::Strip);
  work.m0 = int(tile.m * C::Cluster + rank) * C::BM;
  work.n0 = int(tile.n) * C::BN;
  const TileRange range = split_range(k_tiles, int(splits), work.split);
  work.k_begin = range.begin;
  work.k_end = range.end;
  return work;
}

}  // namespace vitamin::sm90
