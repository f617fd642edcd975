// Rows of c that TMA can't write: put together in shared memory, written in 16-byte pieces.
#pragma once

#include "../common/cut.cuh"
#include "../common/staged_store.cuh"
#include "../ptx/global.cuh"
#include "../ptx/shared.cuh"

namespace vitamin::sm90 {

// Writes one box of a warpgroup, a warp 4 rows at a time, 8 lanes each. Every row begins where it
// begins: whole 16-byte pieces of memory are put together from the box, whatever their offset in
// it; the elements before the first and after the last piece go one by one.
__device__ __forceinline__ void copy_rows_out(uint32_t box, const GemmParams& p, int64_t c_offset,
                                              int64_t m0, int64_t n0) {
  const int lane = threadIdx.x % 32, piece = lane % 8;
  const int first = threadIdx.x % kWarpgroup / 32 * 16 + lane / 8;
  const int rows = int(min(p.m - m0, int64_t(kStoreRows)));
  const int columns = p.n - n0 < kStoreColumns ? int(p.n - n0) : kStoreColumns;
  auto* to = static_cast<unsigned short*>(p.c) + c_offset + (m0 + first) * p.c_row + n0;
#pragma unroll 1
  for (int row = first; row < min(first + 16, rows); row += 4, to += 4 * p.c_row) {
    const auto place = [&](int column) {
      return box + row * 128 + (((column / 8) ^ (row % 8)) * 16 + column % 8 * 2);
    };
    const auto store_one = [&](int column) { to[column] = ptx::ld_shared_u16(place(column)); };
    const int before = int(reinterpret_cast<uintptr_t>(to) >> 1 & 7);
    const int at = piece * 8 - before;
    const bool whole = at >= 0 && at + 8 <= columns;
    if (whole) {
      const int chunk = at & ~7;
      const uint4 x = cut(ptx::ld_shared_v4(place(chunk)),
                          ptx::ld_shared_v4(place(before ? chunk + 8 : chunk)), at & 7);
      ptx::st_global_v4(to + at, x.x, x.y, x.z, x.w);
    }
    if (columns == kStoreColumns) {
      if (before) store_one(piece < 8 - before ? piece : kStoreColumns - 8 + piece);
    } else {
      for (int column = max(at, 0); !whole && column < min(at + 8, columns); ++column) {
        store_one(column);
      }
      for (int column = kStoreColumns - before; piece == 0 && column < columns; ++column) {
        store_one(column);
      }
    }
  }
}

// Box number `Box` of a warpgroup's packed tile, by way of `buffer`.
template <int Box>
__device__ __forceinline__ void store_rows(const uint32_t* packed, uint32_t buffer, int barrier,
                                           const GemmParams& p, int64_t c_offset, StorePlace at) {
  ptx::named_barrier(barrier, kWarpgroup);
  fill_box(packed + Box * kBoxRegisters, buffer);
  ptx::named_barrier(barrier, kWarpgroup);
  copy_rows_out(buffer, p, c_offset, at.m, at.n + Box * kStoreColumns);
}

}  // namespace vitamin::sm90
