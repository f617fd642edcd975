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
constexpr double kNextKernelUs = 1.3;   // one more kernel or memset before it
constexpr double kLoadedClock = 0.9;    // of the boost clock, under tensor load
constexpr double kRepackStartUs = 1.5;  // of a copy, before it runs at the memory's rate
constexpr double kDramShare = 0.88;     // of the peak bandwidth that a copy reaches
constexpr double kL2OverDram = 1.8;     // L2 bandwidth over the peak of the memory
constexpr double kLatencyUs = 1.0;      // a load under traffic
constexpr double kBlockCycles = 2500;   // block start, first loads
constexpr double kStoreCyclesPerElement = 0.2;
constexpr double kStageCycles = 260;         // least time of a k-tile: barrier and copies
constexpr double kReduceBytesPerCycle = 48;  // one block adding up split-K parts

// Of the Hopper kernel.
constexpr double kWgmmaClock = 0.85;       // of the boost clock, at the power limit
constexpr double kSm90StartCycles = 5000;  // first loads, last stores
constexpr double kSm90ItemCycles = 1500;   // between two tiles
constexpr double kSm90StageCycles = 220;   // least time of a k-tile
constexpr double kSm90StoreCycles = 0.15;  // an element that TMA doesn't write
constexpr double kSm90ReduceUs = 1.0;      // cluster barriers around the sum of a split K
constexpr double kSm90ReduceBytesPerCycle = 32;
constexpr double kSm90L2OverDram = 2.2;  // L2 bandwidth over that of the memory

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

int64_t stored_batches(const Batch& batch, const int64_t* strides) {
  int64_t n = 1;
  for (int d = 0; d < batch.dims; ++d) n *= strides[d] ? batch.size[d] : 1;
  return n;
}

// What moves through the memory, and what comes before and after the kernel, is the same for all.
struct Traffic {
  double dram_bytes;
  double dram, l2;  // bytes a microsecond
};

Traffic traffic(const Problem& p, const DeviceFacts& device) {
  const double a = 2.0 * p.m * p.k * double(stored_batches(p.batch, p.batch.a));
  const double b = 2.0 * p.k * p.n * double(stored_batches(p.batch, p.batch.b));
  const double c = (p.out_f32 ? 4.0 : 2.0) * p.m * p.n * double(p.batch.count());
  return {a + b + c, device.dram_tbs * 1e6 * kDramShare, device.dram_tbs * 1e6 * kL2OverDram};
}

// Launch, copies of operands, zeroing of counters.
double launch_us(const Problem& p, const Launch& launch, const Traffic& t) {
  double us = kLaunchUs;
  if (launch.splits > 1 && !launch.kernel->splits_in_cluster) us += kNextKernelUs;
  const auto repack_us = [&](Operand operand) {
    return kNextKernelUs + kRepackStartUs + 2 * repacked(p, operand).bytes / t.dram;
  };
  if (launch.repack_a) us += repack_us(Operand::kA);
  if (launch.repack_b) us += repack_us(Operand::kB);
  return us;
}

// The production kernel of the Hopper path: one block an SM, tiles in turn.
Cost predict_sm90(const Problem& p, const DeviceFacts& device, const Launch& launch) {
  const KernelEntry& kernel = *launch.kernel;
  const Traffic t = traffic(p, device);
  const bool swapped = kernel.tile_m < kernel.tile_n && kernel.tile_m < 128;
  const int n = swapped ? kernel.tile_m : kernel.tile_n;
  const double ghz = device.sm_ghz * kWgmmaClock;
  const double tiles = double(tile_count(p, kernel.tile_m, kernel.tile_n));
  const double items = tiles * launch.splits;
  const double k_tiles = std::ceil(std::ceil(double(p.k) / kernel.tile_k) / launch.splits);
  const double rounds = std::ceil(items / (device.sm_count / kernel.cluster * kernel.cluster));
  // Of a wgmma: tensor cores, or its reads of shared memory.
  const double wgmma = std::max(n / 2.0, 16 + n / 4.0);
  const double k_tile = std::max(8 * wgmma, kSm90StageCycles);
  const bool by_tma =
      !swapped && !p.out_f32 && p.c.align == 16 && p.n % 8 == 0 && p.c.layout == Layout::kRow;
  const double store = by_tma ? 0 : kSm90StoreCycles * 128 * n;
  const double item_cycles = k_tiles * k_tile + kSm90ItemCycles + store;

  Cost cost;
  cost.tensor_us = (rounds * item_cycles + kSm90StartCycles) / (ghz * 1e3);
  const double loaded =
      items * k_tiles * kernel.tile_k * 2.0 * (128 + std::max(n, 16) / double(kernel.cluster));
  cost.memory_us = std::max(t.dram_bytes / t.dram, loaded / (t.dram * kSm90L2OverDram)) +
                   kSm90StartCycles / (ghz * 1e3);
  cost.overhead_us = launch_us(p, launch, t);
  if (launch.splits > 1) {
    cost.overhead_us += kSm90ReduceUs + 128.0 * n * 4 / kSm90ReduceBytesPerCycle / (ghz * 1e3);
  }
  return cost;
}

}  // namespace

Cost predict(const Problem& p, const DeviceFacts& device, const Launch& launch) {
  const KernelEntry& kernel = *launch.kernel;
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
  cost.memory_us = std::max(t.dram_bytes / t.dram, loaded / load_rate);

  cost.overhead_us = launch_us(p, launch, t);
  if (launch.splits > 1) {
    const double partial = blocks * tile_elements * 4;
    cost.overhead_us +=
        2 * partial / t.l2 + launch.splits * tile_elements * 4 / kReduceBytesPerCycle / (ghz * 1e3);
  }
  return cost;
}

}  // namespace vitamin
