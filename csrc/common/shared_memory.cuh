// More dynamic shared memory than the 48 KB that a kernel may use unasked.
#pragma once

#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>

namespace vitamin {

// Allows the kernel `bytes` of it, once a device.
template <auto Kernel>
cudaError_t allow_shared_memory(int bytes) {
  static std::atomic<uint64_t> allowed{0};
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  const uint64_t bit = device < 64 ? uint64_t(1) << device : 0;
  if (allowed.load(std::memory_order_relaxed) & bit) return cudaSuccess;
  const cudaError_t error =
      cudaFuncSetAttribute(Kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error == cudaSuccess) allowed.fetch_or(bit, std::memory_order_relaxed);
  return error;
}

}  // namespace vitamin
