// What the Hopper steps have in common: tensor maps of the operands, the descriptors of a stage,
// the direct store of the accumulators. The main loop, which is what the steps are about, is in
// each file.
//
// a is [M, K] and b is [N, K], both with k contiguous. K advances by 64, four k16 steps a k-tile.
#pragma once

#include <cuda_runtime.h>

#include "../../common/gemm_params.h"
#include "../../common/raster.h"
#include "../../common/shared_memory.cuh"
#include "../../common/staged_store.cuh"
#include "../../common/tensor_map.h"
#include "../../common/wgmma_descriptor.h"
#include "../../common/wgmma_store.cuh"
#include "../../ptx/fence.cuh"
#include "../../ptx/mbarrier.cuh"
#include "../../ptx/shared.cuh"
#include "../../ptx/tma.cuh"
#include "../../ptx/warpgroup.cuh"
#include "../../ptx/wgmma.cuh"

namespace vitamin::sm90_ladder {

constexpr int kBK = 64;

// Copies the boxes that make up a K-major tile of `rows` rows: k elements k0 to k0 + 64 of rows
// from `row0` on. The boxes of a block are box_rows high.
template <Swizzle S = Swizzle::k128>
__device__ __forceinline__ void load_tile(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                          int k0, int64_t row0, int rows, int box_rows) {
  constexpr int Span = span_bytes(S);
#pragma unroll
  for (int block = 0; block < kBK * 2 / Span; ++block) {
    for (int row = 0; row < rows; row += box_rows) {
      ptx::tma_load(to + (block * rows + row) * Span, map, barrier, k0 + block * (Span / 2),
                    int(row0) + row);
    }
  }
}

// How the operands are copied: rows of a box of a and of b, swizzle and L2 promotion.
struct Boxes {
  int a_rows, b_rows;
  Swizzle swizzle = Swizzle::k128;
  L2Promotion promotion = L2Promotion::k256;
};

struct OperandMaps {
  CUtensorMap a, b;
};

inline int make_operand_maps(const Problem& p, const Boxes& boxes, OperandMaps* maps) {
  if (p.k == 0) return cudaSuccess;  // nothing will be copied
  const int box_k = span_bytes(boxes.swizzle) / 2;
  const TensorMapSpec a{p.a.data, p.k,          p.m,           p.a.row_stride,
                        box_k,    boxes.a_rows, boxes.swizzle, boxes.promotion};
  const TensorMapSpec b{p.b.data, p.k,          p.n,           p.b.col_stride,
                        box_k,    boxes.b_rows, boxes.swizzle, boxes.promotion};
  if (const int error = encode_tensor_map(a, &maps->a)) return error;
  return encode_tensor_map(b, &maps->b);
}

inline int make_output_map(const Problem& p, CUtensorMap* map) {
  return encode_tensor_map({p.c.data, p.n, p.m, p.c.row_stride, kStoreColumns, kStoreRows}, map);
}

}  // namespace vitamin::sm90_ladder
