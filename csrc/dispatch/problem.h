// One matrix product as plain numbers: what select() and the kernels see of a call.
#pragma once

#include <cstdint>

namespace vitamin {

enum class DType : int { kF16 = 0, kBF16 = 1 };

enum class Activation : int { kNone = 0, kRelu = 1, kGelu = 2, kGeluTanh = 3, kSilu = 4 };

// Which index of a matrix is contiguous. kStrided: neither stride is 1.
enum class Layout : int { kRow = 0, kCol = 1, kStrided = 2 };

// A matrix in device memory. Strides count elements and are never negative.
struct Matrix {
  const void* data = nullptr;
  int64_t row_stride = 0;
  int64_t col_stride = 1;
  Layout layout = Layout::kRow;
  // Largest power of two up to 16 that divides, in bytes, the base address, the stride of the
  // non-contiguous index and every batch stride. Indices of extent 1 don't count.
  int align = 16;

  // Whether it is rows or columns that all begin at multiples of 16 bytes.
  bool aligned() const { return layout != Layout::kStrided && align == 16; }

  // Bytes from one of them to the next.
  int64_t pitch() const { return 2 * (layout == Layout::kCol ? col_stride : row_stride); }

  // Whether they all begin at multiples of the L2's sectors.
  bool whole_sectors() const { return aligned() && pitch() % 32 == 0; }

  // Whether TMA reads each 128 bytes of them with one request to the L2.
  bool straight() const { return aligned() && pitch() % 64 == 0; }
};

// Batch dimensions after collapsing: outermost first, strides in elements, 0 where broadcast.
constexpr int kMaxBatchDims = 4;
struct Batch {
  int dims = 0;
  int64_t size[kMaxBatchDims] = {1, 1, 1, 1};
  int64_t a[kMaxBatchDims] = {0, 0, 0, 0};
  int64_t b[kMaxBatchDims] = {0, 0, 0, 0};
  int64_t c[kMaxBatchDims] = {0, 0, 0, 0};

  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < dims; ++i) n *= size[i];
    return n;
  }

  // Different matrices of the operand with these strides.
  int64_t stored(const int64_t* strides) const {
    int64_t n = 1;
    for (int i = 0; i < dims; ++i) n *= strides[i] ? size[i] : 1;
    return n;
  }
};

// c[m, n] = activation(a[m, k] · b[k, n] + bias[n]), accumulated in fp32 and rounded once.
struct Problem {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kBF16;
  bool out_f32 = false;  // c is float32 instead of dtype
  Matrix a;
  Matrix b;
  Matrix c;                    // data is written
  const void* bias = nullptr;  // dtype, bias_stride elements apart; null for none
  int64_t bias_stride = 1;
  bool has_bias = false;  // set also when planning without pointers
  Activation activation = Activation::kNone;
  Batch batch;

  // Whether c is 16-bit rows of contiguous elements: what can leave through shared memory.
  bool rows_of_16_bits() const { return c.layout == Layout::kRow && !out_f32; }

  // Whether TMA can write c. It writes a row to the end of its last 16 bytes.
  bool c_by_tma() const { return rows_of_16_bits() && c.align == 16 && n % 8 == 0; }

  double flops() const { return 2.0 * double(m) * double(n) * double(k) * double(batch.count()); }
};

// What select() needs to know of a GPU. Rates are peaks, from the CUDA runtime or a preset.
struct DeviceFacts {
  char name[64] = "";
  int cc = 0;  // compute capability, major * 10 + minor
  int sm_count = 0;
  int64_t smem_per_block = 0;  // opt-in limit in bytes
  int64_t smem_per_sm = 0;     // bytes
  int64_t l2_bytes = 0;
  double sm_ghz = 0;    // boost clock
  double dram_tbs = 0;  // peak memory bandwidth, TB/s
};

}  // namespace vitamin
