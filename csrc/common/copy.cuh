// Copies of 16-byte chunks to shared memory where a matrix ends.
#pragma once

#include <cstdint>

#include "../ptx/cp_async.cuh"
#include "../ptx/shared.cuh"

namespace vitamin {

// Element by element, `stride` elements apart, and zeros after the first `count`: for alignments
// and ends of rows that cp.async can't do without reading past the last element.
__device__ __forceinline__ void copy_elements(uint32_t to, const void* from, int64_t stride,
                                              int count) {
  const auto* element = static_cast<const unsigned short*>(from);
  uint32_t word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t lo = 2 * i < count ? element[2 * i * stride] : 0;
    const uint32_t hi = 2 * i + 1 < count ? element[(2 * i + 1) * stride] : 0;
    word[i] = lo | hi << 16;
  }
  ptx::st_shared_v4(to, word[0], word[1], word[2], word[3]);
}

// A 16-byte-aligned chunk of which `count` elements, none to 8, lie inside the matrix.
__device__ __forceinline__ void copy_chunk_end(uint32_t to, const void* from, int count) {
  if (count > 0 && count < 8) {
    copy_elements(to, from, 1, count);
  } else {
    ptx::cp_async_16_fill(to, from, count == 8 ? 16 : 0);
  }
}

}  // namespace vitamin
