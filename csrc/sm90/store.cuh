// Rows of c that TMA can't write: put together in shared memory, written in 16-byte pieces.
#pragma once

#include "../common/cut.cuh"
#include "../common/staged_store.cuh"
#include "../ptx/global.cuh"
#include "../ptx/shared.cuh"

namespace vitamin::sm90 {

// Where the 16-byte chunk of a box lies that element `column` of row `row` belongs to.
__device__ __forceinline__ uint32_t chunk_of_box(uint32_t box, int row, int column) {
  return box + row * 128 + ((column / 8) ^ (row % 8)) * 16;
}

__device__ __forceinline__ uint32_t element_of_box(uint32_t box, int row, int column) {
  return chunk_of_box(box, row, column) + column % 8 * 2;
}

// Rows of c that a box goes to: from its first element on.
struct BoxOfRows {
  unsigned short* c;
  int64_t pitch;
  int rows, columns;  // that are in c

  __device__ __forceinline__ static BoxOfRows get(const GemmParams& p, int64_t c_offset, int64_t m,
                                                  int64_t n) {
    return {static_cast<unsigned short*>(p.c) + c_offset + m * p.c_row + n, p.c_row,
            int(min(p.m - m, int64_t(kStoreRows))), int(min(p.n - n, int64_t(kStoreColumns)))};
  }
};

// Writes rows `row` and `row + 8` of a box, 8 lanes a row. Rows begin where they begin, these two
// alike: whole 16-byte pieces of memory are put together from the box, whatever their offset in it;
// the elements before the first and after the last piece go one by one.
__device__ __forceinline__ void copy_rows_out(uint32_t box, const BoxOfRows& to, int row,
                                              int piece) {
  if (row >= to.rows) return;
  constexpr int kNext = 8 * 128;  // bytes of the box to the second row
  const bool two = row + 8 < to.rows;
  unsigned short* const c = to.c + row * to.pitch;
  const int before = behind_piece(c);
  const int at = piece * 8 - before;
  if (before) {
    const int column = piece < 8 - before ? piece : kStoreColumns - 8 + piece;
    const uint32_t from = element_of_box(box, row, column);
    const unsigned short x = ptx::ld_shared_u16(from), y = ptx::ld_shared_u16(from + kNext);
    c[column] = x;
    if (two) c[column + 8 * to.pitch] = y;
  }
  if (at >= 0) {
    const uint32_t low = chunk_of_box(box, row, at);
    const uint32_t high = before ? chunk_of_box(box, row, at + 8) : low;
    unsigned short* const there = c + at;
    const uint4 x = cut(ptx::ld_shared_v4(low), ptx::ld_shared_v4(high), at & 7);
    const uint4 u = ptx::ld_shared_v4(low + kNext), v = ptx::ld_shared_v4(high + kNext);
    ptx::st_global_v4(there, x.x, x.y, x.z, x.w);
    const uint4 y = cut(u, v, at & 7);
    if (two) ptx::st_global_v4(there + 8 * to.pitch, y.x, y.y, y.z, y.w);
  }
}

// Writes row `row` of a box whose rows end within it.
__device__ __forceinline__ void copy_short_row_out(uint32_t box, const BoxOfRows& to, int row,
                                                   int piece) {
  if (row >= to.rows) return;
  unsigned short* const c = to.c + row * to.pitch;
  const int before = behind_piece(c);
  const int head = min(-before & 7, to.columns), tail = head + ((to.columns - head) & ~7);
  const int at = head + piece * 8;
  if (at < tail) {
    const uint32_t low = chunk_of_box(box, row, at);
    const uint32_t high = head ? chunk_of_box(box, row, at + 8) : low;
    const uint4 x = cut(ptx::ld_shared_v4(low), ptx::ld_shared_v4(high), head);
    ptx::st_global_v4(c + at, x.x, x.y, x.z, x.w);
  }
  if (piece < head) c[piece] = ptx::ld_shared_u16(element_of_box(box, row, piece));
  const int column = tail + piece;
  if (column < to.columns) c[column] = ptx::ld_shared_u16(element_of_box(box, row, column));
}

// Writes halves `first` to `last` - 1 of a warp's 16 rows of a box: of each 8 rows 4.
__device__ __forceinline__ void copy_box_out(uint32_t box, const BoxOfRows& to, int first,
                                             int last) {
  const int thread = ptx::thread_now(), piece = thread % 8;
  const int row0 = thread % kWarpgroup / 32 * 16 + thread % 32 / 8;
#pragma unroll 1
  for (int half = first; half < last; ++half) {
    const int row = row0 + half * 4;
    if (to.columns == kStoreColumns) {
      copy_rows_out(box, to, row, piece);
    } else {
#pragma unroll 1
      for (int i = row; i < row + 16; i += 8) copy_short_row_out(box, to, i, piece);
    }
  }
}

// Puts a box of a warpgroup's packed tile into `buffer`, which no thread reads any more.
__device__ __forceinline__ void put_box(const uint32_t* packed, uint32_t buffer, int barrier) {
  ptx::named_barrier(barrier, kWarpgroup);
  fill_box(packed, buffer, ptx::thread_now());
  ptx::named_barrier(barrier, kWarpgroup);
}

}  // namespace vitamin::sm90
