// A tile of an operand of any alignment in shared memory, in lines as they lie in memory: how
// threads copy it there, and how they read it for mma.sync.
#pragma once

#include "../common/copy.cuh"
#include "../common/cut.cuh"
#include "../dispatch/stream_shape.h"
#include "../ptx/cp_async.cuh"
#include "../ptx/global.cuh"
#include "../ptx/shared.cuh"

namespace vitamin::sm90 {

// Up to 64 rows of a, or columns of b, by up to 64 of K. A line is contiguous in memory: 64 of K
// (KMajor) or of the rows. It is copied in the aligned pieces of 16 bytes that it touches, so that
// it begins up to 7 elements behind the beginning of its place in shared memory, and what those
// pieces have of its neighbours comes along. Lines that aren't contiguous are copied by elements.
template <bool KMajor, int Threads>
class LineTile {
 public:
  // Bytes from a line to the next: 64 elements and those before, and no bank conflicts.
  static constexpr int kLine = kOnceLine;

  // Of the rows from row0 on of `extent`, of an operand of depth k. `inner`: 1, or the distance of
  // the elements of a line.
  __device__ __forceinline__ LineTile(const void* base, int64_t outer, int64_t inner, int row0,
                                      int64_t extent, int k)
      : outer_(outer), inner_(inner), k_(k) {
    const auto* const start = static_cast<const unsigned short*>(base);
    first_ = start + row0 * (KMajor ? outer : inner);
    rows_ = int(min(extent - row0, int64_t(64)));
    begin_ = start;
    end_ = start + ((KMajor ? extent : k) - 1) * outer + (KMajor ? k : extent);
  }

  __device__ __forceinline__ int rows() const { return rows_; }

  // An element that was loaded and is yet to be written to shared memory.
  struct Late {
    uint32_t to = 0, value;
    __device__ __forceinline__ void write() {
      if (to) ptx::st_shared_u16(to, value);
    }
  };

  // Begins the copy of K from k0 on, a multiple of 64. By all threads of the block, each of which
  // then writes what comes late, when all that can be under way is.
  __device__ __forceinline__ Late copy(uint32_t tile, int k0) const {
    Late late;
    const int depth = min(k_ - k0, 64);
    const int lines = KMajor ? rows_ : depth, length = KMajor ? depth : rows_;
    const unsigned short* const from = first_ + k0 * (KMajor ? inner_ : outer_);
    if (inner_ != 1) {
      copy_elements(tile, from, lines, length);
      return late;
    }
    // Lanes side by side take the pieces of a line; the ninth of each line come after the others.
    const int most = min((length + 14) / 8, 8);
    const int shift = most <= 1 ? 0 : 32 - __clz(most - 1);
    const int others = lines << shift, all = length > 57 ? others + lines : others;
#pragma unroll 1
    for (int i = threadIdx.x; i < all; i += Threads) {
      const bool ninth = i >= others;
      copy_piece(tile, from, ninth ? i - others : i >> shift, length,
                 ninth ? 8 : i & ((1 << shift) - 1), late);
    }
    return late;
  }

  // Where this lane reads for an mma.sync: of row `row` of the tile and, of each 16 of K, elements
  // 2 (lane % 4) and the next.
  struct Place {
    uint32_t even, odd;
  };
  __device__ __forceinline__ Place place(uint32_t tile, int row) const {
    const int k = threadIdx.x % 4 * 2;
    if constexpr (KMajor) {
      const uint32_t at = tile + row * kLine + (before(row) + k) * 2;
      return {at, at + 2};
    } else {
      return {tile + k * kLine + (before(k) + row) * 2,
              tile + (k + 1) * kLine + (before(k + 1) + row) * 2};
    }
  }

  // Both, of row `row8 * 8` further on and `k8 * 8` of K. Pairs: lines begin at multiples of 4
  // bytes.
  template <bool Pairs>
  static __device__ __forceinline__ uint32_t read(const Place& at, int row8, int k8) {
    const int offset = KMajor ? row8 * (8 * kLine) + k8 * 16 : row8 * 16 + k8 * (8 * kLine);
    if constexpr (KMajor && Pairs) return ptx::ld_shared_u32(at.even + offset);
    return pair(ptx::ld_shared_u16(at.even + offset), ptx::ld_shared_u16(at.odd + offset));
  }

 private:
  // Elements between an aligned piece's beginning and that of a line. Those 8 lines apart are
  // alike.
  __device__ __forceinline__ int before(int line) const {
    if (inner_ != 1) return 0;
    return behind_piece(first_ + line * outer_);
  }

  __device__ __forceinline__ void copy_piece(uint32_t tile, const unsigned short* from, int line,
                                             int length, int piece, Late& late) const {
    const unsigned short* const start = from + line * outer_;
    const int at = piece * 8 - behind_piece(start);  // of the line
    if (at >= length) return;
    const uint32_t to = tile + line * kLine + piece * 16;
    const unsigned short* const source = start + at;
    if (source >= begin_ && source + 8 <= end_) {
      ptx::cp_async_16_fill_l1(to, source, 16);
      return;
    }
    // The memory begins or ends within the piece.
    const int low = source < begin_ ? int(begin_ - source) : 0;
    const int high = source + 8 > end_ ? int(end_ - source) : 8;
#pragma unroll 1
    for (int i = low & ~1; i < high; i += 2) {
      if (i >= low && i + 2 <= high) {
        ptx::cp_async_small<4>(to + i * 2, source + i, 4);
      } else {
        late.write();
        const int one = i < low ? low : i;
        late.to = to + one * 2;
        late.value = ptx::ld_global_u16(source + one);
      }
    }
  }

  __device__ __forceinline__ void copy_elements(uint32_t tile, const unsigned short* from,
                                                int lines, int length) const {
    constexpr int kAtOnce = 8, kLines = Threads / 64;
    const int at = threadIdx.x % 64;
#pragma unroll 1
    for (int start = threadIdx.x / 64; start < lines; start += kLines * kAtOnce) {
      uint32_t v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int line = start + kLines * i;
        const bool inside = line < lines && at < length;
        v[i] = inside ? ptx::ld_global_u16(from + line * outer_ + at * inner_) : 0;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int line = start + kLines * i;
        if (line < lines) ptx::st_shared_u16(tile + line * kLine + at * 2, v[i]);
      }
    }
  }

  const unsigned short* first_;         // of the tile, at K = 0
  const unsigned short *begin_, *end_;  // of the matrix
  int64_t outer_, inner_;
  int rows_, k_;
};

}  // namespace vitamin::sm90
