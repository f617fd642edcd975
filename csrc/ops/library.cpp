// The ops of namespace vitamin: schemas, and which function serves which dispatch key.
#include <torch/csrc/stable/library.h>

#include <stdexcept>
#include <string>

#include "arguments.h"
#include "aten.h"
#include "cuda.h"
#include "nested.h"

namespace vitamin {
namespace {

#define VITAMIN_PUBLIC                                                                        \
  "(Tensor a, Tensor b, *, Tensor? bias=None, str activation=\"none\", str kernel=\"auto\", " \
  "ScalarType? out_dtype=None"
// Stands for hgemm in compiled graphs: TorchInductor takes no argument that is called kernel, and
// keywords only by position.
#define VITAMIN_IN_GRAPHS                                                                       \
  "(Tensor a, Tensor b, Tensor? bias=None, str activation=\"none\", str kernel_name=\"auto\", " \
  "ScalarType? out_dtype=None"
// What redispatch() calls.
#define VITAMIN_NUMBERED                                                            \
  "(Tensor a, Tensor b, Tensor? bias=None, int activation=0, int kernel_number=0, " \
  "ScalarType? out_dtype=None"

enum class Backend { kCpu, kCuda, kOther };

void run(Backend backend, Arguments* args) {
  check_arguments(args);
  switch (backend) {
    case Backend::kCpu:
      ensure_out(args);
      run_aten(*args);
      return;
    case Backend::kCuda:
      run_cuda(args);
      return;
    case Backend::kOther:
      throw std::runtime_error("hgemm: a and b are no plain CPU or CUDA tensors; wanted those");
  }
}

// The kernel of a functional op or, with_out, of an out= one. redispatch() may wait for its error.
template <Backend backend, Names names, bool with_out>
void kernel(StableIValue* stack, uint64_t, uint64_t) {
  try {
    Arguments args(stack, with_out, names);
    run(backend, &args);
    stack[0] = reinterpret_cast<StableIValue>(args.out.handle.release());
  } catch (const std::exception& error) {
    if (!keep_error(error, stack)) throw;
  }
}

template <bool with_out>
void autograd_kernel(StableIValue* stack, uint64_t, uint64_t) {
  redispatch(stack, with_out);
}

template <Backend backend>
void register_kernels(torch::stable::detail::StableLibrary& library) {
  library.impl("hgemm", &kernel<backend, Names::kStrings, false>);
  library.impl("_hgemm", &kernel<backend, Names::kStrings, false>);
  library.impl("hgemm.out", &kernel<backend, Names::kStrings, true>);
  for (const std::string op : {"_hgemm_no_grad", "_hgemm_grad"}) {
    library.impl(op.c_str(), &kernel<backend, Names::kNumbers, false>);
    library.impl((op + ".out").c_str(), &kernel<backend, Names::kNumbers, true>);
  }
}

}  // namespace

STABLE_TORCH_LIBRARY(vitamin, library) {
  library.def("hgemm" VITAMIN_PUBLIC ") -> Tensor");
  library.def("hgemm.out" VITAMIN_PUBLIC ", Tensor(x!) out) -> Tensor(x!)");
  library.def("_hgemm" VITAMIN_IN_GRAPHS ") -> Tensor");
  for (const std::string op : {"_hgemm_no_grad", "_hgemm_grad"}) {
    library.def((op + VITAMIN_NUMBERED ") -> Tensor").c_str());
    library.def((op + ".out" VITAMIN_NUMBERED ", *, Tensor(x!) out) -> Tensor(x!)").c_str());
  }
}

STABLE_TORCH_LIBRARY_IMPL(vitamin, Autograd, library) {
  library.impl("hgemm", &autograd_kernel<false>);
  library.impl("_hgemm", &autograd_kernel<false>);
  library.impl("hgemm.out", &autograd_kernel<true>);
}

STABLE_TORCH_LIBRARY_IMPL(vitamin, CPU, library) { register_kernels<Backend::kCpu>(library); }
STABLE_TORCH_LIBRARY_IMPL(vitamin, CUDA, library) { register_kernels<Backend::kCuda>(library); }

// Tensors that are refused, with a text of this package's rather than the dispatcher's.
STABLE_TORCH_LIBRARY_IMPL(vitamin, SparseCPU, library) {
  register_kernels<Backend::kOther>(library);
}
STABLE_TORCH_LIBRARY_IMPL(vitamin, SparseCUDA, library) {
  register_kernels<Backend::kOther>(library);
}
STABLE_TORCH_LIBRARY_IMPL(vitamin, SparseCsrCPU, library) {
  register_kernels<Backend::kOther>(library);
}
STABLE_TORCH_LIBRARY_IMPL(vitamin, SparseCsrCUDA, library) {
  register_kernels<Backend::kOther>(library);
}
STABLE_TORCH_LIBRARY_IMPL(vitamin, QuantizedCPU, library) {
  register_kernels<Backend::kOther>(library);
}
STABLE_TORCH_LIBRARY_IMPL(vitamin, QuantizedCUDA, library) {
  register_kernels<Backend::kOther>(library);
}
STABLE_TORCH_LIBRARY_IMPL(vitamin, MkldnnCPU, library) {
  register_kernels<Backend::kOther>(library);
}

}  // namespace vitamin
