// The kernel for shallow products of few rows or few columns: a thread makes whole rows of one
// operand, the wide one, times all of the thin one, in fp32 multiplications. It moves little more
// than the operands and c, whatever their alignment.
//
// Blocks of 256 threads go through tiles of 256 or 512 rows. Where K is contiguous in the wide
// operand, its rows are copied as they lie, by aligned pieces of 16 bytes, while the tile before is
// worked on; else each thread reads its own, neighbours side by side. The thin operand is spread
// out in fp32.
//
// Shared memory: Thin values of the thin operand for each index of K; two buffers of rows,
// where then c is put together, if it has no gaps.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include "../common/cut.cuh"
#include "../common/epilogue.cuh"
#include "../common/gemm_params.h"
#include "../dispatch/stream_shape.h"
#include "../ptx/cp_async.cuh"
#include "../ptx/global.cuh"
#include "../ptx/grid.cuh"
#include "../ptx/shared.cuh"

namespace vitamin::sm90 {

// a of `gemm` is the wide operand, b the thin one.
struct ShallowParams {
  GemmParams gemm;
  int64_t thin_column, thin_k;  // strides of the thin operand
  uint32_t items;               // tiles of all matrices
  uint32_t tiles, thin_tiles;   // of one matrix, along the wide and the thin operand
  int thin_bytes;               // of the thin operand in shared memory
  int buffer_bytes;             // of one of two behind it
  int vector;                   // elements of a row in shared memory that are read at once
  bool c_whole;                 // a tile of c has no gaps
};

struct ShallowWork {
  int index;  // of the matrix
  int wide0, thin0;
};

// ByRows: K is contiguous in the wide operand.
template <class T, int Thin, int Rows, bool ByRows>
class Shallow {
 public:
  static constexpr int kTile = kShallowThreads * Rows;

  __device__ __forceinline__ Shallow(const ShallowParams& p, unsigned char* shared)
      : p_(p), x_(reinterpret_cast<float*>(shared)), k_(int(p.gemm.k)) {
    rows_ = shared + p.thin_bytes;
  }

  __device__ __forceinline__ ShallowWork work_of(uint32_t item) const {
    const uint32_t a_matrix = p_.tiles * p_.thin_tiles, at = item % a_matrix;
    return {int(item / a_matrix), int(at / p_.thin_tiles) * kTile, int(at % p_.thin_tiles) * Thin};
  }

  // Begins the copy of an item's rows to a buffer.
  __device__ __forceinline__ void copy(const ShallowWork& work, int buffer) const {
    const T* const first = tile_of(work);
    const int rows = min(int(p_.gemm.m) - work.wide0, kTile);
    const int before = behind_piece(first);
    const int count = before + int((rows - 1) * p_.gemm.a_outer) + k_;  // elements
    const uint32_t to = ptx::shared_address(rows_ + buffer * p_.buffer_bytes);
    const bool last = work.wide0 + kTile >= int(p_.gemm.m);
#pragma unroll 4
    for (int at = threadIdx.x * 8; at < count; at += kShallowThreads * 8) {
      const T* const from = first - before + at;
      if (last && at + 8 > count) {
        // It may end where the memory does.
        for (int i = at; i < count; ++i) {
          const auto* const element = reinterpret_cast<const unsigned short*>(from) + i - at;
          ptx::st_shared_u16(to + i * 2, ptx::ld_global_u16(element));
        }
      } else {
        ptx::cp_async_16(to + at * 2, from);
      }
    }
  }

  // Spreads out the thin operand.
  __device__ __forceinline__ void stage(const ShallowWork& work) const {
    const T* const thin = static_cast<const T*>(p_.gemm.b) +
                          batch_offset(p_.gemm.batch, work.index).b + work.thin0 * p_.thin_column;
    const int columns = int(p_.gemm.n) - work.thin0;
    constexpr int kAtOnce = 8;
#pragma unroll 1
    for (int start = threadIdx.x; start < Thin * k_; start += kAtOnce * kShallowThreads) {
      T v[kAtOnce];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = start + i * kShallowThreads, column = at % Thin, k = at / Thin;
        v[i] = from_float<T>(0.0f);
        if (column < columns && k < k_) v[i] = thin[column * p_.thin_column + k * p_.thin_k];
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int at = start + i * kShallowThreads;
        if (at < Thin * k_) x_[at] = to_float(v[i]);
      }
    }
  }

  // Multiplies and stores this thread's rows of an item.
  __device__ __forceinline__ void multiply(const ShallowWork& work, int buffer) const {
    float acc[Rows][Thin] = {};
    if constexpr (!ByRows) {
      multiply_lines(acc, work);
    } else {
      const unsigned char* const row =
          rows_ + buffer * p_.buffer_bytes +
          (behind_piece(tile_of(work)) + int(threadIdx.x * p_.gemm.a_outer)) * 2;
      switch (p_.vector) {
        case 8:
          multiply_rows<uint4>(acc, row);
          break;
        case 2:
          multiply_rows<uint32_t>(acc, row);
          break;
        default:
          multiply_rows<unsigned short>(acc, row);
      }
    }
    finish(acc, work);
    if (p_.c_whole) {
      __syncthreads();  // nobody reads rows of the buffer now
      if (p_.gemm.out_f32) {
        store_whole<float>(acc, work, rows_ + buffer * p_.buffer_bytes);
      } else {
        store_whole<T>(acc, work, rows_ + buffer * p_.buffer_bytes);
      }
    } else if (p_.gemm.out_f32) {
      store<float>(acc, work);
    } else {
      store<T>(acc, work);
    }
  }

 private:
  __device__ __forceinline__ const T* tile_of(const ShallowWork& work) const {
    return static_cast<const T*>(p_.gemm.a) + batch_offset(p_.gemm.batch, work.index).a +
           work.wide0 * (ByRows ? p_.gemm.a_outer : 1);
  }

  __device__ __forceinline__ void add(float (&acc)[Rows][Thin], const float (&w)[Rows],
                                      int k) const {
    using Vector = std::conditional_t<Thin == 2, float2, float4>;
    constexpr int kVector = sizeof(Vector) / 4;
    float x[Thin];
#pragma unroll
    for (int j = 0; j < Thin; j += kVector) {
      reinterpret_cast<Vector&>(x[j]) = *reinterpret_cast<const Vector*>(x_ + k * Thin + j);
    }
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
#pragma unroll
      for (int j = 0; j < Thin; ++j) acc[r][j] = fmaf(w[r], x[j], acc[r][j]);
    }
  }

  static __device__ __forceinline__ float value(unsigned bits) {
    const auto half = static_cast<unsigned short>(bits);
    return to_float(reinterpret_cast<const T&>(half));
  }

  // `row`: this thread's first row; the others lie 256 rows below each other.
  template <class Vector>
  __device__ __forceinline__ void multiply_rows(float (&acc)[Rows][Thin],
                                                const unsigned char* row) const {
    constexpr int kVector = sizeof(Vector) / 2;
    const int next = kShallowThreads * 2 * int(p_.gemm.a_outer);  // bytes
    int k = 0;
#pragma unroll(kVector < 8 ? 4 : 1)
    for (; k + kVector <= k_; k += kVector) {
      Vector v[Rows];
#pragma unroll
      for (int r = 0; r < Rows; ++r) {
        v[r] = *reinterpret_cast<const Vector*>(row + r * next + k * 2);
      }
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        float w[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) w[r] = value(element(v[r], i));
        add(acc, w, k + i);
      }
    }
    if constexpr (kVector > 1) {
#pragma unroll 1
      for (; k < k_; ++k) {
        float w[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          w[r] = value(*reinterpret_cast<const unsigned short*>(row + r * next + k * 2));
        }
        add(acc, w, k);
      }
    }
  }

  static __device__ __forceinline__ unsigned element(unsigned short v, int) { return v; }
  static __device__ __forceinline__ unsigned element(uint32_t v, int i) { return v >> i * 16; }
  static __device__ __forceinline__ unsigned element(const uint4& v, int i) {
    const uint32_t word = i < 2 ? v.x : i < 4 ? v.y : i < 6 ? v.z : v.w;
    return word >> i % 2 * 16;
  }

  __device__ __forceinline__ void multiply_lines(float (&acc)[Rows][Thin],
                                                 const ShallowWork& work) const {
    constexpr int kAtOnce = (Thin * Rows > 16 ? 16 : 32) / Rows;
    const int left = int(p_.gemm.m) - work.wide0;
    const auto* line = reinterpret_cast<const unsigned short*>(tile_of(work)) + threadIdx.x;
#pragma unroll 1
    for (int k0 = 0; k0 < k_; k0 += kAtOnce) {
      uint32_t v[kAtOnce][Rows];
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
          const bool inside = k0 + i < k_ && int(threadIdx.x) + r * kShallowThreads < left;
          v[i][r] = inside ? ptx::ld_global_u16(line + r * kShallowThreads) : 0;
        }
        line += p_.gemm.a_outer;
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (k0 + i >= k_) break;
        float w[Rows];
#pragma unroll
        for (int r = 0; r < Rows; ++r) w[r] = value(v[i][r]);
        add(acc, w, k0 + i);
      }
    }
  }

  // Bias and activation.
  __device__ __forceinline__ void finish(float (&acc)[Rows][Thin], const ShallowWork& work) const {
    const GemmParams& g = p_.gemm;
    if (g.bias == nullptr && g.activation == Activation::kNone) return;
    const T* const bias = static_cast<const T*>(g.bias);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const int64_t m = work.wide0 + int(threadIdx.x) + r * kShallowThreads;
#pragma unroll
      for (int j = 0; j < Thin; ++j) {
        const int64_t n = work.thin0 + j;
        if (bias && m < g.m && n < g.n) {
          acc[r][j] += to_float(bias[(g.transposed ? m : n) * g.bias_stride]);
        }
      }
      activate(g.activation, acc[r]);
    }
  }

  template <class Out>
  __device__ __forceinline__ void store(const float (&acc)[Rows][Thin],
                                        const ShallowWork& work) const {
    const GemmParams& g = p_.gemm;
    const int columns = int(g.n) - work.thin0;
    Out* const c = static_cast<Out*>(g.c) + batch_offset(g.batch, work.index).c;
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const int64_t m = work.wide0 + int(threadIdx.x) + r * kShallowThreads;
      if (m >= g.m) continue;
      Out* to = c + m * g.c_row + work.thin0 * g.c_col;
#pragma unroll
      for (int j = 0; j < Thin; ++j, to += g.c_col) {
        if (j < columns) *to = from_float<Out>(acc[r][j]);
      }
    }
  }

  // A tile of c without gaps, by way of shared memory.
  template <class Out>
  __device__ __forceinline__ void store_whole(const float (&acc)[Rows][Thin],
                                              const ShallowWork& work,
                                              unsigned char* shared) const {
    const GemmParams& g = p_.gemm;
    const int columns = int(g.n);
    Out* const tile = reinterpret_cast<Out*>(shared);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      Out* const row = tile + (threadIdx.x + r * kShallowThreads) * columns;
#pragma unroll
      for (int j = 0; j < Thin; ++j) {
        if (j < columns) row[j] = from_float<Out>(acc[r][j]);
      }
    }
    __syncthreads();
    constexpr int kVector = 16 / sizeof(Out);
    const int count = min(int(g.m) - work.wide0, kTile) * columns;
    Out* const c = static_cast<Out*>(g.c) + batch_offset(g.batch, work.index).c +
                   int64_t(work.wide0) * columns;
    int at = threadIdx.x * kVector;
    for (; at + kVector <= count; at += kShallowThreads * kVector) {
      *reinterpret_cast<uint4*>(c + at) = *reinterpret_cast<const uint4*>(tile + at);
    }
    for (int i = at; i < min(at + kVector, count); ++i) c[i] = tile[i];
  }

  const ShallowParams& p_;
  float* const x_;
  unsigned char* rows_;
  const int k_;
};

template <class T, int Thin, int Rows, bool ByRows>
__global__ void __launch_bounds__(kShallowThreads, Thin == 16 ? 3 : 4)
    shallow_kernel(const __grid_constant__ ShallowParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(16) unsigned char shared[];
  const Shallow<T, Thin, Rows, ByRows> shallow(p, shared);
  const bool copies = ByRows && p.gemm.k > 0;
  ptx::wait_for_kernels_before();
  if (copies && blockIdx.x < p.items) shallow.copy(shallow.work_of(blockIdx.x), 0);
  ptx::cp_async_commit();
  ShallowWork staged{-1, 0, 0};
  int buffer = 0;
  for (uint32_t item = blockIdx.x; item < p.items; item += gridDim.x, buffer ^= 1) {
    const ShallowWork work = shallow.work_of(item);
    const uint32_t next = item + gridDim.x;
    if (copies && next < p.items) shallow.copy(shallow.work_of(next), buffer ^ 1);
    ptx::cp_async_commit();
    if (staged.index != work.index || staged.thin0 != work.thin0) {
      shallow.stage(work);
      staged = work;
    }
    ptx::cp_async_wait<1>();
    __syncthreads();
    if (next >= p.items) ptx::let_next_kernel_start();
    shallow.multiply(work, buffer);
    __syncthreads();  // the buffer and the thin operand may change
  }
#endif
}

}  // namespace vitamin::sm90
