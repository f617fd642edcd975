// The kernel "cublas": the baseline that the others are measured against. Fp32 to the end: cuBLAS
// may add no partial sums in 16 bits, and bias and activation see the unrounded product.
#pragma once

#include "../dispatch/kernel_table.h"

namespace vitamin {

// cuBLAS writes the result itself unless something happens between accumulator and result, or the
// result has neither stride 1.
inline bool cublas_needs_epilogue(const Problem& problem) {
  return problem.has_bias || problem.activation != Activation::kNone || problem.k == 0 ||
         problem.c.layout == Layout::kStrided;
}

inline const char* cublas_unsupported(const Problem& problem) {
  if (problem.k == 0) return nullptr;
  const Matrix& a = problem.a;
  const Matrix& b = problem.b;
  if (a.layout == Layout::kStrided) return "cuBLAS needs a stride of 1 in a";
  if (b.layout == Layout::kStrided) return "cuBLAS needs a stride of 1 in b";
  const bool a_overlaps =
      a.layout == Layout::kRow ? a.row_stride < problem.k : a.col_stride < problem.m;
  const bool b_overlaps =
      b.layout == Layout::kRow ? b.row_stride < problem.n : b.col_stride < problem.k;
  if (a_overlaps) return "cuBLAS takes no a whose rows or columns overlap or repeat";
  if (b_overlaps) return "cuBLAS takes no b whose rows or columns overlap or repeat";
  return nullptr;
}

// The unrounded products of all batches.
inline int64_t cublas_workspace_bytes(const Problem& problem) {
  if (!cublas_needs_epilogue(problem) || problem.k == 0) return 0;
  return problem.batch.count() * problem.m * problem.n * int64_t(sizeof(float));
}

int cublas_launch(const LaunchArgs& args);

// Reads the row-major products (null: zeros), writes problem.c. Returns a cudaError_t.
int cublas_epilogue(const Problem& problem, const float* products, void* stream);

}  // namespace vitamin
