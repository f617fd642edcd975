#include "nested.h"

#include <stdexcept>
#include <string>

#include "torch_shim.h"

namespace vitamin {
namespace {

struct NestedCall {
  bool failed = false;
  std::string error;
};

// The nested call that this thread is in, if any.
thread_local NestedCall* current_call = nullptr;

}  // namespace

void redispatch(StableIValue* stack, const char* no_grad_op, const char* grad_op,
                const char* overload) {
  const char* op = aoti_torch_grad_mode_is_enabled() ? grad_op : no_grad_op;
  NestedCall call;
  NestedCall* const enclosing = current_call;
  current_call = &call;
  const AOTITorchError code = torch_call_dispatcher(op, overload, stack, TORCH_ABI_VERSION);
  current_call = enclosing;
  if (code == AOTI_TORCH_SUCCESS && !call.failed) return;
  if (code == AOTI_TORCH_SUCCESS) {
    const TensorHandle undefined(reinterpret_cast<AtenTensorHandle>(stack[0]));
  }
  if (call.failed) throw std::runtime_error(call.error);
  check_torch(code, op);
}

bool keep_error(const std::exception& error, StableIValue* stack) {
  if (current_call == nullptr) return false;
  AtenTensorHandle undefined = nullptr;
  if (aoti_torch_new_uninitialized_tensor(&undefined) != AOTI_TORCH_SUCCESS) return false;
  current_call->failed = true;
  current_call->error = error.what();
  stack[0] = reinterpret_cast<StableIValue>(undefined);
  return true;
}

}  // namespace vitamin
