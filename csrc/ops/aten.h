// hgemm through torch's own operators: CPU tensors, and GPUs older than this package's kernels.
#pragma once

#include "arguments.h"

namespace vitamin {

// Writes args->out, which ensure_out has set. Operands are widened to float32 first, so products,
// bias and activation are float32 and the store into out is the only rounding.
void run_aten(const Arguments& args);

}  // namespace vitamin
