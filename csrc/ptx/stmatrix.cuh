// stmatrix: four 8x8 matrices of 16-bit elements from registers to shared memory (PTX ISA
// 9.7.14.5.16). Lane 8i + r gives the address of row r of matrix i; each row is 16 bytes.
#pragma once

#include <cstdint>

namespace vitamin::ptx {

__device__ __forceinline__ void stmatrix_x4(uint32_t addr, uint32_t r0, uint32_t r1, uint32_t r2,
                                            uint32_t r3) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(addr),
               "r"(r0), "r"(r1), "r"(r2), "r"(r3)
               : "memory");
}

}  // namespace vitamin::ptx
