// Programmatic dependent launch: kernels of one stream that overlap (PTX ISA 9.7.13.14). What a
// kernel does before it waits runs beside the end of the kernel before it; launched without the
// attribute for it, a kernel finds nothing to wait for.
#pragma once

namespace vitamin::ptx {

// The next kernel of the stream may start once all blocks of this one have said so or ended.
__device__ __forceinline__ void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n");
#endif
}

// Returns when the kernels before this one have ended and all that they wrote can be read. No
// thread may touch what they read or write, but to prefetch it, before.
__device__ __forceinline__ void wait_for_kernels_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}

}  // namespace vitamin::ptx
