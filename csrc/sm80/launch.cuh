// From a chosen launch to the kernel on the stream: repacked operands, counters, layout, grid.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "../common/early_launch.cuh"
#include "../common/layouts.h"
#include "../common/prepare.h"
#include "../common/shared_memory.cuh"
#include "kernel.cuh"
#include "tiles.h"

namespace vitamin::sm80 {

template <class T, const Tile& S, bool ARow, bool BRow>
cudaError_t launch_layout(GemmParams p, bool early, cudaStream_t stream) {
  using C = Config<T, S.m, S.n, S.k, S.warp_m, S.warp_n, S.stages, ARow, BRow, S.any_align>;
  static_assert(C::SmemBytes == S.smem_bytes() && C::Threads == S.threads(),
                "the table says what the kernel uses");
  constexpr auto kernel = gemm_kernel<C, S.blocks_per_sm>;
  if (const cudaError_t error = allow_shared_memory<kernel>(C::SmemBytes)) return error;
  // One launch but for more blocks than a grid axis takes.
  const int64_t blocks = p.tiles_m * p.tiles_n * p.batch.count() * p.splits;
  constexpr int64_t most = 0x7fffffff;
  for (p.first_block = 0; p.first_block < blocks; p.first_block += most) {
    const auto grid = static_cast<unsigned>(std::min(blocks - p.first_block, most));
    if (const cudaError_t error =
            launch_early<kernel>(early, grid, C::Threads, C::SmemBytes, stream, p)) {
      return error;
    }
  }
  return cudaSuccess;
}

template <class T, const Tile& S>
int launch_tile(const LaunchArgs& args) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  const bool early = starts_early(args.device);
  Prepared prepared;
  if (const int error = prepare(args, &prepared)) return error;
  const Problem& problem = prepared.problem;
  GemmParams p = make_gemm_params(problem, S.m, S.n);
  p.splits = args.launch.splits;
  p.arrived = prepared.arrived;
  p.partial = prepared.partial;
  // A scratch is padded with zeros to whole chunks: no row of it ends within one.
  if (args.launch.repack_a) {
    (problem.a.layout == Layout::kCol ? p.a_mn : p.a_k) = p.a_outer;
  }
  if (args.launch.repack_b) {
    (problem.b.layout == Layout::kCol ? p.b_k : p.b_mn) = p.b_outer;
  }
  return with_layouts(problem, [&](auto a_row, auto b_row) {
    return launch_layout<T, S, a_row.value, b_row.value>(p, early, stream);
  });
}

}  // namespace vitamin::sm80
