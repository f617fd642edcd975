// The choice of a kernel: a function of the problem, the device, what was asked for, and the
// overrides.
#pragma once

#include <string>
#include <vector>

#include "kernel_table.h"

namespace vitamin {

struct Candidate {
  Launch launch;
  double tensor_us = 0;    // time of the tensor cores at this tile's measured rate, waves included
  double memory_us = 0;    // time of the device memory
  double overhead_us = 0;  // launch, prologue, epilogue, split-K and repack
};

// True for "auto" or the name of a family or kernel.
bool is_kernel_name(const char* name);

// "auto, cublas, sm80_naive, ...": for error messages.
std::string kernel_names();

// Picks for kernel = "auto", a family's or a kernel's name. "auto" takes an override if it is one
// of the candidates. On success launch->kernel is set and the result is empty; else the result is
// the reason why this problem or device can't have it.
std::string select(const Problem& problem, const DeviceFacts& device, const char* kernel,
                   Launch* launch);

// All candidates that could run the problem, cheapest first by the model: what plan() prints.
std::vector<Candidate> candidates(const Problem& problem, const DeviceFacts& device,
                                  const char* kernel);

}  // namespace vitamin
