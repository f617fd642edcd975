// Copies k-tiles of one operand from global memory into swizzled shared memory.
#pragma once

#include "../common/swizzle.h"
#include "../ptx/cp_async.cuh"
#include "../ptx/shared.cuh"

namespace vitamin::sm80 {

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
      load_pass(tile, pass, KMajor ? Inner : Outer);
    }
  }

  // Copies the k-tile at the end of K, which starts `k_offset` further on and has `k_left` indices.
  __device__ __forceinline__ void load_tail(uint32_t tile, int64_t k_offset, int k_left) {
    const char* here = source_;
    source_ += k_offset * (KMajor ? inner_stride_ : outer_stride()) * 2;
#pragma unroll
    for (int pass = 0; pass < kPasses; ++pass) load_pass(tile, pass, k_left);
    source_ = here;
  }

  __device__ __forceinline__ void next_k_tile() { source_ += tile_bytes_; }

 private:
  __device__ __forceinline__ uint32_t destination(uint32_t tile, int pass) const {
    return tile + (threadIdx.x + pass * Threads) * 16;
  }

  __device__ __forceinline__ int64_t outer_stride() const {
    return pass_bytes_ / (2 * kRowsPerPass);
  }

  // With bounds: what lies outside is filled with zero.
  __device__ __forceinline__ void load_pass(uint32_t tile, int pass, int k_left) const {
    const int row = row_ + pass * kRowsPerPass;
    if (kPartialPass && row >= Outer) return;
    const int rows = KMajor ? mn_left_ : k_left;
    const int elements = (KMajor ? k_left : mn_left_) - chunk_ * 8;
    const int valid = elements <= 0 || row >= rows ? 0 : elements >= 8 ? 16 : elements * 2;
    copy_chunk(destination(tile, pass), source_ + pass * pass_bytes_, valid);
  }

  __device__ __forceinline__ void copy_chunk(uint32_t dst, const char* src, int valid) const {
    if (!AnyAlign || align_ == 16) {
      ptx::cp_async_16_fill(dst, src, valid);
    } else if (align_ == 8) {
      copy_pieces<8>(dst, src, valid);
    } else if (align_ == 4) {
      copy_pieces<4>(dst, src, valid);
    } else {
      copy_elements(dst, src, valid);
    }
  }

  template <int Bytes>
  __device__ __forceinline__ void copy_pieces(uint32_t dst, const char* src, int valid) const {
#pragma unroll
    for (int at = 0; at < 16; at += Bytes) {
      const int left = valid - at;
      ptx::cp_async_small<Bytes>(dst + at, src + at, left <= 0 ? 0 : left >= Bytes ? Bytes : left);
    }
  }

  // Through registers: 2-byte alignment is below what cp.async can do.
  __device__ __forceinline__ void copy_elements(uint32_t dst, const char* src, int valid) const {
    uint32_t word[4];
    const auto* element = reinterpret_cast<const unsigned short*>(src);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t lo = 4 * i < valid ? element[(2 * i) * inner_stride_] : 0;
      const uint32_t hi = 4 * i + 2 < valid ? element[(2 * i + 1) * inner_stride_] : 0;
      word[i] = lo | hi << 16;
    }
    ptx::st_shared_v4(dst, word[0], word[1], word[2], word[3]);
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

}  // namespace vitamin::sm80
