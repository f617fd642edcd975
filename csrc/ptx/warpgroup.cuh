// What warps and warpgroups do as a whole: registers, named barriers, election.
#pragma once

#include <cstdint>

namespace vitamin::ptx {

// setmaxnreg (PTX ISA 9.7.19.5): by all warps of a warpgroup.
template <int Registers>
__device__ __forceinline__ void release_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(Registers));
}

// threadIdx.x, read here and now: what follows from it is not kept in registers from before.
__device__ __forceinline__ int thread_now() {
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;\n" : "=r"(thread));
  return thread;
}

// A barrier for `threads` threads of the block. Barrier 0 is that of __syncthreads.
__device__ __forceinline__ void named_barrier(int barrier, int threads) {
  asm volatile("barrier.cta.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

}  // namespace vitamin::ptx
