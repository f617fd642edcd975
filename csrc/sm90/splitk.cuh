// Deterministic split-K in one kernel: blocks of a cluster make the parts of a tile, leave them
// in shared memory, and each adds up a share of the columns over all parts, in the order of K.
//
// It is for launches with a block for every part: the stages are no longer needed then.
#pragma once

#include "../common/gemm_params.h"
#include "../ptx/cluster.cuh"
#include "../ptx/shared.cuh"
#include "../ptx/warpgroup.cuh"
#include "direct_store.cuh"
#include "work.cuh"

namespace vitamin::sm90 {

constexpr int kAllConsumers = 4;  // named barrier

// Adds up and stores a tile at (m0, n0) of whose 64 rows this warpgroup has a part in acc. All
// threads of the cluster but these must pass two cluster barriers meanwhile.
template <class T, int Consumers, int Count>
__device__ __forceinline__ void reduce_and_store(const float (&acc)[Count], const Params& params,
                                                 ClusterPlace place, int consumer,
                                                 unsigned char* shared, int64_t c_offset,
                                                 int64_t m0, int64_t n0) {
  const GemmParams& p = params.gemm;
  constexpr int kChunk = 8;                     // accumulators, of 16 columns: a sector of each row
  constexpr int kAtOnce = Count < 128 ? 4 : 1;  // parts
  const int thread = threadIdx.x % kWarpgroup;
  float4* const mine =
      reinterpret_cast<float4*>(shared) + consumer * (Count / 4 * kWarpgroup) + thread;
  ptx::named_barrier(kAllConsumers,
                     Consumers * kWarpgroup);  // nobody multiplies from these stages now
#pragma unroll
  for (int i = 0; i < Count / 4; ++i) {
    mine[i * kWarpgroup] = make_float4(acc[4 * i], acc[4 * i + 1], acc[4 * i + 2], acc[4 * i + 3]);
  }
  ptx::cluster_arrive();
  ptx::cluster_wait();
  const uint32_t address = ptx::shared_address(mine);
#pragma unroll 1
  for (int chunk = place.split; chunk < Count / kChunk; chunk += p.splits) {
    float v[kChunk] = {};
    // Of some parts all loads first: each takes as long as several hundred additions.
    for (int first = 0; first < p.splits; first += kAtOnce) {
      float4 parts[kAtOnce][kChunk / 4];
#pragma unroll
      for (int s = 0; s < kAtOnce; ++s) {
        if (kAtOnce > 1 && first + s >= p.splits) continue;
        const ClusterPlace part{place.m, place.n, first + s};
        const uint32_t from =
            ptx::cluster_address(address, part.rank_of(params, place.m, place.n)) +
            chunk * (kChunk / 4 * kWarpgroup * 16);
#pragma unroll
        for (int i = 0; i < kChunk / 4; ++i) {
          parts[s][i] = ptx::ld_cluster_v4(from + i * (kWarpgroup * 16));
        }
      }
#pragma unroll
      for (int s = 0; s < kAtOnce; ++s) {
        if (kAtOnce > 1 && first + s >= p.splits) continue;
#pragma unroll
        for (int i = 0; i < kChunk / 4; ++i) {
          v[4 * i] += parts[s][i].x;
          v[4 * i + 1] += parts[s][i].y;
          v[4 * i + 2] += parts[s][i].z;
          v[4 * i + 3] += parts[s][i].w;
        }
      }
    }
    finish<T>(v, p, m0, n0 + chunk * (2 * kChunk));
    store_straight<T>(v, params, c_offset, m0, n0 + chunk * (2 * kChunk));
  }
  ptx::cluster_arrive_relaxed();
  ptx::cluster_wait();
}

}  // namespace vitamin::sm90
