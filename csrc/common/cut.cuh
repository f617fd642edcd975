// 16-byte pieces of what begins anywhere.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace vitamin {

// How many elements `at` lies behind a multiple of 16 bytes.
__device__ __forceinline__ int behind_piece(const void* at) {
  return int(reinterpret_cast<uintptr_t>(at) >> 1 & 7);
}

// 8 elements of two neighbouring 16-byte chunks, from element `first` (0 to 7) of the first one on.
__device__ __forceinline__ uint4 cut(uint4 low, uint4 high, int first) {
  const bool two = first & 4, one = first & 2;
  const uint32_t a = two ? low.z : low.x, b = two ? low.w : low.y, c = two ? high.x : low.z,
                 d = two ? high.y : low.w, e = two ? high.z : high.x, f = two ? high.w : high.y;
  const uint32_t u = one ? b : a, v = one ? c : b, w = one ? d : c, x = one ? e : d,
                 y = one ? f : e;
  const int bits = (first & 1) * 16;
  return make_uint4(__funnelshift_r(u, v, bits), __funnelshift_r(v, w, bits),
                    __funnelshift_r(w, x, bits), __funnelshift_r(x, y, bits));
}

}  // namespace vitamin
