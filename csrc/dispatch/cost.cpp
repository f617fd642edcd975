#include "cost.h"

#include <algorithm>
#include <cmath>

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

}  // namespace

Cost predict(const Problem& p, const DeviceFacts& device, const Launch& launch) {
  const KernelEntry& kernel = *launch.kernel;
  const double ghz = device.sm_ghz * kLoadedClock;
  const double dram = device.dram_tbs * 1e6 * kDramShare;  // bytes a microsecond
  const double l2 = device.dram_tbs * 1e6 * kL2OverDram;
  const double batches = double(p.batch.count());
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

  const double a_bytes = 2.0 * p.m * p.k * double(stored_batches(p.batch, p.batch.a));
  const double b_bytes = 2.0 * p.k * p.n * double(stored_batches(p.batch, p.batch.b));
  const double c_bytes = (p.out_f32 ? 4.0 : 2.0) * p.m * p.n * batches;
  const double loaded = blocks * k_tiles * kernel.tile_k * (kernel.tile_m + kernel.tile_n) * 2.0;
  const double in_flight = std::min(blocks, double(device.sm_count) * resident) *
                           kernel.smem_bytes * (kernel.stages - 1) / kernel.stages;
  const double load_rate = std::min(l2, in_flight / kLatencyUs);
  cost.memory_us = std::max((a_bytes + b_bytes + c_bytes) / dram, loaded / load_rate);

  cost.overhead_us = kLaunchUs;
  if (launch.splits > 1) {
    const double partial = blocks * tile_elements * 4;
    cost.overhead_us += kNextKernelUs + 2 * partial / l2 +
                        launch.splits * tile_elements * 4 / kReduceBytesPerCycle / (ghz * 1e3);
  }
  const auto repack_us = [&](Operand operand) {
    return kNextKernelUs + kRepackStartUs + 2 * repacked(p, operand).bytes / dram;
  };
  if (launch.repack_a) cost.overhead_us += repack_us(Operand::kA);
  if (launch.repack_b) cost.overhead_us += repack_us(Operand::kB);
  return cost;
}

}  // namespace vitamin
