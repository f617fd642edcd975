#include "workspace.h"

namespace vitamin {
namespace {

int64_t round_up(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

}  // namespace

int64_t tile_count(const Problem& problem, int tile_m, int tile_n) {
  return (problem.m + tile_m - 1) / tile_m * ((problem.n + tile_n - 1) / tile_n) *
         problem.batch.count();
}

Repacked repacked(const Problem& problem, Operand operand) {
  const bool is_a = operand == Operand::kA;
  const Matrix& from = is_a ? problem.a : problem.b;
  const int64_t rows = is_a ? problem.m : problem.k;
  const int64_t columns = is_a ? problem.k : problem.n;
  // An operand with neither stride 1 keeps the order in which it lies in memory.
  const bool column_major = from.layout == Layout::kCol ||
                            (from.layout == Layout::kStrided && from.row_stride < from.col_stride);

  Repacked to;
  to.outer = column_major ? columns : rows;
  to.inner = column_major ? rows : columns;
  // Rows begin at multiples of 64 bytes, long ones at whole lines: others cost up to twice the L2
  // requests.
  to.pitch = round_up(to.inner, to.inner < 64 ? 8 : to.inner < 512 ? 32 : 64);
  to.matrix.layout = column_major ? Layout::kCol : Layout::kRow;
  to.matrix.row_stride = column_major ? 1 : to.pitch;
  to.matrix.col_stride = column_major ? to.pitch : 1;
  to.matrix.align = 16;
  const int64_t* strides = is_a ? problem.batch.a : problem.batch.b;
  for (int d = problem.batch.dims - 1; d >= 0; --d) {
    if (strides[d] == 0) continue;
    to.batch_stride[d] = to.batches * to.outer * to.pitch;
    to.batches *= problem.batch.size[d];
  }
  to.bytes = to.batches * to.outer * to.pitch * 2;
  return to;
}

WorkspaceLayout workspace_layout(const Problem& problem, const Launch& launch, int tile_m,
                                 int tile_n) {
  constexpr int64_t line = 256;
  WorkspaceLayout at;
  // The Hopper kernel adds up the parts of a split K in shared memory.
  if (launch.splits > 1 && !launch.kernel->splits_in_cluster) {
    const int64_t tiles = tile_count(problem, tile_m, tile_n);
    at.counter_bytes = tiles * int64_t(sizeof(unsigned));
    at.partial_at = round_up(at.counter_bytes, line);
    at.bytes = at.partial_at + tiles * launch.splits * tile_m * tile_n * int64_t(sizeof(float));
  }
  at.a_at = round_up(at.bytes, line);
  if (launch.repack_a) at.bytes = at.a_at + repacked(problem, Operand::kA).bytes;
  at.b_at = round_up(at.bytes, line);
  if (launch.repack_b) at.bytes = at.b_at + repacked(problem, Operand::kB).bytes;
  return at;
}

}  // namespace vitamin
