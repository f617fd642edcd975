// Copies operands whose rows are badly aligned to an aligned scratch.
#pragma once

#include "../dispatch/workspace.h"

namespace vitamin {

// Where the copies go (repacked().bytes each, 16-byte aligned); null for an operand that stays.
struct Scratch {
  void *a, *b;
};

// Enqueues the copies, all in one kernel, and makes the problem read them. `stream` is a
// cudaStream_t, the result a cudaError_t.
int repack(Problem* problem, const Scratch& scratch, const DeviceFacts& device, void* stream);

}  // namespace vitamin
