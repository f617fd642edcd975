// A warpgroup's accumulators to global memory through shared memory: stmatrix, then TMA.
#pragma once

#include <cstdint>

#include "../ptx/fence.cuh"
#include "../ptx/stmatrix.cuh"
#include "../ptx/tma.cuh"
#include "../ptx/warpgroup.cuh"
#include "wgmma_store.cuh"

namespace vitamin {

// The boxes in which c is written: 64 rows of 64 columns, 128 bytes, swizzled like the operands.
constexpr int kStoreRows = 64, kStoreColumns = 64;
constexpr int kStoreBytes = kStoreRows * kStoreColumns * 2;

// Registers of a box: 2 columns each.
constexpr int kBoxRegisters = kStoreColumns / 4;

// Rounds accumulators to T, neighbouring columns together.
template <class T, int Count>
__device__ __forceinline__ void pack(const float (&acc)[Count], uint32_t (&packed)[Count / 2]) {
#pragma unroll
  for (int i = 0; i < Count / 2; ++i) packed[i] = pack2<T>(acc[2 * i], acc[2 * i + 1]);
}

// Puts a box together, or `Pairs` pairs of its 16-byte chunks from `first` on: chunk c of row r
// lies at chunk c ^ (r % 8) of its 128 bytes. `thread`: threadIdx.x, or thread_now() where no
// registers are left for what follows from it.
template <int Pairs = kStoreColumns / 16>
__device__ __forceinline__ void fill_box(const uint32_t* packed, uint32_t buffer, auto thread,
                                         int first = 0) {
  const int lane = thread % 32, warp = thread % kWarpgroup / 32;
  const int row = warp * 16 + lane % 16;
#pragma unroll
  for (int pair = 0; pair < Pairs; ++pair) {
    const uint32_t* const v = packed + pair * 4;
    const int chunk = ((first + pair) * 2 + lane / 16) ^ (row % 8);
    ptx::stmatrix_x4(buffer + row * 128 + chunk * 16, v[0], v[1], v[2], v[3]);
  }
}

// Where a warpgroup's boxes go. `staging`: its own buffers in shared memory, used in turn.
// `barrier`: a named barrier of its own. `leader`: true in one of its threads, always the same.
struct StoreTarget {
  const CUtensorMap* map;
  uint32_t staging;
  int barrier;
  bool leader;
  int next = 0;  // the buffer to fill next
};

// The place of a tile in c. `index`: the matrix of a stack, for maps of stacks.
struct StorePlace {
  int m, n;
  int index = -1;
};

// Writes box number `Box` of a warpgroup's tile through one of `Buffers` buffers: while
// TMA reads one, the next is filled. Returns before the box has been read: the next call for the
// buffer waits for it, and so must who leaves the kernel.
template <int Buffers, int Box>
__device__ __forceinline__ void store_box(const uint32_t* packed, StoreTarget& to, StorePlace at) {
  const uint32_t buffer = to.staging + to.next * kStoreBytes;
  to.next = to.next + 1 == Buffers ? 0 : to.next + 1;
  if (to.leader) ptx::tma_store_wait_read<Buffers - 1>();
  ptx::named_barrier(to.barrier, kWarpgroup);
  fill_box(packed + Box * kBoxRegisters, buffer, threadIdx.x);
  ptx::fence_proxy_async();
  ptx::named_barrier(to.barrier, kWarpgroup);
  if (to.leader) {
    const int n = at.n + Box * kStoreColumns;
    if (at.index < 0) {
      ptx::tma_store(*to.map, buffer, n, at.m);
    } else {
      ptx::tma_store(*to.map, buffer, n, at.m, at.index);
    }
    ptx::tma_store_commit();
  }
}

// All boxes of a tile, one after the other.
template <int Buffers, int Count, int Box = 0>
__device__ __forceinline__ void store_boxes(const uint32_t (&packed)[Count], StoreTarget& to,
                                            StorePlace at) {
  if constexpr (Box < Count / kBoxRegisters) {
    store_box<Buffers, Box>(packed, to, at);
    store_boxes<Buffers, Count, Box + 1>(packed, to, at);
  }
}

}  // namespace vitamin
