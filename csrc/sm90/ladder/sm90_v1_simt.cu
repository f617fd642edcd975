// Step 1: shared-memory tiling on the CUDA cores. No tensor core takes part.
//
// A block of 256 threads makes a 128x128 tile of c, 8x8 of it a thread, K by 16. Both tiles are
// widened to fp32 and turned on the way into shared memory, so that the inner loop reads 4 rows or
// 4 columns at once: 16 values for 64 fused multiply-adds.
//
// Barriers: two __syncthreads a k-tile (tile has landed; tile has been read).
// Shared memory: a and b 16 x 132 fp32 each: 16.5 KB. Registers: 64 accumulators, 16 of operands.
#include "step.cuh"
#include "steps.h"

namespace vitamin::sm90_ladder {
namespace {

constexpr int kBM = 128, kBN = 128, kStep = 16;
constexpr int kThreads = 256;
constexpr int kPitch = kBM + 4;  // keeps the transposing stores of a warp on different banks
using Tile = float[kStep][kPitch];

// Reads 8 elements along k of one row, zeros where the matrix ends.
template <class T>
__device__ __forceinline__ void read_chunk(float (&v)[8], const T* rows, int64_t stride,
                                           int64_t row, int64_t row_end, int64_t k, int64_t k_end) {
  const T* const from = rows + row * stride + k;
  if (row < row_end && k + 8 <= k_end) {
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = to_float(reinterpret_cast<const T*>(&raw)[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) v[i] = row < row_end && k + i < k_end ? to_float(from[i]) : 0.0f;
}

// Columns 0-3 of a thread are neighbours, columns 4-7 lie 64 to the right; rows likewise.
__device__ __forceinline__ int spread(int thread, int i) { return thread * 4 + i / 4 * 64 + i % 4; }

__device__ __forceinline__ void read_line(float (&v)[8], const float* line, int thread) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float4 four = *reinterpret_cast<const float4*>(line + thread * 4 + half * 64);
    v[half * 4] = four.x;
    v[half * 4 + 1] = four.y;
    v[half * 4 + 2] = four.z;
    v[half * 4 + 3] = four.w;
  }
}

template <class T, class Out>
__device__ __forceinline__ void store_row(float (&v)[8], const GemmParams& p, int64_t m, int64_t n0,
                                          int thread) {
  if (m >= p.m) return;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const int64_t n = n0 + spread(thread, i);
    if (n < p.n) static_cast<Out*>(p.c)[m * p.c_row + n * p.c_col] = from_float<Out>(v[i]);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 2) simt_kernel(const __grid_constant__ GemmParams p) {
  __shared__ __align__(16) Tile a_tile;
  __shared__ __align__(16) Tile b_tile;
  const int tid = threadIdx.x, column = tid % 16, row = tid / 16;
  const TileCoord tile = strip_raster(blockIdx.x, p.tiles_m, p.tiles_n, kStrip);
  const int64_t m0 = tile.m * kBM, n0 = tile.n * kBN;

  float acc[64] = {};
  for (int64_t k0 = 0; k0 < p.k; k0 += kStep) {
    const int line = tid / 2, chunk = tid % 2 * 8;
    float v[8];
    read_chunk(v, static_cast<const T*>(p.a), p.a_outer, m0 + line, p.m, k0 + chunk, p.k);
#pragma unroll
    for (int i = 0; i < 8; ++i) a_tile[chunk + i][line] = v[i];
    read_chunk(v, static_cast<const T*>(p.b), p.b_outer, n0 + line, p.n, k0 + chunk, p.k);
#pragma unroll
    for (int i = 0; i < 8; ++i) b_tile[chunk + i][line] = v[i];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kStep; ++k) {
      float a[8], b[8];
      read_line(a, a_tile[k], row);
      read_line(b, b_tile[k], column);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
#pragma unroll
        for (int j = 0; j < 8; ++j) acc[i * 8 + j] += a[i] * b[j];
      }
    }
    __syncthreads();
  }

  // A row at a time; the registers move up, so that the code is there once.
#pragma unroll 1
  for (int i = 0; i < 8; ++i) {
    float v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const int64_t n = n0 + spread(column, j);
      v[j] = acc[j];
      if (p.bias && n < p.n) v[j] += to_float(static_cast<const T*>(p.bias)[n * p.bias_stride]);
    }
    activate(p.activation, v);
    if (p.out_f32) {
      store_row<T, float>(v, p, m0 + spread(row, i), n0, column);
    } else {
      store_row<T, T>(v, p, m0 + spread(row, i), n0, column);
    }
#pragma unroll
    for (int j = 0; j < 56; ++j) acc[j] = acc[j + 8];
  }
}

template <class T>
int launch(const LaunchArgs& args) {
  const GemmParams p = make_gemm_params(args.problem, kBM, kBN);
  const auto stream = static_cast<cudaStream_t>(args.stream);
  simt_kernel<T><<<unsigned(p.tiles_m * p.tiles_n), kThreads, 0, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

int launch_v1_simt(const LaunchArgs& args) {
  return launch_by_type<launch<__half>, launch<__nv_bfloat16>>(args);
}

}  // namespace vitamin::sm90_ladder
