// Launches of the kernel that makes one tile a block.
#pragma once

#include "../common/early_launch.cuh"
#include "../common/layouts.h"
#include "../common/shared_memory.cuh"
#include "launch.cuh"
#include "once.cuh"

namespace vitamin::sm90 {

template <class T, bool ARows, bool BRows, Store Out>
int launch_once_instance(const LaunchArgs& args) {
  const Problem& problem = args.problem;
  Params p{};
  p.gemm = make_gemm_params(problem, k64x64.m(), k64x64.n);
  p.pieces = pieces_of(problem);
  p.groups_n = uint32_t(p.gemm.tiles_n);
  p.groups_a_matrix = uint32_t(p.gemm.tiles_m * p.gemm.tiles_n);
  const int64_t blocks = p.groups_a_matrix * problem.batch.count();
  const auto launch = [&](auto warps) -> int {
    constexpr auto kernel = once_kernel<T, ARows, BRows, Out, warps.value>;
    if (const cudaError_t error = allow_shared_memory<kernel>(once_bytes(kOnceK))) return error;
    return launch_early<kernel>(true, unsigned(blocks), warps.value * 32, once_bytes(problem.k),
                                static_cast<cudaStream_t>(args.stream), p);
  };
  return once_warps(blocks, problem.k, args.device.sm_count) == 8
             ? launch(std::integral_constant<int, 8>())
             : launch(std::integral_constant<int, 4>());
}

template <class T, bool ARows, bool BRows>
int launch_once_layout(const LaunchArgs& args) {
  const Problem& problem = args.problem;
  // Few values of a row are no pieces of 16 bytes.
  constexpr int kWide = 48;
  if (problem.rows_of_16_bits() && !problem.c_by_tma() && problem.n >= kWide) {
    return launch_once_instance<T, ARows, BRows, Store::kRows>(args);
  }
  return launch_once_instance<T, ARows, BRows, Store::kDirect>(args);
}

template <class T>
int launch_once(const LaunchArgs& args) {
  return with_layouts(args.problem, [&](auto a_row, auto b_row) {
    return launch_once_layout<T, a_row.value, !b_row.value>(args);
  });
}

}  // namespace vitamin::sm90
