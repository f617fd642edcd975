// Problems and a device for checks of csrc/dispatch.
#pragma once

#include <cstring>

#include "dispatch/problem.h"

namespace vitamin {

inline DeviceFacts h200(const char* name = "NVIDIA H200") {
  DeviceFacts device;
  std::strcpy(device.name, name);
  device.cc = 90;
  device.sm_count = 132;
  device.smem_per_block = 227 << 10;
  device.smem_per_sm = 228 << 10;
  device.l2_bytes = 60 << 20;
  device.sm_ghz = 1.98;
  device.dram_tbs = 4.8;
  return device;
}

// Row-major a and c, b stored [N, K], all aligned.
inline Problem product(int64_t m, int64_t n, int64_t k) {
  Problem p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.a.row_stride = k;
  p.b.row_stride = 1;
  p.b.col_stride = k;
  p.b.layout = Layout::kCol;
  p.c.row_stride = n;
  return p;
}

}  // namespace vitamin
