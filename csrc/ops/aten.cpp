#include "aten.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <array>
#include <vector>

namespace vitamin {
namespace {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using torch::stable::detail::from;
using Shape = std::vector<int64_t>;

template <typename... Inputs>
Tensor call(const char* op, const char* overload, const Inputs&... inputs) {
  std::array<StableIValue, sizeof...(Inputs)> stack{from(inputs)...};
  check_torch(torch_call_dispatcher(op, overload, stack.data(), TORCH_ABI_VERSION), op);
  return torch::stable::detail::to<Tensor>(stack[0]);
}

Tensor share(const TensorArgument& argument) {
  AtenTensorHandle handle = nullptr;
  check_torch(aoti_torch_new_tensor_handle(argument.handle.get(), &handle), "sharing a tensor");
  return Tensor(handle);
}

Tensor widen(const TensorArgument& argument) {
  return torch::stable::to(share(argument), ScalarType::Float);
}

int64_t product_of(const int64_t* sizes, int64_t count) {
  int64_t product = 1;
  for (int64_t i = 0; i < count; ++i) product *= sizes[i];
  return product;
}

// The operand as [batch, rows, cols]; an operand without batches of its own isn't copied for it.
Tensor as_batched(const Tensor& operand, int64_t own_batch_dims, const ProductShape& product,
                  int64_t rows, int64_t cols) {
  const int64_t batch = product_of(product.sizes, product.batch_dims);
  const int64_t own_batch = product_of(operand.sizes().data(), own_batch_dims);
  if (own_batch == batch) return torch::stable::reshape(operand, {batch, rows, cols});
  if (own_batch == 1) {
    return call("aten::expand", "", torch::stable::reshape(operand, {1, rows, cols}),
                Shape{batch, rows, cols}, false);
  }
  Shape full(product.sizes, product.sizes + product.batch_dims);
  full.insert(full.end(), {rows, cols});
  return torch::stable::reshape(call("aten::expand", "", operand, full, false),
                                {batch, rows, cols});
}

// The products in float32 as [rows..., n]. The out= operators are those that autocast leaves
// alone, so an enclosing autocast doesn't narrow the operands again.
Tensor multiply(const Arguments& args) {
  const ProductShape& product = args.product;
  const Tensor a = widen(args.a);
  const Tensor b = widen(args.b);
  const int64_t batch = product_of(product.sizes, product.batch_dims);
  const int64_t a_batch_dims = product.a_is_vector ? 0 : args.a.view.dims - 2;
  const int64_t b_batch_dims = product.b_is_vector ? 0 : args.b.view.dims - 2;
  if (b_batch_dims == 0) {
    const int64_t rows = batch * product.m;
    Tensor result = torch::stable::new_empty(a, {rows, product.n});
    return call("aten::mm", "out", torch::stable::reshape(a, {rows, product.k}),
                torch::stable::reshape(b, {product.k, product.n}), result);
  }
  Tensor result = torch::stable::new_empty(a, {batch, product.m, product.n});
  return call("aten::bmm", "out", as_batched(a, a_batch_dims, product, product.m, product.k),
              as_batched(b, b_batch_dims, product, product.k, product.n), result);
}

Tensor scaled(const Tensor& x, double factor) {
  const Tensor zero = torch::stable::new_zeros(x, {});
  return torch::stable::subtract(zero, x, -factor);
}

// gelu is written out: torch keeps a few bytes of every string that an operator is called with
// from here, such as the name of gelu's approximation.
Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return call("aten::relu", "", x);
    case Activation::kGelu:
      return call("aten::mul", "Tensor", x, call("aten::special_ndtr", "", x));
    case Activation::kGeluTanh: {
      // x / 2 · (1 + tanh(u)) = x · sigmoid(2u), u = sqrt(2 / pi) · (x + 0.044715 x³)
      const Tensor square = call("aten::mul", "Tensor", x, x);
      const Tensor cube = call("aten::mul", "Tensor", square, x);
      const Tensor sum = torch::stable::subtract(x, cube, -0.044715);
      const Tensor gate = call("aten::sigmoid", "", scaled(sum, 1.5957691216057308));
      return call("aten::mul", "Tensor", x, gate);
    }
    case Activation::kSilu:
      return call("aten::silu", "", x);
  }
  return x;
}

}  // namespace

void run_aten(const Arguments& args) {
  const ProductShape& product = args.product;
  if (product.count() == 0) return;
  Tensor result = multiply(args);
  // The stable interface has no addition of tensors: subtracting -1 times the bias is the same.
  if (args.bias) result = torch::stable::subtract(result, widen(args.bias), -1.0);
  result = activate(args.activation, result);
  Tensor out = share(args.out);
  const Shape sizes(product.sizes, product.sizes + product.dims);
  torch::stable::copy_(out, torch::stable::reshape(result, sizes));
}

}  // namespace vitamin
