// A ring of stages in shared memory that one side fills and the other empties.
//
// Each stage has two mbarriers: `full` ends a phase when its data has come in, `empty` when all
// readers have let go of it. Whoever waits keeps a place in the ring: fillers wait for `empty` with
// the parity before the place's (a fresh barrier passes that), readers for `full` with the place's.
#pragma once

#include <cstdint>

namespace vitamin {

template <int Stages>
struct RingPlace {
  int stage = 0;
  uint32_t parity = 0;

  __device__ __forceinline__ void advance() {
    if (++stage == Stages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

// The barriers of stage s lie 8 bytes apart from `at` on: `full` of all stages, then `empty`.
template <int Stages>
struct RingBarriers {
  static constexpr int kBytes = Stages * 16;
  uint32_t at;

  __device__ __forceinline__ uint32_t full(int stage) const { return at + stage * 8; }
  __device__ __forceinline__ uint32_t empty(int stage) const { return at + (Stages + stage) * 8; }
};

}  // namespace vitamin
