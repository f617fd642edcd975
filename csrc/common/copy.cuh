// Copies of 16-byte chunks to shared memory where a matrix ends.
#pragma once

#include <cstdint>

#include "../ptx/cp_async.cuh"
#include "../ptx/shared.cuh"

namespace vitamin {

__device__ __forceinline__ uint32_t pair(uint32_t lo, uint32_t hi) { return lo | hi << 16; }

// 8 neighbours. At an odd element the words in between are still aligned.
__device__ __forceinline__ uint4 gather_all(const unsigned short* from) {
  if (reinterpret_cast<uintptr_t>(from) % 4 == 0) {
    const auto* word = reinterpret_cast<const uint32_t*>(from);
    return make_uint4(word[0], word[1], word[2], word[3]);
  }
  const auto* word = reinterpret_cast<const uint32_t*>(from + 1);
  const uint32_t x = word[0], y = word[1], z = word[2];
  return make_uint4(pair(from[0], x & 0xffff), __funnelshift_r(x, y, 16), __funnelshift_r(y, z, 16),
                    pair(z >> 16, from[7]));
}

// `count` elements, none to 8, `stride` elements apart, and zeros: for alignments and ends of rows
// that no wider load can do without reading past the last element.
__device__ __forceinline__ uint4 gather(const void* source, int64_t stride, int count) {
  if (count == 0) return make_uint4(0, 0, 0, 0);
  const auto* from = static_cast<const unsigned short*>(source);
  if (count == 8 && stride == 1) return gather_all(from);
  uint32_t word[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t lo = 2 * i < count ? from[2 * i * stride] : 0;
    const uint32_t hi = 2 * i + 1 < count ? from[(2 * i + 1) * stride] : 0;
    word[i] = pair(lo, hi);
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

// The same to shared memory.
__device__ __forceinline__ void copy_elements(uint32_t to, const void* from, int64_t stride,
                                              int count) {
  const uint4 chunk = gather(from, stride, count);
  ptx::st_shared_v4(to, chunk.x, chunk.y, chunk.z, chunk.w);
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
