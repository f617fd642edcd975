// What happens to an fp32 accumulator before it is rounded: the bias is added, the activation
// applied.
#pragma once

#include "../dispatch/problem.h"
#include "dtype.cuh"

namespace vitamin {

__device__ __forceinline__ float gelu_tanh(float x) {
  const float inner = 0.7978845608028654f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1.0f + tanhf(inner));
}

// NaN passes through every one of them, as in torch.
__device__ __forceinline__ float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0.0f ? 0.0f : x;
    case Activation::kGelu:
      return 0.5f * x * (1.0f + erff(x * 0.7071067811865476f));
    case Activation::kGeluTanh:
      return gelu_tanh(x);
    case Activation::kSilu:
      return x / (1.0f + expf(-x));
  }
  return x;
}

// The same of several values, with one branch for all.
template <int Count>
__device__ __forceinline__ void activate(Activation activation, float (&x)[Count]) {
  if (activation == Activation::kNone) return;
#pragma unroll
  for (int i = 0; i < Count; ++i) x[i] = activate(activation, x[i]);
}

}  // namespace vitamin
