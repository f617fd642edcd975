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
constexpr double kStageCycles = 260;  // least time of a k-tile: barrier and copies
constexpr double kNorm = 4;           // how sharply the slower of products and traffic decides
constexpr double kReduceBytesPerCycle = 48;  // one block adding up split-K parts

// Of the Hopper kernel: fitted to benchmarks/results/sm90-tiles-h200.csv.
namespace hopper {
constexpr double kLaunchUs = 0.06488;       // with kStartCycles, the shortest kernel
constexpr double kClock = 0.8002;           // of the boost clock, at the power limit
constexpr double kStartCycles = 1859;       // first loads, last stores
constexpr double kSmallStartCycles = 1820;  // of blocks that share an SM
constexpr double kTileCycles = 1169;        // between two tiles
constexpr double kWgmma = 1.02;             // cycles over those of a full tensor pipe
constexpr double kNarrow = 1.024;           // of that, with n below 256: more energy a product
constexpr double kStageCycles = 222.5;      // least time of a k-tile
constexpr double kRow = 1.943;              // cycles for a row of 128 bytes that is copied
constexpr double kCrookedRow = 2.482;       // that does not begin at a multiple of 64 bytes
constexpr double kSplitRow = 3.088;         // nor of 32 bytes
constexpr double kRowBeyond = 3.097;        // beyond the matrix
constexpr double kCopiedRow = 31.03;        // by threads, of 16-byte alignment, 8-byte, ...
constexpr double kCopiedRow8 = 24.1, kCopiedRow4 = 35.1, kCopiedRow2 = 47.04, kStridedRow = 100;
constexpr double kDirectStore = 0.1922;    // cycles an element that is stored from the accumulators
constexpr double kScalarStore = 0.35;      // by tiles whose rows are columns of c, one by one
constexpr double kOddStore = 1.0;          // one by one in rows of any alignment: 1882x9788x20
constexpr double kExposedBoxes = 0.06461;  // in boxes, by TMA, with no products to run under
constexpr double kExposedRows = 0.2346;    // in rows
constexpr double kHiddenRows = 0.2164;     // in rows under the products of the next tile
constexpr double kCopyUs = 1.511;          // of copied operands, beside the traffic
constexpr double kReduceUs = 0.2225;       // of a split K, and each part, and 64 columns of it
constexpr double kReducePartUs = 0.1824, kReduceColumnsUs = 0.7272;
constexpr double kInTurnUs = 1.256;    // of a launch that waits for the end of the one before
constexpr double kUneven = 0.07484;    // what traffic suffers where some SMs have more blocks
constexpr double kL2OverDram = 3.055;  // what L2 adds to the memory's rate
constexpr double kNorm = 3.006;        // how sharply the slower of products and traffic decides
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

// What moves through the memory, and what comes before and after the kernel, is the same for all.
struct Traffic {
  double dram_bytes;
  double dram, l2;  // bytes a microsecond
};

Traffic traffic(const Problem& p, const DeviceFacts& device) {
  const double a = 2.0 * p.m * p.k * double(p.batch.stored(p.batch.a));
  const double b = 2.0 * p.k * p.n * double(p.batch.stored(p.batch.b));
  const double c = (p.out_f32 ? 4.0 : 2.0) * p.m * p.n * double(p.batch.count());
  return {a + b + c, device.dram_tbs * 1e6 * kDramShare, device.dram_tbs * 1e6 * kL2OverDram};
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

// What products and traffic that are about equally slow cost each other.
double interference(const Cost& cost, double norm) {
  const double sum = std::pow(cost.tensor_us, norm) + std::pow(cost.memory_us, norm);
  return std::pow(sum, 1 / norm) - std::max(cost.tensor_us, cost.memory_us);
}

// Cycles for one of copied_rows().
double row_cycles(const Matrix& x, bool repacked, const KernelEntry& kernel) {
  if (!kernel.any_align) {
    if (repacked || x.straight()) return hopper::kRow;
    return x.whole_sectors() ? hopper::kCrookedRow : hopper::kSplitRow;
  }
  if (x.layout == Layout::kStrided) return hopper::kStridedRow;
  if (x.align == 16) return hopper::kCopiedRow;
  return x.align == 8   ? hopper::kCopiedRow8
         : x.align == 4 ? hopper::kCopiedRow4
                        : hopper::kCopiedRow2;
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
  const bool a_k_major = p.a.layout != Layout::kCol, b_k_major = p.b.layout == Layout::kCol;
  const double a_rows = copied_rows(p.m, a_k_major, kernel.tile_m);
  const double b_rows = copied_rows(p.n, b_k_major, kernel.tile_n);
  const double a_cycles = row_cycles(p.a, launch.repack_a, kernel);
  const double b_cycles = row_cycles(p.b, launch.repack_b, kernel);
  // Blocks of a cluster share the n columns: each asks for a part of them, and takes in all; boxes
  // of parts reach beyond the matrix.
  const double own = swapped ? b_rows * b_cycles : a_rows * a_cycles;
  const double shared_rows = swapped ? a_rows : b_rows;
  const double asked = (swapped ? a_cycles : b_cycles) / kernel.cluster;
  const double beyond = kernel.cluster > 1 ? std::max(0.0, n - shared_rows) : 0;
  const double copies =
      own + shared_rows * std::max(asked, hopper::kRow) + beyond * hopper::kRowBeyond;

  const double rows = std::ceil(double(swapped ? p.n : p.m) / (m * kernel.cluster));
  const double columns = std::ceil(double(swapped ? p.m : p.n) / n);
  const double groups = rows * columns * double(p.batch.count());
  const int blocks = kernel.cluster * launch.splits;  // of a group of tiles
  const double slots = std::max(1.0, cluster_slots(device, blocks) * kernel.blocks_per_sm);
  const double rounds = std::ceil(groups / slots);
  // Blocks that share an SM.
  const double resident =
      std::min<double>(kernel.blocks_per_sm, std::ceil(groups * blocks / device.sm_count));
  const double k_tiles = std::ceil(std::ceil(double(p.k) / kernel.tile_k) / launch.splits);

  // Of a wgmma: tensor cores, or its reads of shared memory.
  const double wgmma =
      std::max(n / 2.0, 16 + n / 4.0) * hopper::kWgmma * (n < 256 ? hopper::kNarrow : 1);
  const double k_tile =
      std::max({m / 16 * wgmma * resident, hopper::kStageCycles, copies * resident});
  const bool by_rows = !swapped && launch.splits == 1 && n % 64 == 0 && p.rows_of_16_bits();
  const bool hidden = k_tiles >= n / 64;
  // As store_accumulators() does: pairs of columns where rows of c are aligned.
  const bool pairs = p.c.layout == Layout::kRow && p.c.align == 16;
  const double direct = swapped ? hopper::kScalarStore
                        : pairs ? hopper::kDirectStore
                                : hopper::kOddStore;
  const double store = !by_rows       ? direct / launch.splits
                       : p.c_by_tma() ? (hidden ? 0 : hopper::kExposedBoxes)
                                      : (hidden ? hopper::kHiddenRows : hopper::kExposedRows);
  const double tile_cycles = k_tiles * k_tile + hopper::kTileCycles + store * m * n * resident;
  const double cycles_a_us = device.sm_ghz * hopper::kClock * 1e3;
  const double start = kernel.blocks_per_sm > 1 ? hopper::kSmallStartCycles : hopper::kStartCycles;
  const double start_us = start / cycles_a_us;

  Cost cost;
  cost.tensor_us = rounds * tile_cycles / cycles_a_us + start_us;
  const double a_share = std::min(1.0, double(swapped ? p.n : p.m) / m);
  const double b_share = std::min(1.0, double(swapped ? p.m : p.n) / n);
  const double loaded = groups * blocks * k_tiles * kernel.tile_k * 2.0 *
                        (m * a_share + n * b_share / kernel.cluster);
  const double uneven = std::min(2.0, rounds * resident * device.sm_count / (groups * blocks)) - 1;
  const double traffic_us =
      t.dram_bytes / t.dram + std::max(0.0, loaded - t.dram_bytes) / (t.dram * hopper::kL2OverDram);
  cost.memory_us = traffic_us * (1 + hopper::kUneven * std::max(0.0, uneven)) + start_us;
  cost.overhead_us = copies_us(p, launch, t) + hopper::kLaunchUs;
  if (start_in_turn(device, int64_t(groups) * blocks, launch.splits)) {
    cost.overhead_us += hopper::kInTurnUs;
  }
  if (launch.splits > 1) {
    cost.overhead_us += hopper::kReduceUs + hopper::kReducePartUs * launch.splits +
                        hopper::kReduceColumnsUs * n / 64;
  }
  cost.overhead_us += interference(cost, hopper::kNorm);
  return cost;
}

}  // namespace

double cluster_slots(const DeviceFacts& device, int blocks) {
  return std::floor(device.sm_count * hopper::kFilled[blocks - 1] / blocks);
}

int copied_rows(int64_t extent, bool k_major, int tile) {
  const int granule = k_major ? 8 : 64;
  return (int(std::min<int64_t>(extent, tile)) + granule - 1) / granule * granule;
}

bool start_in_turn(const DeviceFacts& device, int64_t blocks, int splits) {
  return splits > 1 && 2 * blocks > device.sm_count && 10 * blocks < 9 * device.sm_count;
}

Cost predict(const Problem& p, const DeviceFacts& device, const Launch& launch) {
  const KernelEntry& kernel = *launch.kernel;
  if (kernel.work == Work::kStream) return predict_stream(p, device, launch);
  if (kernel.work == Work::kShallow) return predict_shallow(p, device);
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
