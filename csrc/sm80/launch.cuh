// From a chosen launch to the kernel on the stream: repacked operands, counters, layout, grid.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "../common/shared_memory.cuh"
#include "../dispatch/workspace.h"
#include "kernel.cuh"
#include "repack.h"
#include "tiles.h"

namespace vitamin::sm80 {

template <class T, const Tile& S, bool ARow, bool BRow>
cudaError_t launch_layout(GemmParams p, cudaStream_t stream) {
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
    kernel<<<grid, C::Threads, C::SmemBytes, stream>>>(p);
  }
  return cudaGetLastError();
}

template <class T, const Tile& S>
int launch_tile(const LaunchArgs& args) {
  const auto stream = static_cast<cudaStream_t>(args.stream);
  auto* const workspace = static_cast<unsigned char*>(args.workspace);
  const WorkspaceLayout layout = workspace_layout(args.problem, args.launch, S.m, S.n);

  Problem problem = args.problem;
  if (args.launch.repack_a) {
    if (const int error = repack(&problem, Operand::kA, workspace + layout.a_at, stream)) {
      return error;
    }
  }
  if (args.launch.repack_b) {
    if (const int error = repack(&problem, Operand::kB, workspace + layout.b_at, stream)) {
      return error;
    }
  }
  GemmParams p = make_gemm_params(problem, S.m, S.n);
  p.splits = args.launch.splits;
  // A scratch is padded with zeros to whole chunks: no row of it ends within one.
  if (args.launch.repack_a) {
    (problem.a.layout == Layout::kCol ? p.a_mn : p.a_k) = p.a_outer;
  }
  if (args.launch.repack_b) {
    (problem.b.layout == Layout::kCol ? p.b_k : p.b_mn) = p.b_outer;
  }
  if (p.splits > 1) {
    p.arrived = reinterpret_cast<unsigned*>(workspace);
    p.partial = reinterpret_cast<float*>(workspace + layout.partial_at);
    if (const cudaError_t error = cudaMemsetAsync(p.arrived, 0, layout.counter_bytes, stream)) {
      return error;
    }
  }
  const bool a_row = problem.a.layout != Layout::kCol, b_row = problem.b.layout != Layout::kCol;
  if (a_row) {
    return b_row ? launch_layout<T, S, true, true>(p, stream)
                 : launch_layout<T, S, true, false>(p, stream);
  }
  return b_row ? launch_layout<T, S, false, true>(p, stream)
               : launch_layout<T, S, false, false>(p, stream);
}

}  // namespace vitamin::sm80
