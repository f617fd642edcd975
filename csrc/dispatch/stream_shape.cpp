#include "stream_shape.h"

#include <algorithm>

namespace vitamin {
namespace {

// Rows from which on threads of the shallow kernel take two each: eight tiles for each of the 132
// SMs of an H200. The shape of a problem is the same on all GPUs.
constexpr int64_t kManyRows = 132 * 8 * kShallowThreads;

template <class Shape>
const Matrix& find_wide(const Problem& p, Shape* s) {
  s->wide_is_b = p.n >= p.m;
  const Matrix& wide = s->wide_is_b ? p.b : p.a;
  s->wide = s->wide_is_b ? p.n : p.m;
  s->thin = s->wide_is_b ? p.m : p.n;
  s->by_rows = wide.layout == (s->wide_is_b ? Layout::kCol : Layout::kRow);
  return wide;
}

}  // namespace

StreamShape stream_shape(const Problem& p) {
  StreamShape s;
  const Matrix& wide = find_wide(p, &s);
  s.columns = s.thin <= 8 ? 8 : s.thin <= 16 || !s.by_rows ? 16 : 32;
  s.classes = 16 / wide.align;
  if (s.by_rows) {
    // A warp takes 32 rows at once, or 16 if there would be few blocks otherwise.
    s.groups = s.columns <= 16 && s.wide > 16 * 32 * s.classes ? 2 : 1;
    s.rows = 16 * s.classes * s.groups;
    // A row may begin up to 7 elements behind a multiple of 16 bytes.
    const int before = 8 - wide.align / 2;
    s.step = s.groups > 1 ? kStreamRowStep : 2 * kStreamRowStep;
    s.steps = int((p.k + before + s.step - 1) / s.step);
  } else {
    s.rows = s.classes == 1 ? kStreamColumnTile : kStreamColumnTile - 8;
    s.step = kStreamColumnStep * s.classes;
    s.steps = int((p.k + s.step - 1) / s.step);
  }
  const int64_t thin_tiles = (s.thin + s.columns - 1) / s.columns;
  s.blocks = (s.wide + s.rows - 1) / s.rows * thin_tiles * p.batch.count();
  return s;
}

ShallowShape shallow_shape(const Problem& p) {
  ShallowShape s;
  const Matrix& wide = find_wide(p, &s);
  s.columns = s.thin <= 2 ? 2 : s.thin <= 4 ? 4 : s.thin <= 8 ? 8 : 16;
  // Rows may overlap.
  const int64_t row_bytes = s.by_rows ? std::max(wide.pitch(), 2 * p.k) : 0;
  const int64_t c_row = s.wide_is_b ? p.c.col_stride : p.c.row_stride;
  const int64_t c_column = s.wide_is_b ? p.c.row_stride : p.c.col_stride;
  s.c_whole = s.thin > 1 && s.thin <= s.columns && c_column == 1 && c_row == s.thin &&
              reinterpret_cast<uintptr_t>(p.c.data) % 16 == 0;
  for (int d = 0; d < p.batch.dims; ++d) s.c_whole &= p.batch.c[d] % 8 == 0;
  const bool many = s.by_rows && s.wide >= kManyRows;
  s.rows = many && row_bytes <= 64 && s.columns <= 8 ? 2 : 1;
  const int tile = kShallowThreads * s.rows;
  s.side_by_side = c_row == 1 || s.wide == 1 || s.c_whole;
  s.thin_bytes = int((4 * s.columns * p.k + 15) / 16 * 16);
  // A tile begins up to 14 bytes behind a multiple of 16.
  const int64_t c_bytes = s.c_whole ? tile * s.thin * (p.out_f32 ? 4 : 2) : 0;
  s.buffer_bytes = (std::max(tile * row_bytes, c_bytes) + 31) / 16 * 16;
  const int64_t thin_tiles = (s.thin + s.columns - 1) / s.columns;
  s.blocks = (s.wide + tile - 1) / tile * thin_tiles * p.batch.count();
  return s;
}

}  // namespace vitamin
