// What the library asks the CUDA runtime about GPUs. Only in builds with CUDA.
#pragma once

#include "../dispatch/problem.h"

namespace vitamin {

// Facts of GPU number `index`, read once a process. Throws std::runtime_error if CUDA refuses.
const DeviceFacts& device_facts(int index);

// Throws std::runtime_error "hgemm: <what> failed: <CUDA's text>" unless `error` is success.
void check_cuda(int error, const char* what);

// Makes a GPU current for the calling thread, and the previous one again at the end.
class CurrentDevice {
 public:
  explicit CurrentDevice(int index);
  ~CurrentDevice();
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  int index_;
  int previous_ = 0;
};

}  // namespace vitamin
