// Fences between the two ways to shared memory (PTX ISA 9.7.13.6).
#pragma once

namespace vitamin::ptx {

// Makes initialised mbarriers visible to copies and to the other blocks of the cluster.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}

// Orders this thread's ordinary stores to shared memory before TMA's and WGMMA's reads of it.
__device__ __forceinline__ void fence_proxy_async() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}

}  // namespace vitamin::ptx
