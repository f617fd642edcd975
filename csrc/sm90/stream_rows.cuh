// The wide operand of the streaming kernel where K is contiguous in it.
//
// Rows whose distance is a multiple of `classes` begin alike within 16 bytes: `before` elements
// behind the last multiple of them. A warp takes rows of one class, and pieces of 16 bytes from
// there on; the thin operand is read with as much of a shift. With fewer than 8 classes the warps
// of a class share K.
//
// Of a step of 32 indices of K, lane 4 g + t has piece t of rows g and g + 8 of each 16. The order
// of K within a step is the same for both operands and otherwise doesn't matter: two mma.sync take
// the first and the second half of all pieces.
#pragma once

#include "../common/cut.cuh"
#include "../dispatch/stream_shape.h"
#include "stream.cuh"

namespace vitamin::sm90 {

// Groups of 16 rows a warp; Depth: 32s of K that a step has.
template <class T, int Groups, int Depth>
class RowStream {
 public:
  static constexpr int kBefore = kPiece, kRowTiles = Groups;
  static constexpr int kPieces = 2 * Groups * Depth, kInFlight = 12 / kPieces;
  static constexpr int kStep = kStreamRowStep * Depth;  // of K

  static __host__ __device__ __forceinline__ int step_extent(int) { return kStep; }
  static __device__ __forceinline__ int rows(int classes_log2) {
    return 16 * Groups << classes_log2;
  }
  static __device__ __forceinline__ int parts(int classes_log2) {
    return kStreamWarps >> classes_log2;
  }
  static __device__ __forceinline__ int part(int classes_log2) {
    return threadIdx.x / 32 >> classes_log2;
  }

  // Of which the sums have a part each.
  static __device__ __forceinline__ int sum_parts(int classes_log2) { return parts(classes_log2); }
  static __device__ __forceinline__ int sum_part(int classes_log2) { return part(classes_log2); }

  __device__ __forceinline__ explicit RowStream(const StreamParams& p) : p_(p) {
    row0_ = (threadIdx.x / 32 & ((1 << p.classes_log2) - 1)) + (lane_row() << p.classes_log2);
  }

  // The rows from wide0 on of the matrix that begins `offset` elements from the first one.
  __device__ __forceinline__ void choose(int64_t offset, int wide0) {
    const T* const row =
        static_cast<const T*>(p_.gemm.a) + offset + int64_t(wide0 + row0_) * p_.gemm.a_outer;
    before_ = behind_piece(row);
    first_ = row - before_ + lane_piece() * kPiece;
    last_row_ = int(p_.gemm.m) - 1 - wide0;
    whole_steps_ = last_row_ >= rows(p_.classes_log2) - 1 ? (int(p_.gemm.k) + before_) / kStep : 0;
  }

  // Of the tile, that of accumulators 2 half and 2 half + 1 of a group.
  __device__ __forceinline__ int row(int group, int half) const {
    return row0_ + ((group * 16 + half * 8) << p_.classes_log2);
  }

  // Begins the copies of a step.
  __device__ __forceinline__ void copy(uint32_t to, int step) const {
    const T* const from = first_ + step * kStep;
    const int64_t next8 = (p_.gemm.a_outer << p_.classes_log2) * 8;  // rows
    if (step < whole_steps_) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const T* const piece = from + i % (2 * Groups) * next8 + i / (2 * Groups) * kStreamRowStep;
        ptx::cp_async_16(to + i * kPieceBytes, piece);
      }
    } else {
      const int left = int(p_.gemm.k) - step * kStep + before_ - lane_piece() * kPiece;
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int number = i % (2 * Groups), k = i / (2 * Groups) * kStreamRowStep;
        const int own = row(number / 2, number % 2), count = left - k;
        const T* const piece = from + number * next8 + k;
        if (own <= last_row_ && count > 0 && count < kPiece && piece + kPiece > p_.wide_end) {
          copy_elements(to + i * kPieceBytes, piece, count);
        } else {
          ptx::cp_async_16_fill(to + i * kPieceBytes, piece,
                                own <= last_row_ && count > 0 ? 16 : 0);
        }
      }
    }
  }

  // Finds this lane's places in the thin operand, where step 0 would lie.
  template <int ColumnGroups, class Thin>
  __device__ __forceinline__ void find(const Thin& thin, uint32_t (&places)[ColumnGroups]) {
    bool aligned = true;
#pragma unroll
    for (int group = 0; group < ColumnGroups; ++group) {
      const int row = thin.row_within(group * 8 + lane_row());
      places[group] = thin.row_at(row) + thin.place_of(row, lane_piece() * kPiece - before_) * 2;
      aligned &= places[group] % 16 == 0;
    }
    aligned_ = __all_sync(0xffffffffu, aligned);
  }

  // Multiplies a step that was copied to `at`.
  template <int ColumnGroups>
  __device__ __forceinline__ void multiply(float (&acc)[Groups][ColumnGroups][4], uint32_t at,
                                           const uint32_t (&places)[ColumnGroups], int step) const {
    uint4 a[kPieces];
#pragma unroll
    for (int i = 0; i < kPieces; ++i) a[i] = ptx::ld_shared_v4(at + i * kPieceBytes);
    const int k0 = step * kStep - before_, k = int(p_.gemm.k);
    if (k0 < 0 || k0 + kStep > k) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const int at = k0 + i / (2 * Groups) * kStreamRowStep + lane_piece() * kPiece;
        a[i] = keep(a[i], -at, k - at);
      }
    }
#pragma unroll
    for (int group = 0; group < ColumnGroups; ++group) {
      uint4 b[Depth];
#pragma unroll
      for (int d = 0; d < Depth; ++d) {
        const uint32_t place = places[group] + (step * Depth + d) * (kStreamRowStep * 2);
        const uint32_t from = place & ~15u;
        b[d] = ptx::ld_shared_v4(from);
        if (!aligned_) {
          const uint4 high = ptx::ld_shared_v4(place == from ? from : from + 16);
          b[d] = cut(b[d], high, place / 2 % 8);
        }
      }
#pragma unroll
      for (int d = 0; d < Depth; ++d) {
        const uint32_t low[2] = {b[d].x, b[d].y}, high[2] = {b[d].z, b[d].w};
#pragma unroll
        for (int i = 0; i < Groups; ++i) {
          const uint4 &u = a[(d * Groups + i) * 2], &v = a[(d * Groups + i) * 2 + 1];
          const uint32_t u_low[4] = {u.x, v.x, u.y, v.y}, u_high[4] = {u.z, v.z, u.w, v.w};
          ptx::mma_m16n8k16<T>(acc[i][group], u_low, low);
          ptx::mma_m16n8k16<T>(acc[i][group], u_high, high);
        }
      }
    }
  }

 private:
  static __device__ __forceinline__ int lane_row() { return threadIdx.x % 32 / 4; }
  static __device__ __forceinline__ int lane_piece() { return threadIdx.x % 4; }

  // Elements first .. last of a piece, and zeros: what lies beside its row isn't part of it.
  static __device__ __forceinline__ uint4 keep(uint4 x, int first, int last) {
    const auto word = [&](uint32_t w, int i) {
      return (i >= first && i < last ? w & 0xffffu : 0u) |
             (i + 1 >= first && i + 1 < last ? w & 0xffff0000u : 0u);
    };
    return make_uint4(word(x.x, 0), word(x.y, 2), word(x.z, 4), word(x.w, 6));
  }

  const StreamParams& p_;
  const T* first_ = nullptr;  // this lane's piece of its first row, at step 0
  int row0_;
  int last_row_ = 0;      // of all: its last piece may end where the memory does
  int whole_steps_ = 0;   // of whole pieces only
  bool aligned_ = false;  // places in the thin operand, to 16 bytes
  int before_ = 0;        // elements from the last multiple of 16 bytes to the beginning of a row
};

}  // namespace vitamin::sm90
