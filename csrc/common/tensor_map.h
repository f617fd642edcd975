// Tensor maps: what TMA needs to know of a matrix of 16-bit elements in device memory.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "wgmma_descriptor.h"

namespace vitamin {

enum class L2Promotion : int { kNone = 0, k64 = 1, k128 = 2, k256 = 3 };

// A matrix or a stack of matrices, and the box of it that one copy moves. `inner` is the contiguous
// index. Base and row stride are multiples of 16 bytes.
struct TensorMapSpec {
  const void* base;
  int64_t inner, outer;  // extents, at least 1
  int64_t stride;        // elements from one row of `inner` to the next
  int box_inner, box_outer;
  Swizzle swizzle = Swizzle::k128;
  L2Promotion promotion = L2Promotion::k256;
  int64_t stack = 0;  // matrices of a stack; 0: one matrix, whose copies take two coordinates
  int64_t stack_stride = 0;  // elements from one matrix to the next
};

// Returns a cudaError_t: an error also where the driver has no tensor maps.
int encode_tensor_map(const TensorMapSpec& spec, CUtensorMap* map);

}  // namespace vitamin
