#ifdef VITAMIN_WITH_CUDA

#include "cublas.h"

#include <torch/csrc/stable/c/shim.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "api.h"

#pragma weak torch_get_current_cuda_blas_handle

namespace vitamin {
namespace {

using cublas::Api;
using cublas::DataType;
using cublas::Handle;
using cublas::Operation;

void check(int status, const char* what) {
  if (status == 0) return;
  throw std::runtime_error(std::string("hgemm: kernel 'cublas': ") + what +
                           " failed: " + cublas::api().status_string(status));
}

// torch's handle of this thread and device: its stream and workspace are torch's current ones.
Handle current_handle() {
  Handle handle = nullptr;
  if (torch_get_current_cuda_blas_handle == nullptr ||
      torch_get_current_cuda_blas_handle(&handle) != AOTI_TORCH_SUCCESS) {
    throw std::runtime_error("hgemm: kernel 'cublas': torch gives no cuBLAS handle");
  }
  return handle;
}

// Partial sums stay in fp32 while it lives.
class FullPrecision {
 public:
  FullPrecision(const Api& api, Handle handle) : api_(api), handle_(handle) {
    check(api_.get_math_mode(handle_, &previous_), "cublasGetMathMode");
    check(api_.set_math_mode(handle_, cublas::kDisallowReducedPrecisionReduction),
          "cublasSetMathMode");
  }
  ~FullPrecision() { api_.set_math_mode(handle_, previous_); }
  FullPrecision(const FullPrecision&) = delete;
  FullPrecision& operator=(const FullPrecision&) = delete;

 private:
  const Api& api_;
  Handle handle_;
  int previous_ = 0;
};

// A factor as cuBLAS, which thinks in columns, is told of it.
struct Factor {
  const char* data;
  Operation operation;
  int64_t ld;
  const int64_t* batch_stride;
};

Factor factor(const Matrix& matrix, const int64_t* batch_stride, bool transposed_result) {
  const bool by_rows = matrix.layout == Layout::kRow;
  return {static_cast<const char*>(matrix.data),
          by_rows == transposed_result ? cublas::kNoTranspose : cublas::kTranspose,
          by_rows ? matrix.row_stride : matrix.col_stride, batch_stride};
}

// Where the products go: the result itself or the workspace.
struct Target {
  char* data;
  DataType type;
  int64_t itemsize;
  bool by_rows;
  int64_t ld;
  int64_t batch_stride[kMaxBatchDims];
};

Target choose_target(const LaunchArgs& args) {
  const Problem& p = args.problem;
  Target target{};
  if (cublas_needs_epilogue(p)) {
    target = {static_cast<char*>(args.workspace), cublas::kFloat32, 4, true, p.n, {}};
    int64_t stride = p.m * p.n;
    for (int i = p.batch.dims - 1; i >= 0; --i) {
      target.batch_stride[i] = stride;
      stride *= p.batch.size[i];
    }
    return target;
  }
  target.data = static_cast<char*>(const_cast<void*>(p.c.data));
  target.type = p.out_f32 ? cublas::kFloat32
                          : (p.dtype == DType::kF16 ? cublas::kFloat16 : cublas::kBFloat16);
  target.itemsize = p.out_f32 ? 4 : 2;
  target.by_rows = p.c.layout == Layout::kRow;
  target.ld = target.by_rows ? p.c.row_stride : p.c.col_stride;
  for (int i = 0; i < p.batch.dims; ++i) target.batch_stride[i] = p.batch.c[i];
  return target;
}

// One call takes the innermost batch dimension; the host loops over the others.
void multiply(const Problem& p, const Target& target) {
  Factor left = factor(p.a, p.batch.a, target.by_rows);
  Factor right = factor(p.b, p.batch.b, target.by_rows);
  int64_t rows = p.m;
  int64_t cols = p.n;
  if (target.by_rows) {  // the transpose of the result, by columns, is the result by rows
    std::swap(left, right);
    std::swap(rows, cols);
  }
  const DataType type = p.dtype == DType::kF16 ? cublas::kFloat16 : cublas::kBFloat16;
  const int last = p.batch.dims - 1;
  const int64_t in_call = last < 0 ? 1 : p.batch.size[last];
  const float one = 1.0f;
  const float zero = 0.0f;
  const Api& api = cublas::api();
  const Handle handle = current_handle();
  const FullPrecision full_precision(api, handle);
  const int64_t calls = p.batch.count() / in_call;
  for (int64_t call = 0; call < calls; ++call) {
    int64_t left_at = 0;
    int64_t right_at = 0;
    int64_t target_at = 0;
    int64_t rest = call;
    for (int i = last - 1; i >= 0; --i) {
      const int64_t position = rest % p.batch.size[i];
      rest /= p.batch.size[i];
      left_at += position * left.batch_stride[i];
      right_at += position * right.batch_stride[i];
      target_at += position * target.batch_stride[i];
    }
    check(
        api.gemm(handle, left.operation, right.operation, rows, cols, p.k, &one,
                 left.data + left_at * 2, type, left.ld, last < 0 ? 0 : left.batch_stride[last],
                 right.data + right_at * 2, type, right.ld, last < 0 ? 0 : right.batch_stride[last],
                 &zero, target.data + target_at * target.itemsize, target.type, target.ld,
                 last < 0 ? 0 : target.batch_stride[last], in_call, cublas::kCompute32F,
                 cublas::kDefaultAlgorithm),
        "cublasGemmStridedBatchedEx");
  }
}

}  // namespace

int cublas_launch(const LaunchArgs& args) {
  const Problem& p = args.problem;
  if (p.k == 0) return cublas_epilogue(p, nullptr, args.stream);
  multiply(p, choose_target(args));
  if (!cublas_needs_epilogue(p)) return 0;
  return cublas_epilogue(p, static_cast<const float*>(args.workspace), args.stream);
}

}  // namespace vitamin

#endif
