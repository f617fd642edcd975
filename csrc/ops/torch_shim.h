// What the op library uses of LibTorch's stable C interface, with owners for its handles.
#pragma once

#include <torch/csrc/stable/c/shim.h>

#include <cstdint>
#include <utility>

// Newer than the oldest torch that this library serves, or in CUDA builds of torch alone: null
// where the torch that loads the library lacks them.
extern "C" const char* torch_exception_get_what_without_backtrace() __attribute__((weak));
#pragma weak aoti_torch_get_current_cuda_stream
#pragma weak torch_get_current_cuda_blas_handle

namespace vitamin {

// Owns one reference to a tensor.
class TensorHandle {
 public:
  TensorHandle() = default;
  explicit TensorHandle(AtenTensorHandle handle) : handle_(handle) {}
  TensorHandle(TensorHandle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  TensorHandle& operator=(TensorHandle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~TensorHandle() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }

  AtenTensorHandle get() const { return handle_; }
  AtenTensorHandle release() { return std::exchange(handle_, nullptr); }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  AtenTensorHandle handle_ = nullptr;
};

// Owns a string argument of an op, or stands for a static string.
class StringArgument {
 public:
  explicit StringArgument(StableIValue value) : handle_(reinterpret_cast<StringHandle>(value)) {
    torch_string_c_str(handle_, &text_);
  }
  explicit StringArgument(const char* text) : text_(text) {}
  StringArgument(const StringArgument&) = delete;
  StringArgument& operator=(const StringArgument&) = delete;
  ~StringArgument() {
    if (handle_ != nullptr) torch_delete_string(handle_);
  }

  const char* c_str() const { return text_; }

 private:
  StringHandle handle_ = nullptr;
  const char* text_ = "";
};

// Why the last call into LibTorch failed, as far as this torch tells.
const char* torch_error_text();

// Throws "hgemm: <what> failed: <torch's reason>" unless `code` is success.
void check_torch(AOTITorchError code, const char* what);

// The codes by which LibTorch names dtypes, layouts and device types.
struct TorchCodes {
  int32_t float16 = aoti_torch_dtype_float16();
  int32_t bfloat16 = aoti_torch_dtype_bfloat16();
  int32_t float32 = aoti_torch_dtype_float32();
  int32_t uint8 = aoti_torch_dtype_uint8();
  int32_t strided = aoti_torch_layout_strided();
  int32_t cpu = aoti_torch_device_type_cpu();
  int32_t cuda = aoti_torch_device_type_cuda();
};
const TorchCodes& torch_codes();

}  // namespace vitamin
