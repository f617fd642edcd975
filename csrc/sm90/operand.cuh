// A tile of an operand in shared memory: how TMA brings it there and how wgmma finds it.
#pragma once

#include "../common/tensor_map.h"
#include "../common/wgmma_descriptor.h"
#include "../dispatch/cost.h"
#include "../ptx/tma.cuh"

namespace vitamin::sm90 {

// `Rows` rows of a, or columns of b, by 64 of K. Contiguous along K: one block, `Rows` rows of 128
// bytes. Contiguous along the other index: a block for each 64 rows, 64 lines (of K) of 128 bytes.
// Both under the 128-byte swizzle.
template <bool KMajor, int Rows>
struct Operand {
  static constexpr int kBytes = Rows * 128;
  // What a descriptor's low word grows by from one k16 step to the next.
  static constexpr int kStep =
      int(KMajor ? k_major_offset<Swizzle::k128>(Rows, 0, 1) : mn_major_offset(0, 1)) >> 4;

  // Of `extent` rows that there are, those that are copied for a tile: boxes reach no further than
  // the matrix, since what lies outside takes longer to fill with zeros than to copy.
  static int rows_of_tile(int share, int64_t extent) {
    return share > 1 ? Rows : copied_rows(extent, KMajor, Rows);
  }

  // Copies a tile's `count` rows, in boxes that are dealt out to the `Share` blocks of the cluster:
  // this one's, to all.
  template <int Share>
  __device__ __forceinline__ static void load(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                              int count, int k0, int row0, int index, int rank) {
    constexpr int rows = KMajor ? Rows / Share : 64;
    static_assert(Rows % rows == 0, "a tile is a whole number of boxes");
#pragma unroll
    for (int box = 0; box < Rows / rows; ++box) {
      const int at = box * rows;
      const int inner = KMajor ? k0 : row0 + at, outer = KMajor ? row0 + at : k0;
      if constexpr (Share == 1) {
        if (box == 0 || at < count) ptx::tma_load(to + at * 128, map, barrier, inner, outer, index);
      } else if (box % Share == rank) {
        ptx::tma_load_multicast(to + at * 128, map, barrier, inner, outer, index, (1 << Share) - 1);
      }
    }
  }

  // Of the rows from `row` on, a multiple of 64.
  __device__ __forceinline__ static uint64_t descriptor(uint32_t tile, int row) {
    if constexpr (KMajor) return k_major_descriptor<Swizzle::k128>(tile, Rows, row, 0);
    return mn_major_descriptor(tile, row, 0);
  }
};

}  // namespace vitamin::sm90
