#include "arguments.h"

#include <cstring>
#include <stdexcept>

#include "option_names.h"
#include "torch_names.h"

namespace vitamin {
namespace {

template <typename... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::string text = "hgemm: ";
  ((text += parts), ...);
  throw std::runtime_error(text);
}

// An optional argument is a pointer to its value on the heap, null for None.
bool take_optional(StableIValue slot, StableIValue* value) {
  auto* pointer = reinterpret_cast<StableIValue*>(slot);
  if (pointer == nullptr) return false;
  *value = *pointer;
  delete pointer;
  return true;
}

TensorHandle take_tensor(StableIValue slot) {
  return TensorHandle(reinterpret_cast<AtenTensorHandle>(slot));
}

TensorHandle take_optional_tensor(StableIValue slot) {
  StableIValue value;
  return take_optional(slot, &value) ? take_tensor(value) : TensorHandle();
}

void describe(TensorArgument* tensor) {
  const AtenTensorHandle handle = tensor->handle.get();
  int64_t* sizes = nullptr;
  int64_t* strides = nullptr;
  check_torch(aoti_torch_get_dim(handle, &tensor->view.dims), "reading a tensor's rank");
  check_torch(aoti_torch_get_sizes(handle, &sizes), "reading a tensor's sizes");
  check_torch(aoti_torch_get_strides(handle, &strides), "reading a tensor's strides");
  tensor->view.sizes = sizes;
  tensor->view.strides = strides;
}

void read_kind(const char* name, TensorArgument* tensor) {
  const AtenTensorHandle handle = tensor->handle.get();
  bool defined = false;
  check_torch(aoti_torch_is_defined(handle, &defined), "looking for a tensor");
  if (!defined) fail(name, " is None; wanted a tensor");
  check_torch(aoti_torch_get_layout(handle, &tensor->layout), "reading a tensor's layout");
  check_torch(aoti_torch_get_dtype(handle, &tensor->dtype), "reading a tensor's dtype");
  check_torch(aoti_torch_get_device_type(handle, &tensor->device_type),
              "reading a tensor's device");
  check_torch(aoti_torch_get_device_index(handle, &tensor->device_index),
              "reading a tensor's device");
}

std::string shape_of(const TensorArgument& tensor) {
  return shape_text(tensor.view.sizes, tensor.view.dims);
}

std::string device_of(const TensorArgument& tensor) {
  return device_name(tensor.device_type, tensor.device_index);
}

// Fills in what there is to know of an operand; everything but its own kind is checked against a.
void check_operand(const char* name, TensorArgument* tensor, const TensorArgument& a) {
  read_kind(name, tensor);
  const TorchCodes& codes = torch_codes();
  if (tensor->layout != codes.strided) {
    fail(name, " has layout ", layout_name(tensor->layout),
         "; wanted a dense tensor (torch.strided)");
  }
  if (tensor->dtype != codes.float16 && tensor->dtype != codes.bfloat16) {
    fail(name, " is ", dtype_name(tensor->dtype), "; wanted torch.float16 or torch.bfloat16");
  }
  if (tensor->dtype != a.dtype) {
    fail(name, " is ", dtype_name(tensor->dtype), " and a is ", dtype_name(a.dtype),
         "; wanted the same dtype");
  }
  if (tensor->device_type != a.device_type || tensor->device_index != a.device_index) {
    fail(name, " is on ", device_of(*tensor), " and a is on ", device_of(a),
         "; wanted the same device");
  }
  describe(tensor);
  check_torch(torch_get_const_data_ptr(tensor->handle.get(), &tensor->view.data),
              "reading a tensor's address");
}

void check_bias(Arguments* args) {
  check_operand("bias", &args->bias, args->a);
  const StridedView& view = args->bias.view;
  if (view.dims != 1 || view.sizes[0] != args->product.n) {
    fail("bias has shape ", shape_of(args->bias), "; wanted [", std::to_string(args->product.n),
         "], one value for each column of the result");
  }
}

void check_kernel(const Arguments& args) {
  const char* name = args.kernel_name.c_str();
  if (std::strcmp(name, "auto") == 0) return;
  kernel_number(name);
  if (args.a.device_type != torch_codes().cuda) {
    fail("kernel '", name, "' needs CUDA tensors and a is on ", device_of(args.a),
         "; wanted kernel='auto' there");
  }
}

void check_no_overlap(const char* name, const TensorArgument& input, const TensorArgument& out) {
  if (!may_overlap(input.view, out.view)) return;
  fail("out shares memory with ", name, "; wanted an out that overlaps no input");
}

void check_out(Arguments* args) {
  TensorArgument& out = args->out;
  read_kind("out", &out);
  if (out.layout != torch_codes().strided) {
    fail("out has layout ", layout_name(out.layout), "; wanted a dense tensor (torch.strided)");
  }
  if (out.dtype != args->result_dtype()) {
    fail("out is ", dtype_name(out.dtype), "; wanted ", dtype_name(args->result_dtype()),
         args->out_f32() ? " (out_dtype)" : " (a's dtype)");
  }
  if (out.device_type != args->a.device_type || out.device_index != args->a.device_index) {
    fail("out is on ", device_of(out), " and a is on ", device_of(args->a),
         "; wanted the same device");
  }
  describe(&out);
  const ProductShape& product = args->product;
  if (out.view.dims != product.dims ||
      std::memcmp(out.view.sizes, product.sizes, sizeof(int64_t) * product.dims) != 0) {
    fail("out has shape ", shape_of(out), "; wanted ", shape_text(product.sizes, product.dims));
  }
  void* data = nullptr;
  check_torch(torch_get_mutable_data_ptr(out.handle.get(), &data), "reading out's address");
  out.view.data = data;
  out.view.itemsize = args->out_f32() ? 4 : 2;
  if (may_overlap_itself(out.view)) {
    fail("out has strides ", shape_text(out.view.strides, out.view.dims),
         ", by which its elements overlap each other; wanted one address for each element");
  }
  check_no_overlap("a", args->a, out);
  check_no_overlap("b", args->b, out);
  if (args->bias) check_no_overlap("bias", args->bias, out);
}

}  // namespace

Arguments::Arguments(StableIValue* stack, bool has_out, Names names)
    : activation_name(names == Names::kStrings
                          ? StringArgument(stack[3])
                          : StringArgument(vitamin::activation_name(int64_t(stack[3])))),
      kernel_name(names == Names::kStrings
                      ? StringArgument(stack[4])
                      : StringArgument(vitamin::kernel_name(int64_t(stack[4])))) {
  a.handle = take_tensor(stack[0]);
  b.handle = take_tensor(stack[1]);
  bias.handle = take_optional_tensor(stack[2]);
  StableIValue code;
  if (take_optional(stack[5], &code)) out_dtype = int32_t(code);
  if (has_out) out.handle = take_tensor(stack[6]);
}

void check_arguments(Arguments* args) {
  check_operand("a", &args->a, args->a);
  check_operand("b", &args->b, args->a);
  const std::string mismatch = matmul_shape(args->a.view, args->b.view, &args->product);
  if (!mismatch.empty()) fail(mismatch);
  if (args->bias) check_bias(args);
  args->activation = parse_activation(args->activation_name.c_str());
  check_kernel(*args);
  if (args->out_f32() && args->out_dtype != torch_codes().float32) {
    fail("out_dtype is ", dtype_name(args->out_dtype), "; wanted None or torch.float32");
  }
  if (args->out) check_out(args);
}

void ensure_out(Arguments* args) {
  if (args->out) return;
  TensorArgument& out = args->out;
  const ProductShape& product = args->product;
  int64_t strides[kMaxDims];
  int64_t stride = 1;
  for (int i = product.dims - 1; i >= 0; --i) {
    strides[i] = stride;
    stride *= product.sizes[i] > 1 ? product.sizes[i] : 1;
  }
  out.dtype = args->result_dtype();
  out.device_type = args->a.device_type;
  out.device_index = args->a.device_index;
  AtenTensorHandle handle = nullptr;
  check_torch(aoti_torch_empty_strided(product.dims, product.sizes, strides, out.dtype,
                                       out.device_type, out.device_index, &handle),
              "allocating the result");
  out.handle = TensorHandle(handle);
  describe(&out);
  void* data = nullptr;
  check_torch(torch_get_mutable_data_ptr(handle, &data), "reading the result's address");
  out.view.data = data;
  out.view.itemsize = args->out_f32() ? 4 : 2;
}

}  // namespace vitamin
