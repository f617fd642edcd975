// Copies an operand whose rows are badly aligned to an aligned scratch.
#pragma once

#include "../dispatch/workspace.h"

namespace vitamin {

// Enqueues the copy of one operand to `scratch` (repacked().bytes, 16-byte aligned) and makes the
// problem read it there. `stream` is a cudaStream_t, the result a cudaError_t.
int repack(Problem* problem, Operand operand, void* scratch, void* stream);

}  // namespace vitamin
