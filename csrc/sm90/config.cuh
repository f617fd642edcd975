// One instance of the production Hopper kernel: types, tile, layouts, and its shared-memory map.
#pragma once

#include "../common/gemm_params.h"
#include "../common/ring.cuh"
#include "../common/staged_store.cuh"
#include "operand.cuh"
#include "tiles.h"

namespace vitamin::sm90 {

// How c is written: boxes by TMA; boxes by the threads, rows of any alignment; straight from the
// accumulators, fp32 and any strides.
enum class Store { kTma, kRows, kDirect };

// ARows: k is contiguous in a. BRows: k is contiguous in b (stored [N, K]).
template <class T_, const Tile& S, bool ARows, bool BRows, Store Store_>
struct Config {
  using T = T_;
  using A = Operand<ARows, S.m()>;
  // An instruction reads n columns of b, also where a block of 64 lies in shared memory.
  using B = Operand<BRows, S.b_rows(BRows)>;
  static constexpr Store Out = Store_;
  static constexpr int BM = S.m(), BN = S.n, Stages = S.stages_of(BRows);
  static constexpr int Threads = S.threads(), BlocksPerSm = S.blocks_per_sm;
  static constexpr int Consumers = S.consumers;
  static constexpr bool MovesRegisters = S.moves_registers();
  static constexpr int Registers = S.registers();
  // The first thread that copies, and the first one that multiplies.
  static constexpr int Producer = S.producers() == 128 ? 0 : Consumers * 128;
  static constexpr int FirstConsumer = S.producers() == 128 ? 128 : 0;
  static constexpr int Boxes = S.boxes(), Buffers = S.buffers();
  // Pieces in which a tile leaves under the products of the next one, a k-tile each: boxes, or
  // halves of those that the threads write.
  static constexpr int Sent = Out == Store::kDirect ? 0 : Out == Store::kRows ? 2 * Boxes : Boxes;
  static constexpr int StageBytes = S.stage_bytes(BRows);
  static constexpr int StagingBytes = S.staging_bytes();
  static constexpr int SmemBytes = S.smem_bytes(BRows);
  static constexpr int TransposeA = ARows ? 0 : 1, TransposeB = BRows ? 0 : 1;
  using Accumulators = float[BN / 2];

  // Stages (a tile, then b tile), boxes of c, ring barriers.
  static constexpr int StagingAt = Stages * StageBytes;
  static constexpr int RingAt = StagingAt + StagingBytes;
  static_assert(RingAt + RingBarriers<Stages>::kBytes == SmemBytes);
  static_assert(SmemBytes <= 232448);
  // Parts of a split K fit where the stages were.
  static_assert(BM * BN * 4 <= StagingAt);
};

// What is written of c at once where it is not by boxes: single elements or pairs, or 16 bytes of a
// row or of a column.
enum class Pieces { kNone, kOfRows, kOfColumns };

// What the kernel gets.
struct Maps {
  CUtensorMap a, b, c;
};

struct Params {
  GemmParams gemm;
  // A cluster works on a group of tiles: so many below each other, which share tiles of b, and side
  // by side, which share tiles of a; K in parts. Both are powers of 2.
  int cluster_m, cluster_n;
  int cluster_m_log2, cluster_n_log2;
  // Groups, side by side those of a strip of the raster; of one matrix; of all.
  uint32_t groups_m, groups_n, strip, groups_a_matrix, groups;
  // Rows of a, columns of b that are copied of a tile; lines of a block's boxes.
  int a_rows, b_rows, a_lines, b_lines;
  Pieces pieces;
  // 1 where the matrices of a batch differ, 0 where one serves all.
  int a_step, b_step;
};

}  // namespace vitamin::sm90
