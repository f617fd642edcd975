// Copies k-tiles of one operand from global memory into swizzled shared memory.
#pragma once

#include "copy.cuh"
#include "swizzle.h"

namespace vitamin {

// The threads of a pass write 16 bytes each, side by side; which chunk of its row a thread reads
// from global memory follows from the swizzle and is the same in every pass.
//
// A tile is Outer rows of Inner contiguous elements. KMajor: K is the contiguous index, so the
// next k-tile lies to the right and its columns may run out; else it lies below and its rows may.
// AnyAlign: rows of any alignment and any inner stride, chosen at run time; else 16-byte copies.
template <class T, int Outer, int Inner, int Threads, bool KMajor, bool AnyAlign>
class TileLoader {
 public:
  static constexpr int kChunksPerRow = Inner / 8;
  static constexpr int kChunks = Outer * kChunksPerRow;
  static constexpr int kRowsPerPass = Threads / kChunksPerRow;
  static constexpr int kPasses = (kChunks + Threads - 1) / Threads;
  static constexpr int kBytes = Outer * Inner * 2;
  static constexpr bool kPartialPass = kChunks % Threads != 0;
  static_assert(Threads % kChunksPerRow == 0, "a pass copies whole rows");
  static_assert(kRowsPerPass % 8 == 0 || kPasses == 1, "all passes of a thread swizzle alike");

  // `mn_begin`, `k_begin`: the tile's first index along M or N and along K. `mn_left`: how many
  // indices there are from mn_begin on.
  __device__ __forceinline__ TileLoader(const T* base, int64_t outer_stride, int64_t inner_stride,
                                        int64_t mn_begin, int64_t mn_left, int64_t k_begin,
                                        int align)
      : inner_stride_(inner_stride), align_(align) {
    const int tid = threadIdx.x;
    row_ = tid / kChunksPerRow;
    chunk_ = tid % kChunksPerRow ^ swizzle_xor<Inner>(row_);
    mn_left_ = int(mn_left < (KMajor ? Outer : Inner) ? mn_left : (KMajor ? Outer : Inner));
    const int64_t outer = (KMajor ? mn_begin : k_begin) + row_;
    const int64_t inner = (KMajor ? k_begin : mn_begin) + chunk_ * 8;
    source_ = reinterpret_cast<const char*>(base + outer * outer_stride + inner * inner_stride);
    pass_bytes_ = outer_stride * kRowsPerPass * 2;
    tile_bytes_ = (KMajor ? inner_stride : outer_stride) * (KMajor ? Inner : Outer) * 2;
  }

  // Copies pass `pass` of the current k-tile, whose K is complete, to the tile at shared address
  // `tile`. Interior: the whole tile lies inside the matrix, so nothing needs a bound.
  template <bool Interior>
  __device__ __forceinline__ void load_pass(uint32_t tile, int pass) const {
    if constexpr (Interior && !AnyAlign) {
      if (!kPartialPass || row_ + pass * kRowsPerPass < Outer) {
        ptx::cp_async_16(destination(tile, pass), source_ + pass * pass_bytes_);
      }
    } else {
      load_bounded<false>(tile, pass, KMajor ? Inner : Outer);
    }
  }

  // Copies the k-tile that lies `ahead` k-tiles further on, at the end of K, and has `k_left`
  // indices.
  __device__ __forceinline__ void load_tail(uint32_t tile, int ahead, int k_left) {
    const char* here = source_;
    source_ += ahead * tile_bytes_;
#pragma unroll 1
    for (int pass = 0; pass < kPasses; ++pass) load_bounded<true>(tile, pass, k_left);
    source_ = here;
  }

  __device__ __forceinline__ void next_k_tile() { source_ += tile_bytes_; }

 private:
  __device__ __forceinline__ uint32_t destination(uint32_t tile, int pass) const {
    return tile + (threadIdx.x + pass * Threads) * 16;
  }

  // How many elements of this thread's chunk lie inside the matrix.
  __device__ __forceinline__ int elements(int pass, int k_left) const {
    const int rows = KMajor ? mn_left_ : k_left;
    const int inner = (KMajor ? k_left : mn_left_) - chunk_ * 8;
    return row_ + pass * kRowsPerPass >= rows || inner <= 0 ? 0 : inner < 8 ? inner : 8;
  }

  // With bounds: what lies outside is filled with zero. Tail: K may end within the k-tile.
  template <bool Tail>
  __device__ __forceinline__ void load_bounded(uint32_t tile, int pass, int k_left) const {
    if (kPartialPass && row_ + pass * kRowsPerPass >= Outer) return;
    const int count = elements(pass, k_left);
    const uint32_t to = destination(tile, pass);
    const char* from = source_ + pass * pass_bytes_;
    if constexpr (AnyAlign) {
      copy_unaligned(to, from, count);
    } else if constexpr (Tail || !KMajor) {
      copy_chunk_end(to, from, count);
    } else {
      ptx::cp_async_16_fill(to, from, count == 8 ? 16 : 0);
    }
  }

  // cp.async copies a piece or fills it with zeros: where one ends within the matrix, elements do.
  __device__ __forceinline__ void copy_unaligned(uint32_t to, const char* from, int count) const {
    if (align_ == 2 || count % (align_ / 2) != 0) {
      copy_elements(to, from, inner_stride_, count);
    } else if (align_ == 16) {
      ptx::cp_async_16_fill(to, from, count * 2);
    } else if (align_ == 8) {
      copy_pieces<8>(to, from, count);
    } else {
      copy_pieces<4>(to, from, count);
    }
  }

  template <int Bytes>
  __device__ __forceinline__ void copy_pieces(uint32_t to, const char* from, int count) const {
#pragma unroll
    for (int at = 0; at < 16; at += Bytes) {
      ptx::cp_async_small<Bytes>(to + at, from + at, at < count * 2 ? Bytes : 0);
    }
  }

  const char* source_;
  int64_t pass_bytes_;
  int64_t tile_bytes_;
  int64_t inner_stride_;
  int row_;    // of the tile, in pass 0
  int chunk_;  // of the row in global memory
  int mn_left_;
  int align_;
};

}  // namespace vitamin
