// Launches of kernels in clusters of blocks.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "early_launch.cuh"
#include "shared_memory.cuh"

namespace vitamin {

constexpr int kMostCluster = 8;  // blocks of a cluster on every GPU that has clusters

// How many clusters of `cluster` blocks, a block an SM, the device holds at once: which SMs can
// form clusters depends on the chip, so the runtime is asked, once a device and size.
template <auto Kernel>
cudaError_t resident_clusters(cudaLaunchConfig_t config, int cluster, int* resident) {
  static std::atomic<int> known[64][kMostCluster + 1];  // and one more, 0: not asked yet
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  std::atomic<int>* const place = device < 64 ? &known[device][cluster] : nullptr;
  const int before = place ? place->load(std::memory_order_relaxed) : 0;
  if (before > 0) {
    *resident = before - 1;
    return cudaSuccess;
  }
  // Whoever is answered may launch.
  if (const cudaError_t error = allow_shared_memory<Kernel>(int(config.dynamicSmemBytes))) {
    return error;
  }
  config.gridDim = dim3(cluster);
  const cudaError_t error = cudaOccupancyMaxActiveClusters(resident, Kernel, &config);
  if (error == cudaSuccess && place) place->store(*resident + 1, std::memory_order_relaxed);
  return error;
}

// Which clusters of a launch there are: all that are wanted, or no more than are resident at once,
// for kernels whose blocks go through the work in turn.
enum class Clusters { kAll, kResident };

// Whether a kernel waits for the end of the kernel before it by itself (early_launch.cuh).
enum class Start { kInTurn, kEarly };

// Launches `wanted` clusters of `cluster` blocks, or fewer.
template <auto Kernel, class... Args>
cudaError_t launch_clusters(Clusters which, int64_t wanted, int cluster, int threads,
                            int smem_bytes, cudaStream_t stream, Start start, Args... args) {
  cudaLaunchAttribute attributes[2] = {{}, early_start()};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {unsigned(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = smem_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 1;
  int resident = 0;
  if (const cudaError_t error = resident_clusters<Kernel>(config, cluster, &resident)) return error;
  if (resident == 0) return cudaErrorLaunchOutOfResources;
  const int64_t clusters =
      which == Clusters::kResident ? std::min<int64_t>(wanted, resident) : wanted;
  config.gridDim = dim3(unsigned(clusters) * cluster);
  config.numAttrs = start == Start::kEarly ? 2 : 1;
  return cudaLaunchKernelEx(&config, Kernel, args...);
}

}  // namespace vitamin
