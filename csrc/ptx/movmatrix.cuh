// movmatrix: transposes 8x8 matrices of 16-bit elements in the registers of a warp (PTX ISA
// 9.7.14.5.17). Lane 4r + c has the elements of row r in columns 2c and 2c + 1.
#pragma once

#include <cstdint>

namespace vitamin::ptx {

__device__ __forceinline__ uint32_t movmatrix_trans(uint32_t x) {
  uint32_t y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(y) : "r"(x));
  return y;
}

}  // namespace vitamin::ptx
