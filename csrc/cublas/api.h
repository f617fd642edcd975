// The few functions and constants of cuBLAS that the baseline calls, looked up in the library that
// torch has loaded: the build needs neither cuBLAS nor its headers.
#pragma once

#include <cstdint>

namespace vitamin::cublas {

using Handle = void*;  // cublasHandle_t

// Values of cuBLAS's and CUDA's enums, fixed by their binary interface.
enum Operation : int { kNoTranspose = 0, kTranspose = 1 };
enum DataType : int { kFloat32 = 0, kFloat16 = 2, kBFloat16 = 14 };
enum ComputeType : int { kCompute32F = 68 };
enum Algorithm : int { kDefaultAlgorithm = -1 };
enum MathMode : int { kDisallowReducedPrecisionReduction = 16 };

struct Api {
  // cublasGemmStridedBatchedEx_64
  int (*gemm)(Handle, Operation, Operation, int64_t m, int64_t n, int64_t k, const void* alpha,
              const void* a, DataType, int64_t lda, int64_t stride_a, const void* b, DataType,
              int64_t ldb, int64_t stride_b, const void* beta, void* c, DataType, int64_t ldc,
              int64_t stride_c, int64_t batch, ComputeType, Algorithm);
  int (*get_math_mode)(Handle, int*);
  int (*set_math_mode)(Handle, int);
  const char* (*status_string)(int);
};

// Throws std::runtime_error where the process has no cuBLAS.
const Api& api();

}  // namespace vitamin::cublas
