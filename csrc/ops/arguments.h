// The arguments of a call, taken off the dispatcher's stack and checked.
#pragma once

#include <string>

#include "../dispatch/shapes.h"
#include "torch_shim.h"

namespace vitamin {

// A tensor with what the checks and the launch need to know of it.
struct TensorArgument {
  TensorHandle handle;
  StridedView view;   // its data is set by check_arguments
  int32_t dtype = 0;  // LibTorch's codes, here and below
  int32_t layout = 0;
  int32_t device_type = 0;
  int32_t device_index = 0;

  explicit operator bool() const { return bool(handle); }
};

// How the stack of an op holds the names of activation and kernel.
enum class Names { kStrings, kNumbers };

// Takes ownership of what the stack of an op holds.
struct Arguments {
  Arguments(StableIValue* stack, bool has_out, Names names);

  TensorArgument a;
  TensorArgument b;
  TensorArgument bias;
  StringArgument activation_name;
  StringArgument kernel_name;
  int32_t out_dtype = -1;  // -1: None
  TensorArgument out;

  // Set by check_arguments.
  ProductShape product;
  Activation activation = Activation::kNone;

  bool out_f32() const { return out_dtype != -1; }
  int32_t result_dtype() const { return out_f32() ? out_dtype : a.dtype; }
};

// Throws a std::runtime_error that names the argument, what came and what is wanted.
void check_arguments(Arguments* args);

// Sets args->out to a new row-major tensor of the product's shape unless the caller passed one.
void ensure_out(Arguments* args);

}  // namespace vitamin
