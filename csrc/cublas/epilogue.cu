// Bias, activation, rounding and any strides of the result, after cuBLAS has left its products in
// fp32. One element a thread: this serves the baseline where cuBLAS has no such epilogue itself.
#include <cuda_runtime.h>

#include <algorithm>

#include "../common/dtype.cuh"
#include "../common/epilogue.cuh"
#include "../common/gemm_params.h"
#include "cublas.h"

namespace vitamin {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 1 << 16;

template <class T, class Out>
__global__ void epilogue_kernel(Problem p, int64_t total, const float* products) {
  const int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < total; i += step) {
    const int64_t row_of_all = i / p.n;
    const int64_t col = i - row_of_all * p.n;
    const int64_t batch = row_of_all / p.m;
    const int64_t row = row_of_all - batch * p.m;
    float value = products == nullptr ? 0.0f : products[i];
    if (p.bias != nullptr) value += to_float(static_cast<const T*>(p.bias)[col * p.bias_stride]);
    value = activate(p.activation, value);
    Out* c = static_cast<Out*>(const_cast<void*>(p.c.data)) + batch_offset(p.batch, batch).c;
    c[row * p.c.row_stride + col * p.c.col_stride] = from_float<Out>(value);
  }
}

template <class T, class Out>
int launch(const Problem& p, const float* products, void* stream) {
  const int64_t total = p.batch.count() * p.m * p.n;
  const int64_t blocks = ceil_div(total, kThreads);
  epilogue_kernel<T, Out>
      <<<dim3(std::min(blocks, kMaxBlocks)), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
          p, total, products);
  return cudaGetLastError();
}

template <class T>
int launch_for(const Problem& p, const float* products, void* stream) {
  return p.out_f32 ? launch<T, float>(p, products, stream) : launch<T, T>(p, products, stream);
}

}  // namespace

int cublas_epilogue(const Problem& problem, const float* products, void* stream) {
  return problem.dtype == DType::kF16 ? launch_for<__half>(problem, products, stream)
                                      : launch_for<__nv_bfloat16>(problem, products, stream);
}

}  // namespace vitamin
