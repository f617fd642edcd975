// Rows of c that TMA can't write: put together in shared memory, written in 16-byte pieces.
#pragma once

#include "../common/staged_store.cuh"
#include "../ptx/global.cuh"

namespace vitamin::sm90 {

// Writes one box of a warpgroup, a warp 4 rows at a time, 8 lanes each. Every row begins where it
// begins: whole 16-byte pieces of memory are put together from the box, whatever their offset in
// it; the elements before the first and after the last piece go one by one.
__device__ __forceinline__ void copy_rows_out(const unsigned char* box, const GemmParams& p,
                                              int64_t c_offset, int64_t m0, int64_t n0) {
  const int lane = threadIdx.x % 32, piece = lane % 8;
  const int first = threadIdx.x % kWarpgroup / 32 * 16 + lane / 8;
  const int columns = p.n - n0 < kStoreColumns ? int(p.n - n0) : kStoreColumns;
  auto* to = static_cast<unsigned short*>(p.c) + c_offset + (m0 + first) * p.c_row + n0;
#pragma unroll 1
  for (int row = first; row < first + 16 && m0 + row < p.m; row += 4, to += 4 * p.c_row) {
    const unsigned char* const line = box + row * 128;
    const auto place = [&](int column) {
      return line + (((column / 8) ^ (row % 8)) * 16 + column % 8 * 2);
    };
    const auto store_one = [&](int column) {
      to[column] = *reinterpret_cast<const unsigned short*>(place(column));
    };
    const int before = int(reinterpret_cast<uintptr_t>(to) >> 1 & 7);
    const int at = piece * 8 - before;
    const bool whole = at >= 0 && at + 8 <= columns;
    if (whole) {
      const int even = at & ~1;
      uint32_t word[5];
#pragma unroll
      for (int i = 0; i < 4; ++i) word[i] = *reinterpret_cast<const uint32_t*>(place(even + 2 * i));
      if (at != even) {
        word[4] = *reinterpret_cast<const uint32_t*>(place(even + 8));
#pragma unroll
        for (int i = 0; i < 4; ++i) word[i] = __funnelshift_r(word[i], word[i + 1], 16);
      }
      ptx::st_global_v4(to + at, word[0], word[1], word[2], word[3]);
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
__device__ __forceinline__ void store_rows(const uint32_t* packed, unsigned char* buffer,
                                           int barrier, const GemmParams& p, int64_t c_offset,
                                           StorePlace at) {
  ptx::named_barrier(barrier, kWarpgroup);
  fill_box(packed + Box * kBoxRegisters, ptx::shared_address(buffer));
  ptx::named_barrier(barrier, kWarpgroup);
  copy_rows_out(buffer, p, c_offset, at.m, at.n + Box * kStoreColumns);
}

}  // namespace vitamin::sm90
