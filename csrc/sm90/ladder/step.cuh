// What the Hopper steps have in common: tensor maps of the operands, the descriptors of a stage,
// the direct store of the accumulators. The main loop, which is what the steps are about, is in
// each file.
//
// a is [M, K] and b is [N, K], both with k contiguous. K advances by 64, four k16 steps a k-tile.
#pragma once

#include <cuda_runtime.h>

#include "../../common/epilogue.cuh"
#include "../../common/gemm_params.h"
#include "../../common/raster.h"
#include "../../common/shared_memory.cuh"
#include "../../common/staged_store.cuh"
#include "../../common/tensor_map.h"
#include "../../common/wgmma_descriptor.h"
#include "../../ptx/fence.cuh"
#include "../../ptx/mbarrier.cuh"
#include "../../ptx/shared.cuh"
#include "../../ptx/tma.cuh"
#include "../../ptx/warpgroup.cuh"
#include "../../ptx/wgmma.cuh"

namespace vitamin::sm90_ladder {

constexpr int kBK = 64;
constexpr int kWarpgroup = 128;  // threads

// A warpgroup's accumulators of 64 rows x N columns: lane l of warp w has, of each 8 columns,
// columns 2 (l % 4) and the next, of rows 16 w + l / 4 and 8 below.
template <int N>
using Accumulators = float[N / 2];

__device__ __forceinline__ int fragment_row() {
  return threadIdx.x % kWarpgroup / 32 * 16 + threadIdx.x % 32 / 4;
}
__device__ __forceinline__ int fragment_column() { return threadIdx.x % 4 * 2; }

// Adds the bias and applies the activation in place. The registers go round in a circle, 16 at a
// time, so that the code for them is there once.
template <class T, int Count>
__device__ __forceinline__ void finish(float (&acc)[Count], const GemmParams& p, int64_t n0) {
  if (p.bias == nullptr && p.activation == Activation::kNone) return;
  const T* const bias = static_cast<const T*>(p.bias);
  constexpr int Part = 16;
#pragma unroll 1
  for (int part = 0; part < Count / Part; ++part) {
    float v[Part];
#pragma unroll
    for (int i = 0; i < Part; ++i) {
      const int64_t n = n0 + part * (Part * 2) + i / 4 * 8 + fragment_column() + i % 2;
      v[i] = acc[i];
      if (bias && n < p.n) v[i] += to_float(bias[n * p.bias_stride]);
    }
    activate(p.activation, v);
#pragma unroll
    for (int i = 0; i < Count - Part; ++i) acc[i] = acc[i + Part];
#pragma unroll
    for (int i = 0; i < Part; ++i) acc[Count - Part + i] = v[i];
  }
}

template <class Out, int Count>
__device__ __forceinline__ void store_as(const float (&acc)[Count], const GemmParams& p, int64_t m0,
                                         int64_t n0) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int64_t m = m0 + fragment_row() + half * 8;
    if (m >= p.m) continue;
    Out* const row = static_cast<Out*>(p.c) + m * p.c_row;
#pragma unroll
    for (int j = 0; j < Count / 4; ++j) {
      const int64_t n = n0 + j * 8 + fragment_column();
      const float lo = acc[j * 4 + half * 2], hi = acc[j * 4 + half * 2 + 1];
      if (p.c_vector && n + 1 < p.n) {
        if constexpr (sizeof(Out) == 4) {
          *reinterpret_cast<float2*>(row + n) = make_float2(lo, hi);
        } else {
          *reinterpret_cast<uint32_t*>(row + n) = pack2<Out>(lo, hi);
        }
      } else {
        if (n < p.n) row[n * p.c_col] = from_float<Out>(lo);
        if (n + 1 < p.n) row[(n + 1) * p.c_col] = from_float<Out>(hi);
      }
    }
  }
}

// Finishes a warpgroup's tile at (m0, n0) and writes it as it lies in the registers: 4 lanes share
// 8 columns of a row, so a warp's store touches 8 rows, 16 bytes (32 in fp32) of each.
template <class T, int Count>
__device__ __forceinline__ void store_accumulators(float (&acc)[Count], const GemmParams& p,
                                                   int64_t m0, int64_t n0) {
  finish<T>(acc, p, n0);
  if (p.out_f32) {
    store_as<float>(acc, p, m0, n0);
  } else {
    store_as<T>(acc, p, m0, n0);
  }
}

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

// Whether TMA can write c: 16-bit elements, rows that begin and end at multiples of 16 bytes (it
// writes a row to the end of its last 16 bytes).
inline bool can_store_by_tma(const GemmParams& p) {
  return p.c_vector && !p.out_f32 && p.n % 8 == 0;
}

inline int make_output_map(const Problem& p, CUtensorMap* map) {
  return encode_tensor_map({p.c.data, p.n, p.m, p.c.row_stride, kStoreColumns, kStoreRows}, map);
}

template <int (*Fp16)(const LaunchArgs&), int (*Bf16)(const LaunchArgs&)>
int launch_by_type(const LaunchArgs& args) {
  return args.problem.dtype == DType::kF16 ? Fp16(args) : Bf16(args);
}

}  // namespace vitamin::sm90_ladder
