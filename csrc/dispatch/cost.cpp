#include "cost.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "workspace.h"

namespace vitamin {
namespace {

// Constants of the model, from benchmarks/results/sm80-tiles-h200.csv and sm80-select-h200.csv
// unless said otherwise.
constexpr double kLaunchUs = 2.2;       // the shortest kernel in a graph
constexpr double kNextKernelUs = 3.2;   // one more kernel or memset before it
constexpr double kLoadedClock = 0.9;    // of the boost clock, under tensor load
constexpr double kRepackStartUs = 1.5;  // of a copy, before it runs at the memory's rate
constexpr double kMainLoopDram = 0.93;  // share of that which these kernels reach
constexpr double kL2OverDram = 1.8;     // L2 bandwidth over the peak of the memory
constexpr double kLatencyUs = 1.0;      // a load under traffic
constexpr double kBlockCycles = 4000;   // block start, first loads
constexpr double kStoreCyclesPerElement = 0.3;
constexpr double kStageCycles = 260;         // least time of a k-tile: barrier and copies
constexpr double kReduceBytesPerCycle = 48;  // one block adding up split-K parts
// How sharply the slower of products and traffic decides, of the two families.
constexpr int kNorm = 4, kHopperNorm = 3;

// Of the Hopper kernel: fitted to benchmarks/results/sm90-tiles-h200.csv.
namespace hopper {
constexpr double kClock = 0.856;            // of the boost clock, at the power limit
constexpr double kStartCycles = 1371;       // launch, first loads
constexpr double kTileCycles = 678.8;       // between two tiles
constexpr double kWgmma = 1.096;            // cycles over those of a full tensor pipe
constexpr double kNarrow = 1.054;           // of that, with n below 256: more energy a product
constexpr double kStageCycles = 313.8;      // least time of a k-tile
constexpr double kRow = 2.412;              // cycles for a row of 128 bytes that is copied
constexpr double kCrookedRow = 2.569;       // that does not begin at a multiple of 64 bytes
constexpr double kSplitRow = 2.827;         // nor of 32 bytes
constexpr double kSharedRow = 1.729;        // that other blocks of the cluster copy parts of
constexpr double kShortRow = 3.099;         // of less than 128 bytes
constexpr double kSharedShortRow = 0.3326;  // of those, that others copy parts of
// What rows ask the L2 for, against straight ones.
constexpr double kCrookedRequests = 1.072, kSplitRequests = 1.721, kShortRequests = 4.13;
constexpr double kRowBeyond = 2.632;      // beyond the matrix
constexpr double kStore = 0.04745;        // cycles an element of a tile of c, however it is stored
constexpr double kDirectStore = 0.03642;  // and from the accumulators
constexpr double kScalarStore = 0.3789;   // by tiles whose rows are columns of c, one by one
constexpr double kOddStore = 0.5347;      // one by one in rows of any alignment
constexpr double kRowsStore = 0.2775;     // from shared memory in rows, not in boxes by TMA
constexpr double kLastStore = 0.06659;    // an element of c in the last tile, until it is in memory
constexpr double kCopyUs = 1.418;         // of copied operands, beside the traffic
constexpr double kReduceUs = 0.3737;      // of a split K, and each part
constexpr double kReducePartUs = 0.1042;
constexpr double kReduceKiloUs = 0.1472;  // and 1024 sums that a block sends to the others
constexpr double kClusterUs = 0.03023;    // of blocks that share tiles
constexpr double kBeginUs = 0.4839;       // of first loads where all SMs begin
constexpr double kL2OverDram = 3.378;     // what L2 adds to the memory's rate
// Share of the SMs that a launch in clusters of 1, 2, ... blocks fills.
constexpr double kFilled[] = {1, 1, 0.887, 0.91, 0.834, 0.773, 0.796, 0.91};
}  // namespace hopper

// Cycles that a quarter of an SM needs for one mma.m16n8k16 with fp32 accumulation. 9.0: measured;
// the others from their peak rates.
double mma_cycles(int cc) {
  if (cc >= 90 && cc < 110) return 6.04;
  if (cc == 80) return 8;
  return 32;
}

// Share of that rate with `resident` blocks on an SM: it takes 8 warps to keep the pipe busy.
double main_loop_share(const KernelEntry& kernel, int resident) {
  return kernel.main_loop_share * std::min(1.0, kernel.threads / 32 * resident / 8.0);
}

// How much longer loads take than 16-byte copies at the alignment of an operand.
double load_penalty(const Matrix& matrix) {
  if (matrix.layout == Layout::kStrided || matrix.align < 4) return 8;
  return matrix.align < 8 ? 4 : matrix.align < 16 ? 2.3 : 1;
}

// Copies of operands before the kernel, by a kernel of their own.
double copies_us(const Problem& p, const Launch& launch, const Traffic& t) {
  if (!launch.repack_a && !launch.repack_b) return 0;
  const double start =
      launch.kernel->splits_in_cluster ? hopper::kCopyUs : kNextKernelUs + kRepackStartUs;
  const double bytes = (launch.repack_a ? repacked(p, Operand::kA).bytes : 0) +
                       (launch.repack_b ? repacked(p, Operand::kB).bytes : 0);
  return start + 2 * bytes / t.dram;
}

// What one of copied_rows() costs the block that asks for it, and the L2, against a straight one.
struct RowCost {
  double cycles, requests;
};

// `length`: elements of it that lie in the matrix.
RowCost row_cost(const Matrix& x, int64_t length, bool repacked, int whole) {
  if (length < whole) return {hopper::kShortRow, hopper::kShortRequests};
  if (repacked || x.straight()) return {hopper::kRow, 1};
  return x.whole_sectors() ? RowCost{hopper::kCrookedRow, hopper::kCrookedRequests}
                           : RowCost{hopper::kSplitRow, hopper::kSplitRequests};
}

// Of an operand's tile.
struct TileCopies {
  double cycles;
  double asked;  // rows, in straight ones
};

// `rows`: of a tile; `extent`: that there are. Each of `share` blocks asks for a part of them and
// takes in all; boxes of parts reach beyond the matrix.
TileCopies tile_copies(const Matrix& x, int64_t extent, int64_t k, bool k_major, int rows,
                       int share, bool repacked, const KernelEntry& kernel) {
  const int64_t length = k_major ? k : extent;
  const double copied = copied_rows(extent, k_major, rows);
  const double beyond = k_major && share > 1 ? rows - std::min<double>(rows, copied) : 0;
  const RowCost row = row_cost(x, length, repacked, kernel.tile_k);
  double cycles = row.cycles;
  if (share > 1) {
    const bool whole = length >= kernel.tile_k;
    cycles = std::max(cycles / share, whole ? hopper::kSharedRow : hopper::kSharedShortRow);
  }
  return {copied * cycles + beyond * hopper::kRowBeyond, copied / share * row.requests};
}

// The production kernel of the Hopper path: one block an SM, or two of the smallest, tiles in turn;
// with K split, a block a part.
Cost predict_sm90(const Problem& p, const DeviceFacts& device, const Launch& launch) {
  const KernelEntry& kernel = *launch.kernel;
  const Traffic t = traffic(p, device);
  // The rows and columns of wgmma.
  const bool swapped = kernel.swapped;
  const int m = swapped ? kernel.tile_n : kernel.tile_m;
  const int n = swapped ? kernel.tile_m : kernel.tile_n;
  const TileCopies a = tile_copies(p.a, p.m, p.k, p.a.layout != Layout::kCol, kernel.tile_m,
                                   kernel.cluster_n, launch.repack_a, kernel);
  const TileCopies b = tile_copies(p.b, p.n, p.k, p.b.layout == Layout::kCol, kernel.tile_n,
                                   kernel.cluster_m, launch.repack_b, kernel);

  const double rows = std::ceil(double(p.m) / (kernel.tile_m * kernel.cluster_m));
  const double columns = std::ceil(double(p.n) / (kernel.tile_n * kernel.cluster_n));
  const double groups = rows * columns * double(p.batch.count());
  const int blocks = kernel.cluster_m * kernel.cluster_n * launch.splits;  // of a group of tiles
  const double slots = std::max(1.0, cluster_slots(device, blocks));       // with a block an SM
  const double rounds = std::ceil(groups / (slots * kernel.blocks_per_sm));
  // Blocks that share an SM.
  const double resident = std::min<double>(kernel.blocks_per_sm, std::ceil(groups / slots));
  const double k_tiles = std::ceil(std::ceil(double(p.k) / kernel.tile_k) / launch.splits);

  // Of a wgmma: tensor cores, or its reads of shared memory.
  const double wgmma =
      std::max(n / 2.0, 16 + n / 4.0) * hopper::kWgmma * (n < 256 ? hopper::kNarrow : 1);
  const double k_tile =
      std::max({m / 16 * wgmma * resident, hopper::kStageCycles, (a.cycles + b.cycles) * resident});
  const bool by_rows = !swapped && launch.splits == 1 && n % 64 == 0 && p.rows_of_16_bits();
  // As store_straight() does.
  const double direct = p.c_by_tma() ? hopper::kDirectStore
                        : swapped    ? hopper::kScalarStore
                                     : hopper::kOddStore;
  const double store = hopper::kStore + (!by_rows       ? direct / launch.splits
                                         : p.c_by_tma() ? 0
                                                        : hopper::kRowsStore);
  const double tile_cycles = k_tiles * k_tile + hopper::kTileCycles + store * m * n * resident;
  const double last_cycles = hopper::kLastStore * resident *
                             double(std::min<int64_t>(p.m, kernel.tile_m)) *
                             double(std::min<int64_t>(p.n, kernel.tile_n));
  const double cycles_a_us = device.sm_ghz * hopper::kClock * 1e3;
  const double start_us = hopper::kStartCycles / cycles_a_us;

  Cost cost;
  cost.tensor_us = (rounds * tile_cycles + last_cycles) / cycles_a_us + start_us;
  const double asked = groups * blocks * k_tiles * 128 * (a.asked + b.asked);
  cost.memory_us = t.dram_bytes / t.dram +
                   std::max(0.0, asked - t.dram_bytes) / (t.dram * hopper::kL2OverDram) + start_us;
  cost.overhead_us = copies_us(p, launch, t);
  if (kernel.cluster_m * kernel.cluster_n > 1) cost.overhead_us += hopper::kClusterUs;
  cost.overhead_us += std::min(1.0, groups * blocks / device.sm_count) * hopper::kBeginUs;
  if (launch.splits > 1) {
    const double sent = double(m) * n * (launch.splits - 1) / launch.splits;
    cost.overhead_us += hopper::kReduceUs + hopper::kReducePartUs * launch.splits +
                        hopper::kReduceKiloUs * sent / 1024;
  }
  cost.overhead_us += interference(cost, kHopperNorm);
  return cost;
}

}  // namespace

Traffic traffic(const Problem& p, const DeviceFacts& device) {
  const double a = 2.0 * p.m * p.k * double(p.batch.stored(p.batch.a));
  const double b = 2.0 * p.k * p.n * double(p.batch.stored(p.batch.b));
  const double c = (p.out_f32 ? 4.0 : 2.0) * p.m * p.n * double(p.batch.count());
  return {a + b + c, device.dram_tbs * 1e6 * kDramShare, device.dram_tbs * 1e6 * kL2OverDram};
}

double interference(const Cost& cost, int norm) {
  double tensor = 1, memory = 1;
  for (int i = 0; i < norm; ++i) {
    tensor *= cost.tensor_us;
    memory *= cost.memory_us;
  }
  return std::pow(tensor + memory, 1.0 / norm) - std::max(cost.tensor_us, cost.memory_us);
}

double cluster_slots(const DeviceFacts& device, int blocks) {
  return std::floor(device.sm_count * hopper::kFilled[blocks - 1] / blocks);
}

int copied_rows(int64_t extent, bool k_major, int tile) {
  const int granule = k_major ? 8 : 64;
  return (int(std::min<int64_t>(extent, tile)) + granule - 1) / granule * granule;
}

Cost predict(const Problem& p, const DeviceFacts& device, const Launch& launch) {
  const KernelEntry& kernel = *launch.kernel;
  if (kernel.work == Work::kStream) return predict_stream(p, device, launch);
  if (kernel.work == Work::kShallow) return predict_shallow(p, device);
  if (kernel.work == Work::kOnce) return predict_once(p, device);
  if (std::strcmp(kernel.family, "sm90") == 0) return predict_sm90(p, device, launch);
  const Traffic t = traffic(p, device);
  const double ghz = device.sm_ghz * kLoadedClock;
  const double blocks = double(tile_count(p, kernel.tile_m, kernel.tile_n)) * launch.splits;
  const double k_tiles = std::ceil(std::ceil(double(p.k) / kernel.tile_k) / launch.splits);

  const int64_t by_smem = device.smem_per_sm / (kernel.smem_bytes + 1024);
  const int fit = int(std::max<int64_t>(1, std::min<int64_t>(kernel.blocks_per_sm, by_smem)));
  const double blocks_per_sm = std::ceil(blocks / device.sm_count);
  const int resident = int(std::min(double(fit), blocks_per_sm));
  const double rounds = std::ceil(blocks_per_sm / resident);

  const double tile_elements = double(kernel.tile_m) * kernel.tile_n;
  const double mma = tile_elements * kernel.tile_k / (16 * 8 * 16) / 4 * mma_cycles(device.cc);
  double penalty = 1;
  if (!launch.repack_a) penalty = std::max(penalty, load_penalty(p.a));
  if (!launch.repack_b) penalty = std::max(penalty, load_penalty(p.b));
  const double k_tile_cycles =
      penalty * std::max(mma * resident / main_loop_share(kernel, resident), kStageCycles);
  const double block_cycles =
      k_tiles * k_tile_cycles + kBlockCycles + kStoreCyclesPerElement * tile_elements;

  Cost cost;
  cost.tensor_us = rounds * block_cycles / (ghz * 1e3);

  const double loaded = blocks * k_tiles * kernel.tile_k * (kernel.tile_m + kernel.tile_n) * 2.0;
  const double in_flight = std::min(blocks, double(device.sm_count) * resident) *
                           kernel.smem_bytes * (kernel.stages - 1) / kernel.stages;
  const double load_rate = std::min(t.l2, in_flight / kLatencyUs);
  cost.memory_us = std::max(t.dram_bytes / (t.dram * kMainLoopDram), loaded / load_rate);

  cost.overhead_us = kLaunchUs + copies_us(p, launch, t);
  if (launch.splits > 1) {
    const double partial = blocks * tile_elements * 4;
    cost.overhead_us += kNextKernelUs + 2 * partial / t.l2 +
                        launch.splits * tile_elements * 4 / kReduceBytesPerCycle / (ghz * 1e3);
  }
  cost.overhead_us += interference(cost, kNorm);
  return cost;
}

}  // namespace vitamin
