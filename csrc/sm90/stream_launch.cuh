// Launches of the streaming kernel.
#pragma once

#include <algorithm>

#include "../common/cluster_launch.cuh"
#include "../dispatch/span.h"
#include "../dispatch/stream_shape.h"
#include "stream_columns.cuh"
#include "stream_rows.cuh"
#include "transpose.h"

namespace vitamin::sm90 {

// Where the memory of an operand ends.
inline const void* end_of(const Matrix& x, int64_t rows, int64_t columns, const Batch& batch,
                          const int64_t* strides) {
  return static_cast<const char*>(x.data) + 2 * span(x, rows, columns, batch, strides);
}

template <class T, class S, int Columns>
int launch_stream_instance(const Problem& problem, const StreamShape& shape,
                           const LaunchArgs& args) {
  StreamParams p{};
  p.gemm = make_gemm_params(problem, shape.rows, Columns);
  p.gemm.transposed = shape.wide_is_b;
  p.gemm.splits = args.launch.splits;
  p.tiles = uint32_t(p.gemm.tiles_m);
  p.thin_tiles = uint32_t(p.gemm.tiles_n);
  p.steps = problem.k > 0 ? shape.steps : 0;
  const bool k_major = problem.b.layout == Layout::kCol;
  p.thin_column = k_major ? p.gemm.b_outer : p.gemm.b_inner;
  p.thin_k = k_major ? p.gemm.b_inner : p.gemm.b_outer;
  for (int classes = shape.classes; classes > 1; classes /= 2) ++p.classes_log2;
  const Batch& batch = problem.batch;
  p.wide_end = end_of(problem.a, problem.m, problem.k, batch, batch.a);
  p.thin_end = end_of(problem.b, problem.k, problem.n, batch, batch.b);

  // As many steps at once as there is room for.
  constexpr int kRing = kStreamWarps * S::kInFlight * S::kPieces * kPieceBytes;
  constexpr int kRoom = kStreamBytes - kRing;
  const int thin_rows = int(std::min<int64_t>(problem.n, Columns));
  const int extent = S::step_extent(p.classes_log2);
  const auto pitch_of = [&](int steps) {
    // Of rows that lie half the banks apart.
    const int words = (steps * extent + S::kBefore) / 2 + 2 * kPiece;
    return (words + 15) / 32 * 32 + 16;
  };
  const int words = kRoom / 4 / thin_rows - 31;  // that pitch_of() makes fit
  const int fit = ((words - 2 * kPiece) * 2 - S::kBefore) / extent / kStreamWarps * kStreamWarps;
  const int steps = std::max(1, (p.steps + p.gemm.splits - 1) / p.gemm.splits);
  const int staged = std::min((steps + kStreamWarps - 1) / kStreamWarps * kStreamWarps, fit);
  p.steps_staged = staged;
  p.x_pitch = pitch_of(std::min(staged, steps));
  const int thin_bytes = thin_rows * p.x_pitch * 4;
  const int sum_parts = shape.by_rows ? kStreamWarps / shape.classes : kStreamWarps;
  const int sum_bytes = sum_parts * Columns * shape.rows * 4;
  const bool apart = staged >= steps && thin_bytes + sum_bytes <= kRoom;
  p.sums_at = kRing + (apart ? thin_bytes : 0);
  const bool same = p.thin_tiles == 1 && batch.stored(batch.b) == 1;
  p.stage_once = apart && same;
  const int smem = kRing + (apart ? thin_bytes + sum_bytes : std::max(thin_bytes, sum_bytes));
  const int64_t items = shape.blocks * p.gemm.splits;
  p.items = uint32_t(items);

  constexpr auto kernel = stream_kernel<T, S, Columns>;
  if (const cudaError_t error = allow_shared_memory<kernel>(kStreamBytes)) return error;
  const int64_t blocks =
      p.gemm.splits > 1 ? items : std::min<int64_t>(items, 2 * args.device.sm_count);
  cudaLaunchAttribute attributes[2] = {early_start(), {}};
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim = {unsigned(p.gemm.splits), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(blocks));
  config.blockDim = dim3(kStreamThreads);
  config.dynamicSmemBytes = smem;
  config.stream = static_cast<cudaStream_t>(args.stream);
  config.attrs = attributes;
  config.numAttrs = p.gemm.splits > 1 ? 2 : 1;
  return cudaLaunchKernelEx(&config, kernel, p);
}

template <class T, int Columns>
int launch_stream_columns(const Problem& problem, const StreamShape& shape,
                          const LaunchArgs& args) {
  if constexpr (Columns <= 16) {
    if (!shape.by_rows) {
      return launch_stream_instance<T, ColumnStream<T>, Columns>(problem, shape, args);
    }
    if (shape.groups == 2) {
      return launch_stream_instance<T, RowStream<T, 2, 1>, Columns>(problem, shape, args);
    }
  }
  return launch_stream_instance<T, RowStream<T, 1, 2>, Columns>(problem, shape, args);
}

template <class T>
int launch_stream(const LaunchArgs& args) {
  const StreamShape shape = stream_shape(args.problem);
  const Problem problem = shape.wide_is_b ? transpose(args.problem) : args.problem;
  if (shape.columns == 8) return launch_stream_columns<T, 8>(problem, shape, args);
  if (shape.columns == 16) return launch_stream_columns<T, 16>(problem, shape, args);
  return launch_stream_columns<T, 32>(problem, shape, args);
}

}  // namespace vitamin::sm90
