// The time that a launch is predicted to take.
#pragma once

#include "kernel_table.h"

namespace vitamin {

struct Cost {
  double tensor_us = 0;    // the tensor cores, whole rounds of blocks
  double memory_us = 0;    // device memory and L2
  double overhead_us = 0;  // launches, split-K, repacking
  double total_us() const { return (tensor_us > memory_us ? tensor_us : memory_us) + overhead_us; }
};

// `launch.kernel` is a tile of a production family.
Cost predict(const Problem& problem, const DeviceFacts& device, const Launch& launch);

// The same of the kernels that stream_shape.h is about, and of that with a tile a block.
Cost predict_stream(const Problem& problem, const DeviceFacts& device, const Launch& launch);
Cost predict_shallow(const Problem& problem, const DeviceFacts& device);
Cost predict_once(const Problem& problem, const DeviceFacts& device);

// Share of the memory's peak bandwidth that a copy reaches.
constexpr double kDramShare = 0.88;

// What moves through the memory: the same for all kernels.
struct Traffic {
  double dram_bytes;
  double dram, l2;  // bytes a microsecond
};
Traffic traffic(const Problem& problem, const DeviceFacts& device);

// What products and traffic that are about equally slow cost each other: they add up at the power
// `norm`.
double interference(const Cost& cost, int norm);

// Clusters of `blocks` blocks, a block an SM, that a Hopper GPU holds at once.
double cluster_slots(const DeviceFacts& device, int blocks);

// Rows of 128 bytes that an operand's tile is copied in, of `extent` that there are. k_major: a row
// is a row of a or a column of b; else it is a line along the other index, in blocks of 64.
int copied_rows(int64_t extent, bool k_major, int tile);

}  // namespace vitamin
