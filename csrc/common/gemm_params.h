// What the mma.sync kernels get as their one argument.
#pragma once

#include "../dispatch/kernel_table.h"
#include "host_device.h"

namespace vitamin {

// Width of the raster's strips in tiles. 16, which makes the running blocks cover a square of the
// output, gained nothing (benchmarks/results/sm80-tiles-h200.csv).
constexpr int kStrip = 8;

struct GemmParams {
  const void* a;
  const void* b;
  void* c;
  const void* bias;
  int64_t m, n, k;
  // How far each operand may be read: past its extent where a scratch is padded with zeros.
  int64_t a_mn, a_k, b_mn, b_k;
  // Strides in elements. `outer` belongs to the index that is not contiguous; `inner` is 1 but for
  // operands with neither stride 1.
  int64_t a_outer, a_inner;
  int64_t b_outer, b_inner;
  int64_t c_row, c_col;
  int64_t bias_stride;
  int64_t tiles_m, tiles_n;
  int64_t first_block;  // added to blockIdx.x
  float* partial;       // split-K partial sums
  unsigned* arrived;    // split-K: parts finished a tile
  Batch batch;
  int splits;
  int a_align, b_align;  // bytes
  bool c_vector;         // rows of c take 16-byte stores
  bool out_f32;
  bool transposed;  // c is worked on as its transpose: the bias goes along m
  Activation activation;
};

// Element offsets of the three matrices at linear batch index `index`.
struct BatchOffset {
  int64_t a, b, c;
};
VITAMIN_HD BatchOffset batch_offset(const Batch& batch, int64_t index) {
  BatchOffset at{0, 0, 0};
  for (int d = batch.dims - 1; d >= 0; --d) {
    const int64_t next = index / batch.size[d];
    const int64_t i = index - next * batch.size[d];
    at.a += i * batch.a[d];
    at.b += i * batch.b[d];
    at.c += i * batch.c[d];
    index = next;
  }
  return at;
}

VITAMIN_HD int64_t ceil_div(int64_t x, int64_t y) { return (x + y - 1) / y; }

// The fields that follow from the problem alone and a kernel's tile.
inline GemmParams make_gemm_params(const Problem& p, int tile_m, int tile_n) {
  GemmParams g{};
  g.a = p.a.data;
  g.b = p.b.data;
  g.c = const_cast<void*>(p.c.data);
  g.bias = p.bias;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.a_mn = p.m;
  g.a_k = p.k;
  g.b_mn = p.n;
  g.b_k = p.k;
  const bool a_col = p.a.layout == Layout::kCol;
  g.a_outer = a_col ? p.a.col_stride : p.a.row_stride;
  g.a_inner = a_col ? p.a.row_stride : p.a.col_stride;
  const bool b_col = p.b.layout == Layout::kCol;
  g.b_outer = b_col ? p.b.col_stride : p.b.row_stride;
  g.b_inner = b_col ? p.b.row_stride : p.b.col_stride;
  g.c_row = p.c.row_stride;
  g.c_col = p.c.col_stride;
  g.bias_stride = p.bias_stride;
  g.tiles_m = ceil_div(p.m, tile_m);
  g.tiles_n = ceil_div(p.n, tile_n);
  g.batch = p.batch;
  g.splits = 1;
  g.a_align = p.a.layout == Layout::kStrided ? 2 : p.a.align;
  g.b_align = p.b.layout == Layout::kStrided ? 2 : p.b.align;
  g.c_vector = p.c.layout == Layout::kRow && p.c.align == 16;
  g.out_f32 = p.out_f32;
  g.activation = p.activation;
  return g;
}

}  // namespace vitamin
