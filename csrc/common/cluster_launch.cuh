// Launches of kernels in clusters of blocks.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "shared_memory.cuh"

namespace vitamin {

// Launches as many clusters of `Cluster` blocks as the device holds at once, a block an SM, or
// `wanted` if that is less. Which SMs can form clusters depends on the chip, so the runtime is
// asked, once a device.
template <auto Kernel, int Cluster, class... Args>
cudaError_t launch_clusters(int64_t wanted, int threads, int smem_bytes, cudaStream_t stream,
                            Args... args) {
  if (const cudaError_t error = allow_shared_memory<Kernel>(smem_bytes)) return error;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {Cluster, 1, 1};
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(threads);
  config.gridDim = dim3(Cluster);
  config.dynamicSmemBytes = smem_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;

  static std::atomic<int> known[64];
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  int resident = device < 64 ? known[device].load(std::memory_order_relaxed) : 0;
  if (resident == 0) {
    const cudaError_t error = cudaOccupancyMaxActiveClusters(&resident, Kernel, &config);
    if (error) return error;
    if (resident == 0) return cudaErrorLaunchOutOfResources;
    if (device < 64) known[device].store(resident, std::memory_order_relaxed);
  }
  config.gridDim = dim3(unsigned(std::min<int64_t>(wanted, resident)) * Cluster);
  return cudaLaunchKernelEx(&config, Kernel, args...);
}

// Launches `blocks` blocks in clusters of `cluster`, whether or not all are resident at once.
template <auto Kernel, class... Args>
cudaError_t launch_all_clusters(int cluster, int64_t blocks, int threads, int smem_bytes,
                                cudaStream_t stream, Args... args) {
  if (const cudaError_t error = allow_shared_memory<Kernel>(smem_bytes)) return error;
  cudaLaunchAttribute attribute;
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {unsigned(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(threads);
  config.gridDim = dim3(unsigned(blocks));
  config.dynamicSmemBytes = smem_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return cudaLaunchKernelEx(&config, Kernel, args...);
}

}  // namespace vitamin
