// What comes before the kernel: operands copied to aligned scratch, split-K counters set to zero.
#pragma once

#include <cuda_runtime_api.h>

#include "gemm_params.h"
#include "repack.h"

namespace vitamin {

// A problem as the kernel is to read it, and where its split-K parts go.
struct Prepared {
  Problem problem;
  unsigned* arrived = nullptr;  // a counter a tile, zero
  float* partial = nullptr;
};

// Enqueues the copies that the launch asks for. Returns a cudaError_t.
inline int prepare(const LaunchArgs& args, Prepared* to) {
  const KernelEntry& kernel = *args.launch.kernel;
  auto* const workspace = static_cast<unsigned char*>(args.workspace);
  const WorkspaceLayout layout =
      workspace_layout(args.problem, args.launch, kernel.tile_m, kernel.tile_n);
  to->problem = args.problem;
  if (args.launch.repack_a || args.launch.repack_b) {
    const Scratch scratch{args.launch.repack_a ? workspace + layout.a_at : nullptr,
                          args.launch.repack_b ? workspace + layout.b_at : nullptr};
    if (const int error = repack(&to->problem, scratch, args.device, args.stream)) return error;
  }
  if (layout.counter_bytes > 0) {
    to->arrived = reinterpret_cast<unsigned*>(workspace);
    to->partial = reinterpret_cast<float*>(workspace + layout.partial_at);
    return cudaMemsetAsync(to->arrived, 0, layout.counter_bytes,
                           static_cast<cudaStream_t>(args.stream));
  }
  return cudaSuccess;
}

}  // namespace vitamin
