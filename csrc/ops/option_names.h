// The names that callers choose activations and kernels by, and numbers for them. The internal ops
// take numbers: torch keeps a few bytes of every string that its C interface hands on.
#pragma once

#include <cstdint>

#include "../dispatch/problem.h"

namespace vitamin {

// Throw std::runtime_error with the list of names for a name that isn't one.
Activation parse_activation(const char* name);
int64_t kernel_number(const char* name);

// The name of that number, or "?".
const char* activation_name(int64_t number);
const char* kernel_name(int64_t number);

}  // namespace vitamin

// "auto, cublas, ...": the kernels' names in the order of their numbers, for Python's ctypes.
extern "C" __attribute__((visibility("default"))) const char* vitamin_kernel_names();
