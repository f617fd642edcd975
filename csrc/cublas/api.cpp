#include "api.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

namespace vitamin::cublas {
namespace {

void* loaded_library() {
  for (const char* name : {"libcublas.so.13", "libcublas.so.12"}) {
    if (void* library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) return library;
  }
  return RTLD_DEFAULT;
}

template <typename Function>
void look_up(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  if (*function == nullptr) {
    throw std::runtime_error(std::string("hgemm: kernel 'cublas' needs ") + name +
                             ", which no cuBLAS loaded by torch has");
  }
}

Api load() {
  void* const library = loaded_library();
  Api api;
  look_up(library, "cublasGemmStridedBatchedEx_64", &api.gemm);
  look_up(library, "cublasGetMathMode", &api.get_math_mode);
  look_up(library, "cublasSetMathMode", &api.set_math_mode);
  look_up(library, "cublasGetStatusString", &api.status_string);
  return api;
}

}  // namespace

const Api& api() {
  static const Api loaded = load();
  return loaded;
}

}  // namespace vitamin::cublas
