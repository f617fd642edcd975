// A tile of an operand in shared memory: how TMA brings it there and how wgmma finds it.
#pragma once

#include "../common/tensor_map.h"
#include "../common/wgmma_descriptor.h"
#include "../dispatch/cost.h"
#include "../ptx/tma.cuh"

namespace vitamin::sm90 {

// What a block copies of a tile that several blocks of a cluster work on: from which line of its
// boxes on, and to whom (a bit for each block; 0: nobody else).
struct Share {
  int line;
  uint32_t blocks;
};

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
  // the matrix, since what lies outside takes longer to fill with zeros than to copy. Shares of
  // several blocks are alike.
  static int rows_of_tile(int share, int64_t extent) {
    return KMajor && share > 1 ? Rows : copied_rows(extent, KMajor, Rows);
  }

  // Lines of a block's box, of `count` rows that are copied of a tile: rows, or indices of K.
  static int box_lines(int share, int count) { return (KMajor ? count : 64) / share; }

  // Copies a block's share of a tile, of which `count` rows are copied: to itself, or to all blocks
  // that work on the tile.
  __device__ __forceinline__ static void load(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                              int count, int k0, int row0, int index, Share share) {
    to += share.line * 128;
    if constexpr (KMajor) {
      copy(to, map, barrier, k0, row0 + share.line, index, share.blocks);
    } else {
#pragma unroll
      for (int at = 0; at < Rows; at += 64) {
        if (at == 0 || at < count) {
          copy(to + at * 128, map, barrier, row0 + at, k0 + share.line, index, share.blocks);
        }
      }
    }
  }

  // Of the rows from `row` on, a multiple of 64.
  __device__ __forceinline__ static uint64_t descriptor(uint32_t tile, int row) {
    if constexpr (KMajor) return k_major_descriptor<Swizzle::k128>(tile, Rows, row, 0);
    return mn_major_descriptor(tile, row, 0);
  }

 private:
  __device__ __forceinline__ static void copy(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                              int inner, int outer, int index, uint32_t blocks) {
    if (blocks == 0) {
      ptx::tma_load(to, map, barrier, inner, outer, index);
    } else {
      ptx::tma_load_multicast(to, map, barrier, inner, outer, index, uint16_t(blocks));
    }
  }
};

}  // namespace vitamin::sm90
