// Launches of the kernel that makes one tile a block.
#pragma once

#include "../common/early_launch.cuh"
#include "../common/layouts.h"
#include "../common/shared_memory.cuh"
#include "launch.cuh"
#include "once.cuh"

namespace vitamin::sm90 {

template <class C>
int launch_once_instance(const Problem& problem, const LaunchArgs& args) {
  Params p{};
  p.gemm = make_gemm_params(problem, C::BM, C::BN);
  p.pieces = pieces_of(problem);
  p.groups_n = uint32_t(p.gemm.tiles_n);
  p.groups_a_matrix = uint32_t(p.gemm.tiles_m * p.gemm.tiles_n);
  const int64_t blocks = p.groups_a_matrix * problem.batch.count();
  const int smem = int(std::max<int64_t>(1, ceil_div(problem.k, 64))) * C::StageBytes;
  constexpr auto kernel = once_kernel<C>;
  if (const cudaError_t error = allow_shared_memory<kernel>(2 * C::StageBytes)) return error;
  return launch_early<kernel>(true, unsigned(blocks), kWarpgroup, smem,
                              static_cast<cudaStream_t>(args.stream), p);
}

template <class T, bool ARows, bool BRows>
int launch_once_layout(const LaunchArgs& args) {
  const Problem& problem = args.problem;
  // Few values of a row are no pieces of 16 bytes.
  constexpr int kWide = 48;
  if (problem.rows_of_16_bits() && !problem.c_by_tma() && problem.n >= kWide) {
    return launch_once_instance<Config<T, k64x64, ARows, BRows, Store::kRows>>(problem, args);
  }
  return launch_once_instance<Config<T, k64x64, ARows, BRows, Store::kDirect>>(problem, args);
}

template <class T>
int launch_once(const LaunchArgs& args) {
  return with_layouts(args.problem, [&](auto a_row, auto b_row) {
    return launch_once_layout<T, a_row.value, !b_row.value>(args);
  });
}

}  // namespace vitamin::sm90
