// A copy bound by the memory's bandwidth: every thread writes 16 aligned bytes of the scratch and
// gathers them from wherever they lie.
#include <cuda_runtime.h>

#include <algorithm>

#include "../ptx/grid.cuh"
#include "copy.cuh"
#include "early_launch.cuh"
#include "gemm_params.h"
#include "repack.h"

namespace vitamin {
namespace {

constexpr int kThreads = 256;
constexpr int kUnroll = 4;
constexpr int kFewBlocks = 512;
constexpr int kMostColumns = 32;  // chunks a block copies of a row: 512 bytes

struct Copy {
  const unsigned short* from;
  uint4* to;
  int64_t rows, inner, chunks;  // rows of all matrices; elements and 16-byte chunks of a row
  int64_t row_stride, inner_stride;
  int64_t rows_a_matrix;  // the rows of a matrix are row_stride apart, and
  Batch batch;  // the matrices these strides (in a); no dims: all rows are row_stride apart
  unsigned blocks, blocks_a_row;
  unsigned columns;  // chunks a block copies of a row: a power of two
};

struct RepackParams {
  Copy copy[2];  // blocks of the first, then of the second
};

__global__ void __launch_bounds__(kThreads) repack_kernel(const __grid_constant__ RepackParams p) {
  ptx::let_next_kernel_start();
  ptx::wait_for_kernels_before();
  const bool second = blockIdx.x >= p.copy[0].blocks;
  const Copy& c = p.copy[second];
  const unsigned block = blockIdx.x - (second ? p.copy[0].blocks : 0);
  const unsigned row_block = block / c.blocks_a_row;
  const int64_t chunk =
      int64_t(block - row_block * c.blocks_a_row) * c.columns + threadIdx.x % c.columns;
  if (chunk >= c.chunks) return;
  const unsigned short* const column = c.from + chunk * 8 * c.inner_stride;
  const unsigned rows_a_block = kThreads / c.columns;
  const int64_t step = int64_t(c.blocks / c.blocks_a_row) * rows_a_block;
  int64_t row = int64_t(row_block) * rows_a_block + threadIdx.x / c.columns;
  for (; row < c.rows; row += step * kUnroll) {
    // All loads before the first store: several of them under way at a time.
    uint4 value[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      int64_t at = row + i * step;
      if (at >= c.rows) break;
      int64_t offset = 0;
      if (c.batch.dims > 0) {
        const int64_t matrix = at / c.rows_a_matrix;
        at -= matrix * c.rows_a_matrix;
        offset = batch_offset(c.batch, matrix).a;
      }
      value[i] = gather(column + offset + at * c.row_stride, c.inner_stride,
                        int(min(c.inner - chunk * 8, int64_t(8))));
    }
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) {
      const int64_t at = row + i * step;
      if (at < c.rows) c.to[at * c.chunks + chunk] = value[i];
    }
  }
}

// Makes the problem read an operand's copy in `scratch`, and tells how to make it.
Copy make_copy(Problem* problem, Operand operand, void* scratch) {
  const Repacked to = repacked(*problem, operand);
  const bool is_a = operand == Operand::kA;
  Matrix& matrix = is_a ? problem->a : problem->b;
  int64_t* const strides = is_a ? problem->batch.a : problem->batch.b;
  const bool column_major = to.matrix.layout == Layout::kCol;

  Copy c{};
  c.from = static_cast<const unsigned short*>(matrix.data);
  c.to = static_cast<uint4*>(scratch);
  c.rows = to.outer * to.batches;
  c.inner = to.inner;
  c.chunks = to.pitch / 8;
  c.row_stride = column_major ? matrix.col_stride : matrix.row_stride;
  c.inner_stride = column_major ? matrix.row_stride : matrix.col_stride;
  c.rows_a_matrix = to.outer;
  for (int d = 0; d < problem->batch.dims; ++d) {
    if (strides[d] == 0) continue;
    c.batch.size[c.batch.dims] = problem->batch.size[d];
    c.batch.a[c.batch.dims++] = strides[d];
  }
  // The rows of matrices that follow each other without a gap are those of one tall matrix.
  if (c.batch.dims == 1 && c.batch.a[0] == to.outer * c.row_stride) c.batch.dims = 0;
  c.columns = 1;
  while (c.columns < kMostColumns && c.columns < c.chunks) c.columns *= 2;
  if (c.rows > 0 && c.chunks > 0) {
    c.blocks_a_row = unsigned(ceil_div(c.chunks, c.columns));
    // Each thread copies several rows, but where that would leave the GPU idle.
    int64_t row_blocks = ceil_div(c.rows, kThreads / c.columns);
    if (row_blocks * c.blocks_a_row > kFewBlocks) row_blocks = ceil_div(row_blocks, kUnroll);
    const int64_t most = std::max<int64_t>(1, (int64_t(1) << 20) / c.blocks_a_row);
    c.blocks = unsigned(c.blocks_a_row * std::min(row_blocks, most));
  }

  matrix = to.matrix;
  matrix.data = scratch;
  std::copy(to.batch_stride, to.batch_stride + kMaxBatchDims, strides);
  return c;
}

}  // namespace

int repack(Problem* problem, const Scratch& scratch, const DeviceFacts& device, void* stream) {
  RepackParams p{};
  if (scratch.a) p.copy[0] = make_copy(problem, Operand::kA, scratch.a);
  if (scratch.b) p.copy[1] = make_copy(problem, Operand::kB, scratch.b);
  const unsigned blocks = p.copy[0].blocks + p.copy[1].blocks;
  if (blocks == 0) return cudaSuccess;
  return launch_early<repack_kernel>(starts_early(device), blocks, kThreads, 0,
                                     static_cast<cudaStream_t>(stream), p);
}

}  // namespace vitamin
