// What the four Ampere steps have in common: the tile, the copy of a chunk, the direct store of the
// accumulators and the launch. The main loop, which is what the steps are about, is in each file.
//
// A block of 8 warps makes a 128x128 tile of c; the warps stand 2x4, each with 64x32 of it: 4x4
// tiles of mma.m16n8k16. K advances by 32, that is two k16 steps a k-tile.
#pragma once

#include <cuda_runtime.h>

#include "../../common/copy.cuh"
#include "../../common/epilogue.cuh"
#include "../../common/fragment.h"
#include "../../common/gemm_params.h"
#include "../../common/raster.h"
#include "../../common/swizzle.h"
#include "../../ptx/cp_async.cuh"
#include "../../ptx/ldmatrix.cuh"
#include "../../ptx/mma.cuh"

namespace vitamin::sm80_ladder {

constexpr int kBM = 128, kBN = 128, kBK = 32;
constexpr int kThreads = 256;
constexpr int kMI = 4, kNI = 4;  // mma tiles of a warp along m and n

using Accumulators = float[kMI][kNI][4];

// How many of `most` indices from `begin` on there are before `end`.
__device__ __forceinline__ int left(int64_t begin, int64_t end, int most) {
  return end - begin < most ? int(end - begin) : most;
}

// Copies 8 elements at (row, column) of a row-major block of rows x columns, of which the tile may
// be larger: outside there are zeros.
template <class T>
__device__ __forceinline__ void copy_chunk(T* to, const T* block, int64_t stride, int row,
                                           int column, int rows, int columns) {
  const int inside = row < rows ? columns - column : 0;
  const int count = inside <= 0 ? 0 : inside < 8 ? inside : 8;
  copy_chunk_end(ptx::shared_address(to), block + row * stride + column, count);
}

// Adds the bias of columns n and n + 1 and applies the activation.
template <class T>
__device__ __forceinline__ void finish_pair(float (&v)[2], const GemmParams& p, int64_t n) {
  if (p.bias) {
    const T* bias = static_cast<const T*>(p.bias);
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      if (n + e < p.n) v[e] += to_float(bias[(n + e) * p.bias_stride]);
    }
  }
  activate(p.activation, v);
}

// Stores two neighbours, together where c's rows are aligned.
template <class Out>
__device__ __forceinline__ void store_pair(const float (&v)[2], const GemmParams& p, int64_t m,
                                           int64_t n) {
  if (m >= p.m) return;
  Out* at = static_cast<Out*>(p.c) + m * p.c_row + n * p.c_col;
  if (p.c_vector && n + 1 < p.n) {
    if constexpr (sizeof(Out) == 4) {
      *reinterpret_cast<float2*>(at) = make_float2(v[0], v[1]);
    } else {
      *reinterpret_cast<uint32_t*>(at) = pack2<Out>(v[0], v[1]);
    }
    return;
  }
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    if (n + e < p.n) at[e * p.c_col] = from_float<Out>(v[e]);
  }
}

// Writes the accumulators as they lie in the registers: 4 lanes share 8 columns of a row, so a
// warp's store touches 8 rows, 16 bytes (32 in fp32) of each.
template <class T>
__device__ __forceinline__ void store_accumulators(const Accumulators& acc, const GemmParams& p,
                                                   int64_t m0, int64_t n0) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < kMI; ++i) {
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int j = 0; j < kNI; ++j) {
        const int64_t m = m0 + i * 16 + acc_row(lane, 2 * half);
        const int64_t n = n0 + j * 8 + acc_col(lane, 0);
        float v[2] = {half ? acc[i][j][2] : acc[i][j][0], half ? acc[i][j][3] : acc[i][j][1]};
        finish_pair<T>(v, p, n);
        if (p.out_f32) {
          store_pair<float>(v, p, m, n);
        } else {
          store_pair<T>(v, p, m, n);
        }
      }
    }
  }
}

// Stores 8 neighbours of a row that lie in shared memory, in one 16-byte store where possible.
template <class T>
__device__ __forceinline__ void store_chunk(const T* from, const GemmParams& p, int64_t m,
                                            int64_t n) {
  if (m >= p.m) return;
  T* to = static_cast<T*>(p.c) + m * p.c_row + n * p.c_col;
  if (p.c_vector && n + 8 <= p.n) {
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(from);
    return;
  }
  for (int e = 0; e < 8 && n + e < p.n; ++e) to[e * p.c_col] = from[e];
}

// Launches the instance for the problem's type, one block a tile.
inline int launch_step(void (*fp16)(GemmParams), void (*bf16)(GemmParams), const LaunchArgs& args) {
  const GemmParams p = make_gemm_params(args.problem, kBM, kBN);
  const dim3 grid(static_cast<unsigned>(p.tiles_m * p.tiles_n));
  const auto kernel = args.problem.dtype == DType::kF16 ? fp16 : bf16;
  kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(args.stream)>>>(p);
  return cudaGetLastError();
}

}  // namespace vitamin::sm80_ladder
