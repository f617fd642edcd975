// The kernel for products with few rows or few columns: a wide operand is read once, as it lies in
// memory, whatever its alignment, and multiplied by mma.sync.
//
// A block of 8 warps takes some rows of the wide operand (columns, if that is b) and 8, 16 or 32 of
// the thin one. Its warps share K, or the rows: stream_rows.cuh where K is contiguous in the wide
// operand, stream_columns.cuh where its other index is. A lane copies aligned pieces of 16 bytes of
// the wide operand by cp.async into a ring of its own in shared memory, kInFlight steps of K ahead,
// and reads what it has copied: no warp waits for another there. The thin operand is staged for as
// many indices of K as there is room for. At the end of a tile the warps add up through shared
// memory, in the order of K; where K is split, so do the blocks of a cluster, each a share of the
// tile. Blocks go through the tiles in turn; copies for the next one run under the sums of this
// one.
//
// Shared memory: the lanes' rings; `Columns` rows of the thin operand, x_pitch words each; at
// sums_at the sums, a float for each part of K, column and row of the tile. Those may lie over the
// thin operand, which is then staged anew for each tile.
#pragma once

#include <cuda_runtime.h>

#include "../common/cut.cuh"
#include "../common/epilogue.cuh"
#include "../common/gemm_params.h"
#include "../common/raster.h"
#include "../ptx/cluster.cuh"
#include "../ptx/cp_async.cuh"
#include "../ptx/global.cuh"
#include "../ptx/grid.cuh"
#include "../ptx/mma.cuh"
#include "../ptx/shared.cuh"

namespace vitamin::sm90 {

constexpr int kStreamThreads = 256, kStreamWarps = kStreamThreads / 32;
constexpr int kPiece = 8;             // elements of 16 bytes
constexpr int kPieceBytes = 32 * 16;  // of a warp, one a lane

// a of `gemm` is the wide operand, b the thin one.
struct StreamParams {
  GemmParams gemm;
  const void *wide_end, *thin_end;  // of the operands' memory
  int64_t thin_column, thin_k;      // strides of the thin operand
  uint32_t items;                   // tiles, of all matrices, or parts of K of them
  uint32_t tiles, thin_tiles;       // of one matrix, along the wide and the thin operand
  int classes_log2;
  int steps, steps_staged;  // of K; that the thin operand is staged for at once
  int x_pitch;              // words
  int sums_at;              // bytes
  bool stage_once;          // the thin operand, for all tiles of the block
};

// What a block works on.
struct StreamWork {
  int index;  // of the matrix
  int wide0, thin0;
  TileRange steps;
};

// The first `count` elements of a piece, and zeros, without cp.async.
__device__ __forceinline__ void copy_elements(uint32_t to, const void* from, int count) {
  uint32_t w[4] = {};
#pragma unroll
  for (int i = 0; i < kPiece; ++i) {
    if (i >= count) continue;
    w[i / 2] |= ptx::ld_global_u16(static_cast<const unsigned short*>(from) + i) << i % 2 * 16;
  }
  ptx::st_shared_v4(to, w[0], w[1], w[2], w[3]);
}

template <class S, int Columns>
__device__ __forceinline__ StreamWork get_stream_work(const StreamParams& p, uint32_t item) {
  const uint32_t splits = p.gemm.splits, group = item / splits;
  const uint32_t a_matrix = p.tiles * p.thin_tiles;
  StreamWork work;
  work.index = int(group / a_matrix);
  const uint32_t at = group % a_matrix, tile = at / p.thin_tiles;
  work.wide0 = int(tile) * S::rows(p.classes_log2);
  work.thin0 = int(at % p.thin_tiles) * Columns;
  work.steps = split_range(p.steps, int(splits), int(item % splits));
  return work;
}

// A part of the thin operand in shared memory. Where K is contiguous in it, its rows are copied as
// they lie within 16 bytes, so that an index of K has a place of its own in each.
template <class T, class S, int Columns>
class ThinOperand {
 public:
  __device__ __forceinline__ ThinOperand(const StreamParams& p, uint32_t x) : p_(p), x_(x) {}

  // Of the columns from thin0 on of the matrix that begins `offset` elements from the first one.
  __device__ __forceinline__ void choose(int64_t offset, int thin0) {
    from_ = static_cast<const T*>(p_.gemm.b) + offset + thin0 * p_.thin_column;
    columns_ = min(int(p_.gemm.n) - thin0, Columns);
  }

  // Begins the copies of K from k0 on, `count` indices.
  __device__ __forceinline__ void begin(int k0, int count) {
    k0_ = k0;
    const int k = int(p_.gemm.k), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (p_.thin_k == 1) {
      const int share = warps_a_row();
      pieces_ = count / kPiece + 1;
#pragma unroll 1
      for (int row = warp / share; row < columns_; row += kStreamWarps / share) {
        const int before = before_of(row);
        const T* const line = from_ + row * p_.thin_column + k0 - before;
#pragma unroll 2
        for (int piece = warp % share * 32 + lane; piece < pieces_; piece += 32 * share) {
          const int at = k0 - before + piece * kPiece;
          const uint32_t to = row_at(row) + piece * 16;
          const T* const from = line + piece * kPiece;
          if (at < k && at + kPiece > k && from + kPiece > p_.thin_end) {
            copy_elements(to, from, k - at);
          } else {
            ptx::cp_async_16_fill(to, from, at + kPiece <= 0 || at >= k ? 0 : 16);
          }
        }
      }
    } else {
      transpose(k0, count);
    }
  }

  // When this thread's copies have landed: clears what they have of other rows.
  __device__ __forceinline__ void end() const {
    if (p_.thin_k != 1) return;
    const int share = warps_a_row(), warp = threadIdx.x / 32;
    const int first = warp % share * 32 + threadIdx.x % 32;  // of this lane's pieces
    for (int row = warp / share; row < columns_; row += kStreamWarps / share) {
      const int begin = before_of(row) - k0_, end = begin + int(p_.gemm.k);  // of the row
      for (int i = 0; i < min(kPiece, begin - first * kPiece); ++i) {
        ptx::st_shared_u16(row_at(row) + first * 16 + i * 2, 0);
      }
      const int piece = end / kPiece;
      if (end <= 0 || piece >= pieces_ || piece % (32 * share) != first) continue;
      for (int i = end % kPiece; i < kPiece; ++i) {
        ptx::st_shared_u16(row_at(row) + piece * 16 + i * 2, 0);
      }
    }
  }

  // The row itself, or, beyond the last one, that: what comes of it is not stored.
  __device__ __forceinline__ int row_within(int row) const { return min(row, columns_ - 1); }
  // Where index k of a row lies, in elements behind row_at().
  __device__ __forceinline__ int place_of(int row, int k) const {
    return k - k0_ + (p_.thin_k == 1 ? before_of(row) : 0);
  }
  __device__ __forceinline__ uint32_t row_at(int row) const { return x_ + row * p_.x_pitch * 4; }

 private:
  // Copies lines of neighbouring columns, one for each index of K, by pieces of 16 bytes; what
  // is no such lines, and pieces that reach beyond the operand's memory, by elements.
  __device__ __forceinline__ void transpose(int k0, int count) {
    constexpr int kAtOnce = Columns > 16 ? 2 : 4;
    const bool lines = p_.thin_column == 1;
    const int k = int(p_.gemm.k);
    const auto* const from = reinterpret_cast<const unsigned short*>(from_);
    // Elements from the last multiple of 16 bytes to a line, at most.
    const int most = !lines ? 0 : p_.thin_k % kPiece ? kPiece - 1 : behind_piece(from);
    const int pieces = (most + columns_ + kPiece - 1) / kPiece;
#pragma unroll 1
    for (int start = threadIdx.x; start < count * pieces; start += kAtOnce * kStreamThreads) {
      uint4 v[kAtOnce];
      int column[kAtOnce];  // that the piece begins with
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int item = start + i * kStreamThreads, index = k0 + item / pieces;
        const auto* const line = from + index * p_.thin_k;
        const int before = lines ? behind_piece(line) : 0;
        column[i] = item % pieces * kPiece - before;
        v[i] = make_uint4(0, 0, 0, 0);
        if (item >= count * pieces || index < 0 || index >= k || column[i] >= columns_) continue;
        const auto* const piece = line + column[i];
        if (lines && piece >= p_.gemm.b && piece + kPiece <= p_.thin_end) {
          v[i] = ptx::ld_global_v4(piece);
        } else {
          uint32_t w[4] = {};
#pragma unroll
          for (int j = 0; j < kPiece; ++j) {
            if (column[i] + j < 0 || column[i] + j >= columns_) continue;
            const auto* const element = line + (column[i] + j) * p_.thin_column;
            w[j / 2] |= ptx::ld_global_u16(element) << j % 2 * 16;
          }
          v[i] = make_uint4(w[0], w[1], w[2], w[3]);
        }
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int item = start + i * kStreamThreads;
        if (item >= count * pieces) break;
        const uint32_t w[4] = {v[i].x, v[i].y, v[i].z, v[i].w};
        const uint32_t to = x_ + item / pieces * 2;
#pragma unroll
        for (int j = 0; j < kPiece; ++j) {
          const int row = column[i] + j;
          if (row < 0 || row >= columns_) continue;
          ptx::st_shared_u16(to + row * p_.x_pitch * 4, w[j / 2] >> j % 2 * 16);
        }
      }
    }
  }

  // Elements from the last multiple of 16 bytes to index k0 of a row.
  __device__ __forceinline__ int before_of(int row) const {
    return behind_piece(from_ + row * p_.thin_column + k0_);
  }
  __device__ __forceinline__ int warps_a_row() const {
    return columns_ > 4 ? 1 : columns_ > 2 ? 2 : columns_ > 1 ? 4 : 8;
  }

  const StreamParams& p_;
  uint32_t x_;
  const T* from_ = nullptr;
  int columns_ = 0, k0_ = 0, pieces_ = 0;
};

// Adds up the parts of the tile, within the block and, where K is split, over the cluster, and
// stores it.
template <class T, class Out, int Columns>
__device__ __forceinline__ void store_sums(const StreamParams& p, const StreamWork& work,
                                           uint32_t sums, int parts, int rows) {
  const GemmParams& g = p.gemm;
  const int splits = g.splits, rank = splits > 1 ? int(ptx::cluster_rank()) : 0;
  const int rows_here = min(int(g.m) - work.wide0, rows);
  const int columns = min(int(g.n) - work.thin0, Columns);
  const bool along_wide = g.c_row == 1 || columns == 1;
  const int inner = along_wide ? rows : columns, count = rows * columns;
  const auto place_of = [&](int row, int column) { return sums + (column * rows + row) * 4; };
  const auto sum_parts = [&](uint32_t place) {
    float sum = 0;
    for (int part = 0; part < parts; ++part) {
      sum += ptx::ld_shared_f32(place + part * (Columns * rows * 4));
    }
    return sum;
  };
  if (splits > 1) {
#pragma unroll 1
    for (int at = threadIdx.x; at < count; at += kStreamThreads) {
      const uint32_t place = place_of(at % rows, at / rows);
      ptx::st_shared_f32(place, sum_parts(place));
    }
    ptx::cluster_arrive();
    ptx::cluster_wait();
  }
  const int share = (count + splits - 1) / splits;
  const int end = min(count, (rank + 1) * share);
  const T* const bias = static_cast<const T*>(g.bias);
  Out* const c = static_cast<Out*>(g.c) + batch_offset(g.batch, work.index).c;
#pragma unroll 1
  for (int at = rank * share + threadIdx.x; at < end; at += kStreamThreads) {
    const int row = along_wide ? at % inner : at / inner;
    const int column = along_wide ? at / inner : at % inner;
    if (row >= rows_here) continue;
    const uint32_t place = place_of(row, column);
    float sum = 0;
    if (splits > 1) {
      float part[8];
#pragma unroll
      for (int s = 0; s < 8; ++s) {
        part[s] = s < splits ? ptx::ld_cluster_f32(ptx::cluster_address(place, s)) : 0;
      }
#pragma unroll
      for (int s = 0; s < 8; ++s) {
        if (s < splits) sum += part[s];
      }
    } else {
      sum = sum_parts(place);
    }
    const int64_t m = work.wide0 + row, n = work.thin0 + column;
    if (bias) sum += to_float(bias[(g.transposed ? m : n) * g.bias_stride]);
    c[m * g.c_row + n * g.c_col] = from_float<Out>(activate(g.activation, sum));
  }
  if (splits > 1) {
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();
  }
}

// S: RowStream or ColumnStream.
template <class T, class S, int Columns>
__global__ void __launch_bounds__(kStreamThreads, 2)
    stream_kernel(const __grid_constant__ StreamParams p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr int kColumnGroups = Columns / 8, kStepBytes = S::kPieces * kPieceBytes;
  constexpr int kRingBytes = S::kInFlight * kStepBytes;
  const uint32_t base = ptx::shared_address(shared);
  const uint32_t ring = base + threadIdx.x / 32 * kRingBytes + threadIdx.x % 32 * 16;
  const uint32_t sums = base + p.sums_at;
  ThinOperand<T, S, Columns> thin(p, base + kStreamWarps * kRingBytes);
  const int parts = S::parts(p.classes_log2), part = S::part(p.classes_log2);
  const int sum_part = S::sum_part(p.classes_log2);
  const int rows = S::rows(p.classes_log2), step_extent = S::step_extent(p.classes_log2);
  ptx::wait_for_kernels_before();

  // Copies run kInFlight - 1 steps ahead, through the tiles of the block.
  S copied(p);
  uint32_t copied_item = blockIdx.x;
  int copied_step = 0, copied_end = 0, copied_slot = 0;
  const auto enter = [&] {
    const StreamWork work = get_stream_work<S, Columns>(p, copied_item);
    copied.choose(batch_offset(p.gemm.batch, work.index).a, work.wide0);
    copied_step = work.steps.begin + part;
    copied_end = work.steps.end;
  };
  const auto copy_next = [&] {
    while (copied_step >= copied_end && copied_item < p.items) {
      copied_item += gridDim.x;
      if (copied_item < p.items) enter();
    }
    if (copied_step < copied_end) {
      copied.copy(ring + copied_slot * kStepBytes, copied_step);
      copied_step += parts;
    }
    ptx::cp_async_commit();
    copied_slot = copied_slot == S::kInFlight - 1 ? 0 : copied_slot + 1;
  };
  if (copied_item < p.items) enter();

  S stream(p);
  int slot = 0;
  bool first = true;
  for (uint32_t item = blockIdx.x; item < p.items; item += gridDim.x) {
    const StreamWork work = get_stream_work<S, Columns>(p, item);
    const BatchOffset offset = batch_offset(p.gemm.batch, work.index);
    stream.choose(offset.a, work.wide0);
    float acc[S::kRowTiles][kColumnGroups][4] = {};
    uint32_t places[kColumnGroups];
    for (int chunk = work.steps.begin; chunk < work.steps.end; chunk += p.steps_staged) {
      const int end = min(chunk + p.steps_staged, work.steps.end);
      if (first || !p.stage_once) {
        __syncthreads();  // nobody reads the thin operand or the sums now
        thin.choose(offset.b, work.thin0);
        thin.begin(chunk * step_extent - S::kBefore, (end - chunk) * step_extent + S::kBefore);
        ptx::cp_async_commit();
        if (first) {
#pragma unroll 1
          for (int i = 0; i < S::kInFlight - 1; ++i) copy_next();
          ptx::cp_async_wait<S::kInFlight - 1>();
        } else {
          ptx::cp_async_wait<0>();
        }
        thin.end();
        __syncthreads();
        first = false;
      }
      stream.template find<kColumnGroups>(thin, places);
#pragma unroll 1
      for (int step = chunk + part; step < end; step += parts) {
        copy_next();
        ptx::cp_async_wait<S::kInFlight - 1>();
        stream.template multiply<kColumnGroups>(acc, ring + slot * kStepBytes, places, step);
        slot = slot == S::kInFlight - 1 ? 0 : slot + 1;
      }
    }
    if (item + gridDim.x >= p.items) ptx::let_next_kernel_start();
    __syncthreads();  // nobody reads the thin operand, nor the sums before
#pragma unroll
    for (int tile = 0; tile < S::kRowTiles; ++tile) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = stream.row(tile, i / 2);
        if (row < 0 || row >= rows) continue;
#pragma unroll
        for (int group = 0; group < kColumnGroups; ++group) {
          const int column = group * 8 + threadIdx.x % 4 * 2 + i % 2;
          ptx::st_shared_f32(sums + ((sum_part * Columns + column) * rows + row) * 4,
                             acc[tile][group][i]);
        }
      }
    }
    __syncthreads();
    const int sum_parts = S::sum_parts(p.classes_log2);
    if (p.gemm.out_f32) {
      store_sums<T, float, Columns>(p, work, sums, sum_parts, rows);
    } else {
      store_sums<T, T, Columns>(p, work, sums, sum_parts, rows);
    }
  }
#endif
}

}  // namespace vitamin::sm90
