// What the parts of the kernel table share.
#pragma once

#include <vector>

#include "kernel_table.h"

// A launch function, which only builds with CUDA have.
#ifdef VITAMIN_WITH_CUDA
#define VITAMIN_LAUNCH(function) function
#else
#define VITAMIN_LAUNCH(function) nullptr
#endif

// The launch function of a production tile of a family.
#define VITAMIN_TILE(family, suffix) \
  VITAMIN_LAUNCH((launch_by_type<family::launch_##suffix##_f16, family::launch_##suffix##_bf16>))

namespace vitamin {

// Null, or why the rows of a or b are not 16-byte aligned.
const char* unaligned(const Problem& p);

// Null, or why kernels of sm_90a code can't have TMA read a and b: not built, or too large.
const char* no_tma(const Problem& p);

// The production kernels of the Hopper path.
std::vector<KernelEntry> hopper_tiles();

// The steps of the Hopper ladder, and the variants of them that the studies compare.
std::vector<KernelEntry> hopper_ladder();

}  // namespace vitamin
