// Every kernel of the package as a table entry: all that dispatch/ and ops/ know of it.
#pragma once

#include <cstdint>
#include <vector>

#include "problem.h"

namespace vitamin {

struct KernelEntry;

// What decided on a kernel: the cost model or the caller's wish, a built-in measurement, a tuning.
enum class Chooser : int { kModel = 0, kMeasured = 1, kTuned = 2 };

// A decision of select(): the kernel and how it is to be launched.
struct Launch {
  const KernelEntry* kernel = nullptr;
  int splits = 1;         // parts that K is cut into
  bool repack_a = false;  // copy a to an aligned scratch first
  bool repack_b = false;
  int64_t workspace_bytes = 0;  // scratch operands, split-K partial sums and counters
  double predicted_us = 0;
  Chooser chooser = Chooser::kModel;
};

// What a launch function gets. It enqueues on `stream`, and neither allocates nor synchronises.
struct LaunchArgs {
  const Problem& problem;
  const Launch& launch;
  const DeviceFacts& device;
  void* workspace;  // launch.workspace_bytes, 256-byte aligned
  void* stream;     // cudaStream_t
};

// How a kernel cuts a problem up: in tiles of c that blocks go through, a tile a block, or as
// stream_shape.h says.
enum class Work { kTiles, kOnce, kStream, kShallow };

struct KernelEntry {
  const char* name;
  const char* family;  // "cublas", "ladder", "study", "sm80" or "sm90": the last two, families of
                       // production kernels, are callable by their name
  const char* what;    // one line for people
  int min_cc;          // oldest compute capability it runs on
  int max_cc;          // newest, or 0 for no limit
  int tile_m, tile_n, tile_k;
  int stages;
  int cluster_m, cluster_n;  // of the Hopper family: blocks of a cluster, below each other and side
                             // by side in c, that share operands
  bool swapped;              // rows of c are the columns of the multiplying instruction
  Work work;
  bool splits_in_cluster;  // parts of a split K are a cluster, with no scratch; else in the
                           // workspace
  int threads;
  int smem_bytes;
  int blocks_per_sm;       // that the registers allow; shared memory may allow fewer
  double main_loop_share;  // of the mma rate, that the main loop reaches on a full SM
  bool any_align;          // loads rows of any alignment (else 16-byte-aligned rows only)
  const char* layouts;     // "all", or the one it takes, named as in plan(): "nn" or "nt"
  bool batched;            // takes Batch in one launch (else ops/ launches once per batch index)
  // Null when the kernel can run the problem, else the reason why not.
  const char* (*unsupported)(const Problem&);
  // Scratch in bytes; null for kernels whose scratch is workspace_layout()'s.
  int64_t (*workspace)(const Problem&);
  // Returns a cudaError_t; null in builds without CUDA.
  int (*launch)(const LaunchArgs&);
};

using LaunchFunction = int (*)(const LaunchArgs&);

// The launch function of a kernel that is compiled for both types.
template <LaunchFunction F16, LaunchFunction BF16>
int launch_by_type(const LaunchArgs& args) {
  return args.problem.dtype == DType::kF16 ? F16(args) : BF16(args);
}

constexpr int kHopper = 90;  // compute capability
// Shared memory of an SM of it, of which 1 KB of each block is the driver's.
constexpr int kHopperSmem = 228 * 1024;

// All entries, in the order in which they are listed to people.
const std::vector<KernelEntry>& kernel_table();

// The entry of that name, or null.
const KernelEntry* find_kernel(const char* name);

}  // namespace vitamin
