// What a block works on, in which order, and with whom.
#pragma once

#include "../common/raster.h"
#include "../ptx/cluster.cuh"
#include "config.cuh"

namespace vitamin::sm90 {

// The blocks of a cluster: tiles below each other first, then side by side, then the parts of K.
struct ClusterPlace {
  int m, n, split;

  __device__ __forceinline__ static ClusterPlace get(const Params& p) {
    const int rank = int(ptx::cluster_rank()), column = rank >> p.cluster_m_log2;
    return {rank & (p.cluster_m - 1), column & (p.cluster_n - 1), column >> p.cluster_n_log2};
  }

  __device__ __forceinline__ int rank_of(const Params& p, int at_m, int at_n) const {
    return (split * p.cluster_n + at_n) * p.cluster_m + at_m;
  }

  // This block's share of the tiles of a, which go to the blocks side by side, and of b, which go
  // to those below each other.
  __device__ __forceinline__ Share share_of_a(const Params& p) const {
    uint32_t blocks = 0;
    for (int at = 0; at < p.cluster_n; ++at) blocks |= 1u << rank_of(p, m, at);
    return {n * p.a_lines, p.cluster_n > 1 ? blocks : 0};
  }
  __device__ __forceinline__ Share share_of_b(const Params& p) const {
    uint32_t blocks = 0;
    for (int at = 0; at < p.cluster_m; ++at) blocks |= 1u << rank_of(p, at, n);
    return {m * p.b_lines, p.cluster_m > 1 ? blocks : 0};
  }

  // The blocks that copy to this one, itself among them, and their ranks.
  __device__ __forceinline__ static int sources(const Params& p) {
    return p.cluster_m + p.cluster_n - 1;
  }
  __device__ __forceinline__ int source(const Params& p, int i) const {
    if (i < p.cluster_n) return rank_of(p, m, i);
    const int above = i - p.cluster_n;
    return rank_of(p, above < m ? above : above + 1, n);
  }
};

// A part of a tile: where it lies, and its k-tiles.
struct Work {
  int m0, n0, index;
  int k_begin, k_end;
};

// Goes through a block's work. The first piece is found before the kernels before this one are
// waited for.
template <class C>
class WorkList {
 public:
  __device__ __forceinline__ WorkList(const Params& p, ClusterPlace place)
      : p_(p), place_(place), k_tiles_(int(ceil_div(p.gemm.k, 64))), group_(ptx::cluster_index()) {
    find();
  }

  __device__ __forceinline__ bool done() const { return group_ >= p_.groups; }
  __device__ __forceinline__ const Work& now() const { return work_; }
  __device__ __forceinline__ void advance() {
    group_ += ptx::cluster_count();
    if (!done()) find();
  }

 private:
  __device__ __forceinline__ void find() {
    // Divisions are slow.
    const bool first = group_ < p_.groups_a_matrix;
    work_.index = first ? 0 : int(group_ / p_.groups_a_matrix);
    const uint32_t at = group_ - work_.index * p_.groups_a_matrix;
    const auto tile = strip_raster_in<uint32_t>(at, p_.groups_m, p_.groups_n, p_.strip);
    work_.m0 = (int(tile.m) * p_.cluster_m + place_.m) * C::BM;
    work_.n0 = (int(tile.n) * p_.cluster_n + place_.n) * C::BN;
    TileRange range{0, k_tiles_};
    if (p_.gemm.splits > 1) range = split_range(k_tiles_, p_.gemm.splits, place_.split);
    work_.k_begin = range.begin;
    work_.k_end = range.end;
  }

  const Params& p_;
  const ClusterPlace place_;
  const int k_tiles_;
  uint32_t group_;
  Work work_;
};

}  // namespace vitamin::sm90
