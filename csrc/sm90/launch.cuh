// From a chosen launch to the kernel on the stream: operands as the kernel sees them, tensor maps,
// grid.
#pragma once

#include <algorithm>

#include "../common/cluster_launch.cuh"
#include "../common/layouts.h"
#include "../common/prepare.h"
#include "../dispatch/cost.h"
#include "kernel.cuh"
#include "transpose.h"

namespace vitamin::sm90 {

// The raster goes through strips so wide: the blocks that run at the same time share rows and
// columns in L2.
constexpr int kStripColumns = 2048;

// A map of an operand with `rows` rows of a or columns of b, moved in boxes of `box_lines` lines.
inline int make_map(const Matrix& x, bool k_major, int64_t rows, int64_t k, int box_lines,
                    const Batch& batch, const int64_t* batch_strides, CUtensorMap* map) {
  TensorMapSpec spec{};
  spec.base = x.data;
  spec.inner = k_major ? k : rows;
  spec.outer = k_major ? rows : k;
  spec.stride = x.layout == Layout::kCol ? x.col_stride : x.row_stride;
  spec.box_inner = 64;
  spec.box_outer = box_lines;
  spec.swizzle = Swizzle::k128;
  spec.promotion = L2Promotion::k128;
  spec.stack = batch.dims > 0 && batch_strides[0] != 0 ? batch.size[0] : 1;
  spec.stack_stride = batch_strides[0];
  return encode_tensor_map(spec, map);
}

// A piece lies within c or outside of it.
inline Pieces pieces_of(const Problem& p) {
  if (p.c_by_tma()) return Pieces::kOfRows;
  const bool by_columns = !p.out_f32 && p.c.layout == Layout::kCol && p.c.align == 16;
  return by_columns && p.m % 8 == 0 ? Pieces::kOfColumns : Pieces::kNone;
}

// Maps of both operands, and what they make of a tile.
template <class C>
int make_operand_maps(const Problem& problem, Params* p, Maps* maps) {
  const Batch& batch = problem.batch;
  p->a_step = batch.a[0] != 0;
  p->b_step = batch.b[0] != 0;
  p->a_rows = C::A::rows_of_tile(p->cluster_n, problem.m);
  p->b_rows = C::B::rows_of_tile(p->cluster_m, problem.n);
  p->a_lines = C::A::box_lines(p->cluster_n, p->a_rows);
  p->b_lines = C::B::box_lines(p->cluster_m, p->b_rows);
  if (const int error = make_map(problem.a, C::TransposeA == 0, problem.m, problem.k, p->a_lines,
                                 batch, batch.a, &maps->a)) {
    return error;
  }
  return make_map(problem.b, C::TransposeB == 0, problem.n, problem.k, p->b_lines, batch, batch.b,
                  &maps->b);
}

template <class C, const Tile& S>
int launch_instance(const Problem& problem, const LaunchArgs& args) {
  Params p{};
  p.gemm = make_gemm_params(problem, S.m(), S.n);
  const KernelEntry& kernel = *args.launch.kernel;
  p.gemm.transposed = kernel.swapped;
  p.gemm.splits = args.launch.splits;
  p.cluster_m = kernel.swapped ? kernel.cluster_n : kernel.cluster_m;
  p.cluster_n = kernel.swapped ? kernel.cluster_m : kernel.cluster_n;
  while (1 << p.cluster_m_log2 < p.cluster_m) ++p.cluster_m_log2;
  while (1 << p.cluster_n_log2 < p.cluster_n) ++p.cluster_n_log2;
  p.pieces = pieces_of(problem);
  const Batch& batch = problem.batch;
  p.groups_m = uint32_t(ceil_div(p.gemm.tiles_m, p.cluster_m));
  p.groups_n = uint32_t(ceil_div(p.gemm.tiles_n, p.cluster_n));
  p.strip = uint32_t(std::max(1, kStripColumns / (std::max(S.n, 64) * p.cluster_n)));
  p.groups_a_matrix = p.groups_m * p.groups_n;
  p.groups = uint32_t(p.groups_a_matrix * batch.count());
  Maps maps{};
  if (problem.k > 0) {
    if (const int error = make_operand_maps<C>(problem, &p, &maps)) return error;
  }
  if constexpr (C::Out == Store::kTma) {
    TensorMapSpec spec{problem.c.data,       problem.n,     problem.m,
                       problem.c.row_stride, kStoreColumns, kStoreRows};
    spec.stack = batch.count();
    spec.stack_stride = batch.c[0];
    if (const int error = encode_tensor_map(spec, &maps.c)) return error;
  }
  const int cluster = p.cluster_m * p.cluster_n * p.gemm.splits;
  return launch_clusters<gemm_kernel<C>>(
      p.gemm.splits > 1 ? Clusters::kAll : Clusters::kResident, p.groups, cluster, C::Threads,
      C::SmemBytes, static_cast<cudaStream_t>(args.stream), Start::kEarly, maps, p);
}

template <class T, const Tile& S, bool ARows, bool BRows>
int launch_layout(const Problem& problem, const LaunchArgs& args) {
  if constexpr (S.boxes() > 0) {
    const bool whole = args.launch.splits == 1;
    if (whole && problem.c_by_tma()) {
      using C = Config<T, S, ARows, BRows, Store::kTma>;
      return launch_instance<C, S>(problem, args);
    }
    if (whole && problem.rows_of_16_bits()) {
      using C = Config<T, S, ARows, BRows, Store::kRows>;
      return launch_instance<C, S>(problem, args);
    }
  }
  using C = Config<T, S, ARows, BRows, Store::kDirect>;
  return launch_instance<C, S>(problem, args);
}

template <class T, const Tile& S>
int launch_tile(const LaunchArgs& args) {
  Prepared prepared;
  if (const int error = prepare(args, &prepared)) return error;
  const bool swapped = args.launch.kernel->swapped;
  const Problem problem = swapped ? transpose(prepared.problem) : prepared.problem;
  return with_layouts(problem, [&](auto a_row, auto b_row) {
    return launch_layout<T, S, a_row.value, !b_row.value>(problem, args);
  });
}

}  // namespace vitamin::sm90
