// Tiles of an operand in rows of any alignment: a warpgroup copies them by cp.async, or through its
// registers.
#pragma once

#include "../common/tile_loader.cuh"
#include "../common/wgmma_store.cuh"
#include "../ptx/cp_async.cuh"

namespace vitamin::sm90 {

// A tile of an operand of up to 64 rows (of a, or columns of b), in the layout in which Operand's
// boxes leave it.
template <class T, bool KMajor, int Rows>
class TileCopy {
 public:
  // Of `extent` rows from row0 on, K from k0 on.
  __device__ __forceinline__ TileCopy(const T* base, int64_t outer, int64_t inner, int align,
                                      int row0, int64_t extent, int k0)
      : loader_(base, outer, inner, row0, extent - row0, k0, align),
        contiguous_(inner == 1),
        piece_(align / 2) {}

  // Begins the copy of a k-tile, of which `k_left` indices are left: of its first `rows` rows, or
  // lines of K.
  __device__ __forceinline__ void begin(uint32_t tile, int k_left, int rows) {
    passes_ = (rows + Loader::kRowsPerPass - 1) / Loader::kRowsPerPass;
    // cp.async takes no odd addresses, and no pieces that end within K.
    by_registers_ = contiguous_ && (piece_ == 1 || (k_left < 64 && k_left % piece_ != 0));
    if (by_registers_) {
#pragma unroll
      for (int pass = 0; pass < Loader::kPasses; ++pass) {
        if (pass < passes_) chunk_[pass] = loader_.read_pass(pass, k_left);
      }
    } else if (k_left < 64) {
      loader_.load_tail(tile, 0, k_left, passes_);
    } else {
#pragma unroll
      for (int pass = 0; pass < Loader::kPasses; ++pass) {
        if (pass < passes_) loader_.template load_pass<false>(tile, pass);
      }
    }
  }

  // Writes what begin() has read into registers.
  __device__ __forceinline__ void end(uint32_t tile) {
    if (by_registers_) {
#pragma unroll
      for (int pass = 0; pass < Loader::kPasses; ++pass) {
        if (pass < passes_) loader_.write_pass(tile, pass, chunk_[pass]);
      }
    }
  }

 private:
  static_assert(KMajor || Rows == 64);
  using Loader = TileLoader<T, KMajor ? Rows : 64, 64, kWarpgroup, KMajor, true>;

  Loader loader_;
  uint4 chunk_[Loader::kPasses];
  int passes_;
  bool contiguous_, by_registers_ = false;
  int piece_;  // elements that begin at a multiple of their bytes
};

}  // namespace vitamin::sm90
