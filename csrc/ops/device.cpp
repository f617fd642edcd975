#ifdef VITAMIN_WITH_CUDA

#include "device.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

namespace vitamin {
namespace {

constexpr int kMaxDevices = 256;

int attribute(cudaDeviceAttr which, int index) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, which, index), "reading the GPU's attributes");
  return value;
}

DeviceFacts read_facts(int index) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index), "reading the GPU's properties");
  DeviceFacts facts;
  std::snprintf(facts.name, sizeof(facts.name), "%.63s", properties.name);
  facts.cc = properties.major * 10 + properties.minor;
  facts.sm_count = properties.multiProcessorCount;
  facts.smem_per_block = int64_t(properties.sharedMemPerBlockOptin);
  facts.smem_per_sm = int64_t(properties.sharedMemPerMultiprocessor);
  facts.l2_bytes = properties.l2CacheSize;
  // Some virtual GPUs don't tell their rates.
  const auto rate = [&](cudaDeviceAttr which, int unknown) {
    const int value = attribute(which, index);
    return value > 0 ? value : unknown;
  };
  facts.sm_ghz = rate(cudaDevAttrClockRate, 1500000) * 1e-6;
  const double transfers = 2.0 * rate(cudaDevAttrMemoryClockRate, 1000000) * 1e3;  // a second
  facts.dram_tbs = transfers * rate(cudaDevAttrGlobalMemoryBusWidth, 4096) / 8 * 1e-12;
  return facts;
}

}  // namespace

void check_cuda(int error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // or the next launch of this thread would be blamed for it
  throw std::runtime_error(std::string("hgemm: ") + what +
                           " failed: " + cudaGetErrorString(cudaError_t(error)));
}

const DeviceFacts& device_facts(int index) {
  static std::atomic<const DeviceFacts*> known[kMaxDevices];
  static std::unique_ptr<const DeviceFacts> owned[kMaxDevices];
  static std::mutex lock;
  if (index < 0 || index >= kMaxDevices) throw std::runtime_error("hgemm: no such CUDA device");
  if (const DeviceFacts* facts = known[index].load(std::memory_order_acquire)) return *facts;
  const std::lock_guard<std::mutex> guard(lock);
  if (owned[index] == nullptr) {
    owned[index] = std::make_unique<const DeviceFacts>(read_facts(index));
    known[index].store(owned[index].get(), std::memory_order_release);
  }
  return *owned[index];
}

CurrentDevice::CurrentDevice(int index) : index_(index) {
  check_cuda(cudaGetDevice(&previous_), "reading the current GPU");
  // Also where it is the current one: a new thread has no context before, and tensor maps need one.
  check_cuda(cudaSetDevice(index_), "making the tensors' GPU current");
}

CurrentDevice::~CurrentDevice() {
  if (previous_ != index_) cudaSetDevice(previous_);
}

}  // namespace vitamin

#endif
