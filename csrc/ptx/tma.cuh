// TMA: copies of boxes of a matrix between global and shared memory, by a tensor map (PTX ISA
// 9.7.9.27). Coordinates count elements, the contiguous index first; what lies outside of the
// matrix is read as zero and not written. One thread issues a copy.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace vitamin::ptx {

__device__ __forceinline__ void prefetch_tensor_map(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

// To this block's shared memory; its bytes count towards the phase of `barrier`.
__device__ __forceinline__ void tma_load(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                         int inner, int outer) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4}], [%2];\n" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer)
      : "memory");
}

// The same to every block of the cluster whose bit is set, at the same address in each, where it
// counts towards that block's own barrier.
__device__ __forceinline__ void tma_load_multicast(uint32_t to, const CUtensorMap& map,
                                                   uint32_t barrier, int inner, int outer,
                                                   uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;\n" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer), "h"(blocks)
      : "memory");
}

// The same with the map of a stack of matrices, `index` the one to read.
__device__ __forceinline__ void tma_load(uint32_t to, const CUtensorMap& map, uint32_t barrier,
                                         int inner, int outer, int index) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5}], [%2];\n" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer), "r"(index)
      : "memory");
}

__device__ __forceinline__ void tma_load_multicast(uint32_t to, const CUtensorMap& map,
                                                   uint32_t barrier, int inner, int outer,
                                                   int index, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;\n" ::"r"(to),
      "l"(&map), "r"(barrier), "r"(inner), "r"(outer), "r"(index), "h"(blocks)
      : "memory");
}

// From shared memory; belongs to this thread's next group.
__device__ __forceinline__ void tma_store(const CUtensorMap& map, uint32_t from, int inner,
                                          int outer) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];\n" ::"l"(&map),
      "r"(from), "r"(inner), "r"(outer)
      : "memory");
}

__device__ __forceinline__ void tma_store(const CUtensorMap& map, uint32_t from, int inner,
                                          int outer, int index) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];\n" ::"l"(
          &map),
      "r"(from), "r"(inner), "r"(outer), "r"(index)
      : "memory");
}

__device__ __forceinline__ void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;\n" ::: "memory");
}

// Returns when at most `Pending` of this thread's groups have not yet read their shared memory.
template <int Pending>
__device__ __forceinline__ void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(Pending) : "memory");
}

}  // namespace vitamin::ptx
