// A copy bound by the memory's bandwidth: every thread writes 16 aligned bytes of the scratch and
// gathers them from wherever they lie.
#include <cuda_runtime.h>

#include <algorithm>

#include "gemm_params.h"
#include "repack.h"

namespace vitamin {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;
constexpr int kMostColumns = 32;  // chunks a block copies of a row: 512 bytes

struct RepackParams {
  const unsigned short* from;
  uint4* to;
  int64_t outer, inner, chunks;  // extents; 16-byte chunks a row of the scratch
  int64_t outer_stride, inner_stride;
  int64_t batches;
  Batch batch;  // the operand's strides are in a
  int columns;  // chunks a block copies of a row: a power of two
};

__device__ __forceinline__ unsigned pair(unsigned lo, unsigned hi) { return lo | hi << 16; }

// 8 elements, all inside. At an odd element the words in between are still aligned.
__device__ __forceinline__ uint4 gather_aligned(const unsigned short* from) {
  if (reinterpret_cast<uintptr_t>(from) % 4 == 0) {
    const auto* word = reinterpret_cast<const unsigned*>(from);
    return make_uint4(word[0], word[1], word[2], word[3]);
  }
  const auto* word = reinterpret_cast<const unsigned*>(from + 1);
  const unsigned x = word[0], y = word[1], z = word[2];
  return make_uint4(pair(from[0], x & 0xffff), __funnelshift_r(x, y, 16), __funnelshift_r(y, z, 16),
                    pair(z >> 16, from[7]));
}

__device__ __forceinline__ uint4 gather(const unsigned short* from, int64_t stride, int64_t left) {
  if (left >= 8 && stride == 1) return gather_aligned(from);
  unsigned word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned lo = 2 * i < left ? from[2 * i * stride] : 0;
    const unsigned hi = 2 * i + 1 < left ? from[(2 * i + 1) * stride] : 0;
    word[i] = pair(lo, hi);
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

__global__ void __launch_bounds__(kThreads) repack_kernel(const __grid_constant__ RepackParams p) {
  const int64_t blocks_a_row = ceil_div(p.chunks, p.columns);
  const int64_t chunk = blockIdx.x % blocks_a_row * p.columns + threadIdx.x % p.columns;
  if (chunk >= p.chunks) return;
  const unsigned short* const column = p.from + chunk * 8 * p.inner_stride;
  const int64_t rows = p.outer * p.batches;
  const int64_t step = int64_t(gridDim.x) / blocks_a_row * (kThreads / p.columns);
  int64_t row = blockIdx.x / blocks_a_row * (kThreads / p.columns) + threadIdx.x / p.columns;
  for (; row < rows; row += step * kUnroll) {
    // All loads before the first store: several of them under way at a time.
    uint4 value[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = row + i * step;
      if (at >= rows) break;
      const int64_t batch = p.batches > 1 ? at / p.outer : 0;
      const int64_t offset =
          batch_offset(p.batch, batch).a + (at - batch * p.outer) * p.outer_stride;
      value[i] = gather(column + offset, p.inner_stride, p.inner - chunk * 8);
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = row + i * step;
      if (at < rows) p.to[at * p.chunks + chunk] = value[i];
    }
  }
}

}  // namespace

int repack(Problem* problem, Operand operand, void* scratch, void* stream) {
  const Repacked to = repacked(*problem, operand);
  const bool is_a = operand == Operand::kA;
  Matrix& matrix = is_a ? problem->a : problem->b;
  int64_t* const strides = is_a ? problem->batch.a : problem->batch.b;
  const bool column_major = to.matrix.layout == Layout::kCol;

  RepackParams p{};
  p.from = static_cast<const unsigned short*>(matrix.data);
  p.to = static_cast<uint4*>(scratch);
  p.outer = to.outer;
  p.inner = to.inner;
  p.chunks = to.pitch / 8;
  p.outer_stride = column_major ? matrix.col_stride : matrix.row_stride;
  p.inner_stride = column_major ? matrix.row_stride : matrix.col_stride;
  p.batches = to.batches;
  for (int d = 0; d < problem->batch.dims; ++d) {
    if (strides[d] == 0) continue;
    p.batch.size[p.batch.dims] = problem->batch.size[d];
    p.batch.a[p.batch.dims++] = strides[d];
  }
  p.columns = 1;
  while (p.columns < kMostColumns && p.columns < p.chunks) p.columns *= 2;

  matrix = to.matrix;
  matrix.data = scratch;
  std::copy(to.batch_stride, to.batch_stride + kMaxBatchDims, strides);
  if (p.chunks == 0 || p.outer == 0) return cudaSuccess;

  const int64_t blocks_a_row = ceil_div(p.chunks, p.columns);
  const int64_t row_blocks = ceil_div(p.outer * p.batches, kThreads / p.columns * kUnroll);
  const int64_t most = std::max<int64_t>(1, (int64_t(1) << 20) / blocks_a_row);
  const auto grid = static_cast<unsigned>(blocks_a_row * std::min(row_blocks, most));
  repack_kernel<<<grid, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(p);
  return cudaGetLastError();
}

}  // namespace vitamin
