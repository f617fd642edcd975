// Launches of kernels in clusters of blocks.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "shared_memory.cuh"

namespace vitamin {

constexpr int kMostCluster = 8;  // blocks of a cluster on every GPU that has clusters

// How many clusters of `cluster` blocks, a block an SM, the device holds at once: which SMs can
// form clusters depends on the chip, so the runtime is asked, once a device and size.
template <auto Kernel>
cudaError_t resident_clusters(cudaLaunchConfig_t config, int cluster, int* resident) {
  static std::atomic<int> known[64][kMostCluster + 1];  // and one more, 0: not asked yet
  if (const cudaError_t error = allow_shared_memory<Kernel>(int(config.dynamicSmemBytes))) {
    return error;
  }
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  std::atomic<int>* const place = device < 64 ? &known[device][cluster] : nullptr;
  const int before = place ? place->load(std::memory_order_relaxed) : 0;
  if (before > 0) {
    *resident = before - 1;
    return cudaSuccess;
  }
  config.gridDim = dim3(cluster);
  const cudaError_t error = cudaOccupancyMaxActiveClusters(resident, Kernel, &config);
  if (error == cudaSuccess && place) place->store(*resident + 1, std::memory_order_relaxed);
  return error;
}

// A launch of blocks in clusters.
struct ClusterLaunch {
  cudaLaunchAttribute attribute;
  cudaLaunchConfig_t config{};

  ClusterLaunch(int cluster, int threads, int smem_bytes, cudaStream_t stream) {
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {unsigned(cluster), 1, 1};
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = smem_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  ClusterLaunch(const ClusterLaunch&) = delete;
};

// Launches as many clusters of `Cluster` blocks as the device holds at once, or `wanted` if that is
// less: for kernels whose blocks go through the work in turn.
template <auto Kernel, int Cluster, class... Args>
cudaError_t launch_clusters(int64_t wanted, int threads, int smem_bytes, cudaStream_t stream,
                            Args... args) {
  ClusterLaunch launch(Cluster, threads, smem_bytes, stream);
  int resident = 0;
  if (const cudaError_t error = resident_clusters<Kernel>(launch.config, Cluster, &resident)) {
    return error;
  }
  if (resident == 0) return cudaErrorLaunchOutOfResources;
  launch.config.gridDim = dim3(unsigned(std::min<int64_t>(wanted, resident)) * Cluster);
  return cudaLaunchKernelEx(&launch.config, Kernel, args...);
}

// Launches `blocks` blocks in clusters of `cluster`, whether or not all are resident at once.
template <auto Kernel, class... Args>
cudaError_t launch_all_clusters(int cluster, int64_t blocks, int threads, int smem_bytes,
                                cudaStream_t stream, Args... args) {
  ClusterLaunch launch(cluster, threads, smem_bytes, stream);
  int resident = 0;
  if (const cudaError_t error = resident_clusters<Kernel>(launch.config, cluster, &resident)) {
    return error;
  }
  if (resident == 0) return cudaErrorLaunchOutOfResources;
  launch.config.gridDim = dim3(unsigned(blocks));
  return cudaLaunchKernelEx(&launch.config, Kernel, args...);
}

}  // namespace vitamin
