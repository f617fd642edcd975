#include "nested.h"

#include <stdexcept>
#include <string>

#include "arguments.h"
#include "option_names.h"

namespace vitamin {
namespace {

struct NestedCall {
  bool failed = false;
  std::string error;
};

// The nested call that this thread is in, if any.
thread_local NestedCall* current_call = nullptr;

// torch's text of an error that a Python kernel raised, without the exception's type in front and
// the stack behind.
std::string python_error_text() {
  std::string text = torch_error_text();
  const size_t stack = text.find("\n\nAt:\n");
  if (stack != std::string::npos) text.resize(stack);
  const size_t type = text.find(": ");
  const bool is_type = type >= 5 && type < text.find(' ') && text.substr(type - 5, 5) == "Error";
  if (is_type) text.erase(0, type + 2);
  return text;
}

// Puts numbers in the place of the two names. If one is no name, the stack is emptied and the error
// thrown.
void number_names(StableIValue* stack, bool has_out) {
  const auto activation = reinterpret_cast<StringHandle>(stack[3]);
  const auto kernel = reinterpret_cast<StringHandle>(stack[4]);
  const char* activation_text = "";
  const char* kernel_text = "";
  torch_string_c_str(activation, &activation_text);
  torch_string_c_str(kernel, &kernel_text);
  try {
    const StableIValue numbers[] = {StableIValue(parse_activation(activation_text)),
                                    StableIValue(kernel_number(kernel_text))};
    torch_delete_string(activation);
    torch_delete_string(kernel);
    stack[3] = numbers[0];
    stack[4] = numbers[1];
  } catch (const std::runtime_error&) {
    const Arguments dropped(stack, has_out, Names::kStrings);
    throw;
  }
}

}  // namespace

void redispatch(StableIValue* stack, bool has_out) {
  number_names(stack, has_out);
  const char* op =
      aoti_torch_grad_mode_is_enabled() ? "vitamin::_hgemm_grad" : "vitamin::_hgemm_no_grad";
  const char* overload = has_out ? "out" : "";
  NestedCall call;
  NestedCall* const enclosing = current_call;
  current_call = &call;
  const AOTITorchError code = torch_call_dispatcher(op, overload, stack, TORCH_ABI_VERSION);
  current_call = enclosing;
  if (code == AOTI_TORCH_SUCCESS && !call.failed) return;
  if (code == AOTI_TORCH_SUCCESS) {
    TensorHandle result(reinterpret_cast<AtenTensorHandle>(stack[0]));
    bool defined = false;
    aoti_torch_is_defined(result.get(), &defined);
    if (defined) {  // someone on the way has caught the error and found another answer
      result.release();
      return;
    }
  }
  throw std::runtime_error(call.failed ? call.error : python_error_text());
}

bool keep_error(const std::exception& error, StableIValue* stack) {
  AtenTensorHandle undefined = nullptr;
  if (current_call == nullptr || aoti_torch_new_uninitialized_tensor(&undefined) != 0) return false;
  vitamin_keep_error(error.what());
  stack[0] = reinterpret_cast<StableIValue>(undefined);
  return true;
}

}  // namespace vitamin

void vitamin_keep_error(const char* text) {
  if (vitamin::current_call == nullptr) return;
  vitamin::current_call->failed = true;
  vitamin::current_call->error = text;
}
