// hgemm on CUDA tensors: the choice of a kernel and its launch on torch's current stream.
#pragma once

#include "arguments.h"

namespace vitamin {

// Writes args->out, which it creates unless the caller passed one.
void run_cuda(Arguments* args);

}  // namespace vitamin
