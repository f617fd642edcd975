// Launches of the kernel for shallow K.
#pragma once

#include <algorithm>

#include "../common/early_launch.cuh"
#include "../common/shared_memory.cuh"
#include "shallow.cuh"
#include "transpose.h"

namespace vitamin::sm90 {

template <class T, int Thin, int Rows, bool ByRows>
int launch_shallow_instance(const Problem& problem, const ShallowShape& shape,
                            const LaunchArgs& args) {
  ShallowParams p{};
  p.gemm = make_gemm_params(problem, kShallowThreads * Rows, Thin);
  p.gemm.transposed = shape.wide_is_b;
  p.tiles = uint32_t(p.gemm.tiles_m);
  p.thin_tiles = uint32_t(p.gemm.tiles_n);
  p.items = uint32_t(shape.blocks);
  const bool k_major = problem.b.layout == Layout::kCol;
  p.thin_column = k_major ? p.gemm.b_outer : p.gemm.b_inner;
  p.thin_k = k_major ? p.gemm.b_inner : p.gemm.b_outer;
  p.thin_bytes = shape.thin_bytes;
  p.buffer_bytes = int(shape.buffer_bytes);
  p.c_whole = shape.c_whole;
  p.vector = problem.a.align == 16 ? 8 : problem.a.align >= 4 ? 2 : 1;

  constexpr auto kernel = shallow_kernel<T, Thin, Rows, ByRows>;
  const int smem = p.thin_bytes + 2 * p.buffer_bytes;
  if (const cudaError_t error = allow_shared_memory<kernel>(kShallowBytes)) return error;
  // As many blocks as an SM holds.
  const int resident = std::max(1, std::min(Thin == 16 ? 3 : 4, kHopperSmem / (smem + 1024)));
  const int64_t blocks = std::min<int64_t>(p.items, int64_t(args.device.sm_count) * resident);
  return launch_early<kernel>(true, unsigned(blocks), kShallowThreads, smem,
                              static_cast<cudaStream_t>(args.stream), p);
}

template <class T, int Thin>
int launch_shallow_rows(const Problem& problem, const ShallowShape& shape, const LaunchArgs& args) {
  if constexpr (Thin <= 8) {
    if (shape.rows == 2) return launch_shallow_instance<T, Thin, 2, true>(problem, shape, args);
  }
  return shape.by_rows ? launch_shallow_instance<T, Thin, 1, true>(problem, shape, args)
                       : launch_shallow_instance<T, Thin, 1, false>(problem, shape, args);
}

template <class T>
int launch_shallow(const LaunchArgs& args) {
  const ShallowShape shape = shallow_shape(args.problem);
  const Problem problem = shape.wide_is_b ? transpose(args.problem) : args.problem;
  switch (shape.columns) {
    case 2:
      return launch_shallow_rows<T, 2>(problem, shape, args);
    case 4:
      return launch_shallow_rows<T, 4>(problem, shape, args);
    case 8:
      return launch_shallow_rows<T, 8>(problem, shape, args);
    default:
      return launch_shallow_rows<T, 16>(problem, shape, args);
  }
}

}  // namespace vitamin::sm90
