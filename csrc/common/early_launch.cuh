// Launches of kernels that may start before the one before them on the stream has ended.
#pragma once

#include <cuda_runtime.h>

#include "../dispatch/kernel_table.h"

namespace vitamin {

// Whether the device runs code in which kernels wait: what older code, compiled again by the
// driver, is without.
inline bool starts_early(const DeviceFacts& device) {
#ifdef VITAMIN_NO_SM90A
  return false;
#else
  return device.cc == kHopper;
#endif
}

// For kernels that call ptx::wait_for_kernels_before() only.
inline cudaLaunchAttribute early_start() {
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  return attribute;
}

// Launches such a kernel; `early`: starts_early().
template <auto Kernel, class... Args>
cudaError_t launch_early(bool early, unsigned blocks, int threads, int smem_bytes,
                         cudaStream_t stream, Args... args) {
  cudaLaunchAttribute attribute = early_start();
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = smem_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelEx(&config, Kernel, args...);
}

}  // namespace vitamin
