#include "torch_shim.h"

#include <stdexcept>
#include <string>

namespace vitamin {

const char* torch_error_text() {
  if (torch_exception_get_what_without_backtrace == nullptr) {
    return "torch logged the reason to stderr";
  }
  return torch_exception_get_what_without_backtrace();
}

void check_torch(AOTITorchError code, const char* what) {
  if (code == AOTI_TORCH_SUCCESS) return;
  throw std::runtime_error(std::string("hgemm: ") + what + " failed: " + torch_error_text());
}

const TorchCodes& torch_codes() {
  static const TorchCodes codes;
  return codes;
}

}  // namespace vitamin
