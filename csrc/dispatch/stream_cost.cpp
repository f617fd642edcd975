#include <algorithm>
#include <cmath>

#include "cost.h"
#include "stream_shape.h"

namespace vitamin {
namespace {

// Fitted to benchmarks/results/sm90-tiles-h200.csv.
namespace streams {
constexpr double kStreamClock = 0.7419;     // of the boost clock
constexpr double kStreamDram = 0.8728;      // of what a copy reaches of the memory's rate
constexpr double kStreamNorm = 2.004;       // how sharply the slower of work and traffic decides
constexpr double kStreamStartUs = 3.064;    // launch, first loads
constexpr double kStreamTileCycles = 2706;  // loads of the thin operand, sums, stores
constexpr double kStreamRowKb = 29.4;  // cycles for a KB of the wide operand, where K is contiguous
constexpr double kStreamColumnKb = 37.94;   // where it isn't
constexpr double kStreamThinGroup = 29.54;  // and for 8 more columns of the thin operand
constexpr double kStreamTransposed =
    183.3;                                 // for a KB of the thin one, if K isn't contiguous in it
constexpr double kStreamPartsUs = 0.5441;  // of a split K
constexpr double kShallowStartUs = 0.9388;
constexpr double kShallowTileCycles = 1190;
constexpr double kShallowDepth = 13.58;  // cycles for an index of K, however little there is to do
constexpr double kShallowRowValue =
    10.36;  // for a value of the wide operand by each thread of a block
constexpr double kShallowValue = 16.35;    // where K is not contiguous in it
constexpr double kShallowProduct = 3.1;    // for a product
constexpr double kShallowStore = 35.53;    // for a value of c
constexpr double kShallowScatter = 429.1;  // that lies apart from those of other threads
constexpr double kOnceStartUs = 1.634;
constexpr double kOnceTileCycles = 2533;  // first loads, products, stores
constexpr double kOnceKb = 57.57;  // cycles for a KB of operands whose rows begin at 16 bytes
constexpr double kOnceKb8 = 40.72, kOnceKb4 = 123, kOnceKb2 = 261.4;  // at 8 bytes, ...
constexpr double kOnceStore = 0.003032;                               // for a value of c
constexpr double kOnceOddStore = 0.1246;                              // in rows of other alignments
}  // namespace streams

Cost make_cost(const Problem& p, const DeviceFacts& device, double work_us, double overhead_us) {
  const Traffic t = traffic(p, device);
  Cost cost;
  cost.tensor_us = work_us;
  cost.memory_us = t.dram_bytes / (t.dram * streams::kStreamDram);
  cost.overhead_us = overhead_us + interference(cost, streams::kStreamNorm);
  return cost;
}

// Cycles for a KB of an operand of the kernel with a tile a block.
double once_kb(const Matrix& x) {
  if (x.layout == Layout::kStrided || x.align == 2) return streams::kOnceKb2;
  return x.align == 16 ? streams::kOnceKb : x.align == 8 ? streams::kOnceKb8 : streams::kOnceKb4;
}

}  // namespace

Cost predict_stream(const Problem& p, const DeviceFacts& device, const Launch& launch) {
  const StreamShape s = stream_shape(p);
  const double blocks = double(s.blocks) * launch.splits;
  const double rounds = std::ceil(blocks / (2 * device.sm_count));
  const double resident = std::min(2.0, std::ceil(blocks / device.sm_count));
  const double part = std::ceil(double(s.steps) / launch.splits) * s.step;
  const Matrix& thin = s.wide_is_b ? p.a : p.b;
  const bool thin_by_rows = thin.layout == (s.wide_is_b ? Layout::kRow : Layout::kCol);
  const double kilobyte = (s.by_rows ? streams::kStreamRowKb : streams::kStreamColumnKb) +
                          streams::kStreamThinGroup * (s.columns / 8 - 1);
  const double transposed = thin_by_rows ? 0 : streams::kStreamTransposed;
  const double thin_rows = double(std::min<int64_t>(s.thin, s.columns));
  const double tile = streams::kStreamTileCycles +
                      resident * part * 2 / 1024 * (s.rows * kilobyte + thin_rows * transposed);
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
  const double resident = std::min<double>(kOnceBlocks, std::ceil(blocks / device.sm_count));
  const double rounds = std::ceil(blocks / (kOnceBlocks * double(device.sm_count)));
  const double copies = double(p.k) * 2 / 1024 * (rows * once_kb(p.a) + columns * once_kb(p.b));
  const double store = p.c_by_tma() ? streams::kOnceStore : streams::kOnceOddStore;
  const double tile = streams::kOnceTileCycles + resident * (copies + store * rows * columns);
  const double work = rounds * tile / (device.sm_ghz * streams::kStreamClock * 1e3);
  return make_cost(p, device, work, streams::kOnceStartUs);
}

}  // namespace vitamin
