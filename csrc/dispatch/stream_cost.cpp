#include <algorithm>
#include <cmath>

#include "cost.h"
#include "stream_shape.h"

namespace vitamin {
namespace {

constexpr int kNorm = 2;  // how sharply the slower of work and traffic decides

// Fitted to benchmarks/results/sm90-tiles-h200.csv.
namespace streams {
constexpr double kStreamClock = 0.7325;     // of the boost clock
constexpr double kStreamDram = 1.046;       // of what a copy reaches of the memory's rate
constexpr double kStreamStartUs = 2.245;    // launch, first loads
constexpr double kStreamTileCycles = 3061;  // loads of the thin operand, sums, stores
// Cycles for a KB of the wide operand, where K is contiguous.
constexpr double kStreamRowKb = 28.02;
constexpr double kStreamColumnKb = 50.57;  // where it isn't
// At least, for a block that has its SM to itself.
constexpr double kStreamRowAlone = 39.79, kStreamColumnAlone = 57.77;
constexpr double kStreamThinGroup = 24.64;  // and for 8 more columns of the thin operand
constexpr double kStreamTransposed =
    190.2;                                 // for a KB of the thin one, if K isn't contiguous in it
constexpr double kStreamPartsUs = 0.5491;  // of a split K
constexpr double kShallowStartUs = 1.088;
constexpr double kShallowTileCycles = 1120;
constexpr double kShallowDepth = 8.526;  // cycles for an index of K, however little there is to do
constexpr double kShallowRowValue =
    12.41;  // for a value of the wide operand by each thread of a block
constexpr double kShallowValue = 11.26;    // where K is not contiguous in it
constexpr double kShallowProduct = 3.383;  // for a product
constexpr double kShallowStore = 32.19;    // for a value of c
constexpr double kShallowScatter = 429.1;  // that lies apart from those of other threads
constexpr double kOnceStartUs = 1.681;
constexpr double kOnceDepth = 23.33;       // for an index of K, however little there is to do
constexpr double kOnceKb = 39.45;          // cycles for a KB of the operands, copied
constexpr double kOnceReadA = 18.74;       // for 16 rows of a and of K that are read one by one
constexpr double kOncePairsB = 8.379;      // for 32 columns of b, read by pairs of elements
constexpr double kOnceReadB = 39.44;       // and one by one
constexpr double kOnceStore = 0.1019;      // for a value of c
constexpr double kOnceOddStore = 0.08344;  // in rows that aren't pieces of 16 bytes
}  // namespace streams

Cost make_cost(const Problem& p, const DeviceFacts& device, double work_us, double overhead_us) {
  const Traffic t = traffic(p, device);
  Cost cost;
  cost.tensor_us = work_us;
  cost.memory_us = t.dram_bytes / (t.dram * streams::kStreamDram);
  cost.overhead_us = overhead_us + interference(cost, kNorm);
  return cost;
}

// Whether the kernel with a tile a block reads two neighbours of K at once.
bool by_pairs(const Matrix& x, Layout k_major) { return x.layout == k_major && x.align >= 4; }

}  // namespace

Cost predict_stream(const Problem& p, const DeviceFacts& device, const Launch& launch) {
  const StreamShape s = stream_shape(p);
  const double blocks = double(s.blocks);                                    // of each part
  const double slots = std::max(1.0, cluster_slots(device, launch.splits));  // with a block an SM
  const double rounds = std::ceil(blocks / (2 * slots));
  const double resident = std::min(2.0, std::ceil(blocks / slots));
  const double part = std::ceil(double(s.steps) / launch.splits) * s.step;
  const Matrix& thin = s.wide_is_b ? p.a : p.b;
  const bool thin_by_rows = thin.layout == (s.wide_is_b ? Layout::kRow : Layout::kCol);
  const double kilobyte = (s.by_rows ? streams::kStreamRowKb : streams::kStreamColumnKb) +
                          streams::kStreamThinGroup * (s.columns / 8 - 1);
  const double transposed = thin_by_rows ? 0 : streams::kStreamTransposed;
  const double thin_rows = double(std::min<int64_t>(s.thin, s.columns));
  // A block alone on its SM is slower than its share: it waits for each of its loads.
  const double alone = s.by_rows ? streams::kStreamRowAlone : streams::kStreamColumnAlone;
  const double tile =
      streams::kStreamTileCycles +
      part * 2 / 1024 *
          (s.rows * std::max(resident * kilobyte, alone) + resident * thin_rows * transposed);
  const double work = rounds * tile / (device.sm_ghz * streams::kStreamClock * 1e3);
  double overhead = streams::kStreamStartUs;
  if (launch.splits > 1) overhead += streams::kStreamPartsUs;
  return make_cost(p, device, work, overhead);
}

Cost predict_shallow(const Problem& p, const DeviceFacts& device) {
  const ShallowShape s = shallow_shape(p);
  const double resident = std::min(4.0, std::ceil(double(s.blocks) / device.sm_count));
  const double rounds = std::ceil(double(s.blocks) / (4 * device.sm_count));
  const double k = double(p.k);
  const double value = s.by_rows ? streams::kShallowRowValue : streams::kShallowValue;
  const double store = s.side_by_side ? streams::kShallowStore : streams::kShallowScatter;
  const double row = k * (value + streams::kShallowProduct * s.columns) + store * s.columns;
  const double tile =
      streams::kShallowTileCycles + k * streams::kShallowDepth + resident * s.rows * row;
  const double work = rounds * tile / (device.sm_ghz * streams::kStreamClock * 1e3);
  return make_cost(p, device, work, streams::kShallowStartUs);
}

Cost predict_once(const Problem& p, const DeviceFacts& device) {
  const double rows = double(std::min<int64_t>(p.m, 64));
  const double columns = double(std::min<int64_t>(p.n, 64));
  const double blocks = std::ceil(p.m / 64.0) * std::ceil(p.n / 64.0) * double(p.batch.count());
  const int warps = once_warps(int64_t(blocks), p.k, device.sm_count);
  const double slots = std::min(once_blocks(warps), kHopperSmem / (once_bytes(p.k) + 1024));
  const double resident = std::min(slots, std::ceil(blocks / device.sm_count));
  const double rounds = std::ceil(blocks / (slots * device.sm_count));
  const double copies = double(p.k) * 2 / 1024 * (rows + columns) * streams::kOnceKb;
  // Of 16 of K: what a warp reads of its 16 rows of a, and each of 32 columns of b.
  const double reads_a = by_pairs(p.a, Layout::kRow) ? 0 : streams::kOnceReadA;
  const double reads_b = by_pairs(p.b, Layout::kCol) ? streams::kOncePairsB : streams::kOnceReadB;
  const double row_warps = std::ceil(rows / 16) / 4;
  const double products =
      std::ceil(p.k / 16.0) * row_warps * (reads_a + std::ceil(columns / 32) * reads_b);
  const double store = streams::kOnceStore + (p.c_by_tma() ? 0 : streams::kOnceOddStore);
  const double tile =
      double(p.k) * streams::kOnceDepth + resident * (copies + products + store * rows * columns);
  const double work = rounds * tile / (device.sm_ghz * streams::kStreamClock * 1e3);
  return make_cost(p, device, work, streams::kOnceStartUs);
}

}  // namespace vitamin
