// Writes a warp's accumulators to c: bias, activation, one rounding.
//
// The fragments hold 2 columns a lane: straight stores would touch half a sector at a time. So
// 8 rows at a time go through a patch of shared memory that belongs to the warp alone (rows of
// WN floats padded by 8: the float2 writes of a half-warp fall into 32 different banks) and come
// back as whole rows.
#pragma once

#include "../common/epilogue.cuh"
#include "../common/fragment.h"
#include "../common/gemm_params.h"
#include "../ptx/global.cuh"
#include "mainloop.cuh"

namespace vitamin::sm80 {

template <class C>
class TileStore {
 public:
  using T = typename C::T;
  static constexpr int kPitch = C::WN + 8;

  // (m_begin, n_begin): the block's tile. c: this batch's matrix. patch: this warp's memory.
  __device__ __forceinline__ static void run(const float (&acc)[C::MI][C::NI][4],
                                             const GemmParams& p, int64_t c_offset, int64_t m_begin,
                                             int64_t n_begin, float* patches) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float* patch = patches + warp * C::PatchFloats;
    const int64_t m = m_begin + warp % C::WarpsM * C::WM;
    const int64_t n = n_begin + warp / C::WarpsM * C::WN;
    const bool vector = p.c_vector && n + C::WN <= p.n;
    const bool plain = !p.bias && p.activation == Activation::kNone;
#pragma unroll
    for (int i = 0; i < 2 * C::MI; ++i) {
#pragma unroll
      for (int j = 0; j < C::NI; ++j) {
        const float* pair = acc[i / 2][j] + i % 2 * 2;
        *reinterpret_cast<float2*>(patch + acc_row(lane, 0) * kPitch + j * 8 + acc_col(lane, 0)) =
            make_float2(pair[0], pair[1]);
      }
      __syncwarp();
      const int64_t row = m + i * 8;
      if (row < p.m) {
        if (!plain) finish_patch(patch, p, n);
        if (vector) {
          store_vectors(patch, p, c_offset, row, n);
        } else {
          store_elements(patch, p, c_offset, row, n);
        }
      }
      __syncwarp();
    }
  }

 private:
  // Adds the bias and applies the activation, 4 columns a lane at a time. A loop, and not unrolled:
  // the whole epilogue is there once for every 8 rows of the warp's tile.
  __device__ __forceinline__ static void finish_patch(float* patch, const GemmParams& p,
                                                      int64_t n) {
#pragma unroll 1
    for (int at = threadIdx.x % 32 * 4; at < 8 * C::WN; at += 128) {
      const int column = at % C::WN;
      float4* place = reinterpret_cast<float4*>(patch + at / C::WN * kPitch + column);
      float4 x = *place;
      float v[4] = {x.x, x.y, x.z, x.w};
      if (p.bias) {
        const T* bias = static_cast<const T*>(p.bias);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int64_t index = n + column + e;
          if (index < p.n) v[e] += to_float(bias[index * p.bias_stride]);
        }
      }
      activate(p.activation, v);
      *place = make_float4(v[0], v[1], v[2], v[3]);
    }
    __syncwarp();
  }

  // 8 columns a lane in 16-byte stores: full rows of 16-byte-aligned c.
  __device__ __forceinline__ static void store_vectors(const float* patch, const GemmParams& p,
                                                       int64_t c_offset, int64_t m, int64_t n) {
    constexpr int lanes_a_row = C::WN / 8;
    constexpr int rows_a_pass = 32 / lanes_a_row;
    const int lane = threadIdx.x % 32;
    const int column = lane % lanes_a_row * 8;
    const int first = lane / lanes_a_row;
#pragma unroll
    for (int r = 0; r < 8; r += rows_a_pass) {
      const int row = first + r;
      if (rows_a_pass > 8 && row >= 8) return;
      if (m + row >= p.m) return;
      // The 8 lanes that read at once begin with different halves: their 16 bytes fall into
      // different banks.
      const bool swap = lane & 4;
      const float* const from = patch + row * kPitch + column;
      const float4 x = *reinterpret_cast<const float4*>(from + (swap ? 4 : 0));
      const float4 y = *reinterpret_cast<const float4*>(from + (swap ? 0 : 4));
      const float4 lo = swap ? y : x, hi = swap ? x : y;
      const int64_t at = c_offset + (m + row) * p.c_row + n + column;
      if (p.out_f32) {
        float4* out = reinterpret_cast<float4*>(static_cast<float*>(p.c) + at);
        out[0] = lo;
        out[1] = hi;
      } else {
        ptx::st_global_v4(static_cast<T*>(p.c) + at, pack2<T>(lo.x, lo.y), pack2<T>(lo.z, lo.w),
                          pack2<T>(hi.x, hi.y), pack2<T>(hi.z, hi.w));
      }
    }
  }

  // One element a lane, neighbours side by side: any strides, any alignment, ragged edges.
  __device__ __forceinline__ static void store_elements(const float* patch, const GemmParams& p,
                                                        int64_t c_offset, int64_t m, int64_t n) {
    constexpr int width = C::WN < 32 ? C::WN : 32;
    constexpr int rows_a_pass = 32 / width;
    const int lane = threadIdx.x % 32;
    const int first = lane / width;
    const int64_t start = c_offset + (m + first) * p.c_row + (n + lane % width) * p.c_col;
#pragma unroll 1
    for (int r = 0; r < 8; r += rows_a_pass) {
#pragma unroll
      for (int w = 0; w < C::WN; w += width) {
        const int column = lane % width + w;
        if (m + first + r >= p.m || n + column >= p.n) continue;
        const float v = patch[(first + r) * kPitch + column];
        const int64_t at = start + r * p.c_row + w * p.c_col;
        if (p.out_f32) {
          static_cast<float*>(p.c)[at] = v;
        } else {
          static_cast<T*>(p.c)[at] = from_float<T>(v);
        }
      }
    }
  }
};

}  // namespace vitamin::sm80
