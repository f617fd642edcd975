// The wide operand of the streaming kernel where K is not contiguous in it: lines of neighbours,
// one for each index of K.
//
// Lines whose distance is a multiple of `classes` begin alike within 16 bytes. A warp takes lines
// of one class, and of each 8 pieces of 16 bytes from the last multiple of them before the tile on:
// 64 elements, of which the first up to 7 belong to the tile before. So a tile has 64 columns if
// all lines begin at multiples of 16 bytes, else 56. With fewer than 8 classes the warps of a class
// share K.
//
// Of a step of 16 lines, lane 4 g + t has piece g of lines 2 t, 2 t + 1, 2 t + 8 and 2 t + 9, and
// pairs the elements of two lines up, as mma.sync wants them.
#pragma once

#include "../common/cut.cuh"
#include "../dispatch/stream_shape.h"
#include "stream.cuh"

namespace vitamin::sm90 {

template <class T>
class ColumnStream {
 public:
  static constexpr int kBefore = 0, kRowTiles = 4, kPieces = 4, kInFlight = 3;

  static __host__ __device__ __forceinline__ int step_extent(int classes_log2) {
    return kStreamColumnStep << classes_log2;
  }
  static __device__ __forceinline__ int rows(int classes_log2) {
    return classes_log2 == 0 ? kStreamColumnTile : kStreamColumnTile - kPiece;
  }
  static __device__ __forceinline__ int parts(int classes_log2) {
    return kStreamWarps >> classes_log2;
  }
  static __device__ __forceinline__ int part(int classes_log2) {
    return threadIdx.x / 32 >> classes_log2;
  }

  // Of which the sums have a part each: classes share K.
  static __device__ __forceinline__ int sum_parts(int) { return kStreamWarps; }
  static __device__ __forceinline__ int sum_part(int) { return threadIdx.x / 32; }

  __device__ __forceinline__ explicit ColumnStream(const StreamParams& p) : p_(p) {
    line0_ = (threadIdx.x / 32 & ((1 << p.classes_log2) - 1)) + (lane_line() << p.classes_log2);
  }

  // The columns from wide0 on of the matrix that begins `offset` elements from the first one.
  __device__ __forceinline__ void choose(int64_t offset, int wide0) {
    const T* const line =
        static_cast<const T*>(p_.gemm.a) + offset + line0_ * p_.gemm.a_outer + wide0;
    before_ = behind_piece(line);
    first_ = line - before_ + lane_piece() * kPiece;
    left_ = min(int(p_.gemm.m) - wide0, kStreamColumnTile) + before_;
  }

  // Of the tile, that of accumulators 2 half and 2 half + 1 of a group; negative: of another one.
  __device__ __forceinline__ int row(int group, int half) const {
    return lane_piece() * kPiece + group * 2 + half - before_;
  }

  __device__ __forceinline__ void copy(uint32_t to, int step) const {
    const int k0 = step * step_extent(p_.classes_log2) + line0_, k = int(p_.gemm.k);
    const T* const from = first_ + int64_t(step) * step_extent(p_.classes_log2) * p_.gemm.a_outer;
    const int count = left_ - lane_piece() * kPiece;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int line = line_of(i) << p_.classes_log2;
      const T* const piece = from + line * p_.gemm.a_outer;
      if (k0 + line < k && count > 0 && count < kPiece && piece + kPiece > p_.wide_end) {
        copy_elements(to + i * kPieceBytes, piece, count);
      } else {
        ptx::cp_async_16_fill_l1(to + i * kPieceBytes, piece, k0 + line < k && count > 0 ? 16 : 0);
      }
    }
  }

  template <int ColumnGroups, class Thin>
  __device__ __forceinline__ void find(const Thin& thin, uint32_t (&places)[ColumnGroups]) {
#pragma unroll
    for (int group = 0; group < ColumnGroups; ++group) {
      const int row = thin.row_within(group * 8 + threadIdx.x % 32 / 4);
      places[group] = thin.row_at(row) + thin.place_of(row, line0_) * 2;
    }
  }

  template <int ColumnGroups>
  __device__ __forceinline__ void multiply(float (&acc)[4][ColumnGroups][4], uint32_t at,
                                           const uint32_t (&places)[ColumnGroups], int step) const {
    uint4 line[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) line[i] = ptx::ld_shared_v4(at + i * kPieceBytes);
    uint32_t a[4][4];
    const auto pair_up = [&](int tile, uint32_t w0, uint32_t w1, uint32_t w2, uint32_t w3) {
      a[tile][0] = __byte_perm(w0, w1, 0x5410);
      a[tile][1] = __byte_perm(w0, w1, 0x7632);
      a[tile][2] = __byte_perm(w2, w3, 0x5410);
      a[tile][3] = __byte_perm(w2, w3, 0x7632);
    };
    pair_up(0, line[0].x, line[1].x, line[2].x, line[3].x);
    pair_up(1, line[0].y, line[1].y, line[2].y, line[3].y);
    pair_up(2, line[0].z, line[1].z, line[2].z, line[3].z);
    pair_up(3, line[0].w, line[1].w, line[2].w, line[3].w);
#pragma unroll
    for (int group = 0; group < ColumnGroups; ++group) {
      const uint32_t from = places[group] + step * step_extent(p_.classes_log2) * 2;
      uint32_t b[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        b[i] = __byte_perm(ptx::ld_shared_u16(from + (line_of(2 * i) << p_.classes_log2) * 2),
                           ptx::ld_shared_u16(from + (line_of(2 * i + 1) << p_.classes_log2) * 2),
                           0x5410);
      }
#pragma unroll
      for (int tile = 0; tile < 4; ++tile) ptx::mma_m16n8k16<T>(acc[tile][group], a[tile], b);
    }
  }

 private:
  static __device__ __forceinline__ int lane_line() { return threadIdx.x % 4 * 2; }
  static __device__ __forceinline__ int lane_piece() { return threadIdx.x % 32 / 4; }
  // Of a lane's lines, counted from its first one.
  static __device__ __forceinline__ int line_of(int i) { return i / 2 * 8 + i % 2; }

  const StreamParams& p_;
  const T* first_ = nullptr;  // this lane's piece of its first line
  int line0_, left_ = 0;      // elements from the first piece to the end of the tile or matrix
  int before_ = 0;            // elements from the last multiple of 16 bytes to the tile
};

}  // namespace vitamin::sm90
