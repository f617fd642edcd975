// The dispatch of hgemm under autograd, and how errors get through it.
//
// hgemm has a kernel of its own on the Autograd key that calls the dispatcher again, for
// _hgemm_no_grad (grad mode off: no Python on the way) or _hgemm_grad (grad mode on: the autograd
// formula is registered from Python). _hgemm, which stands for hgemm in traced graphs, has it too.
// LibTorch's C interface turns an exception inside such a nested call into an error code without
// its text, so the inner kernel keeps the text for the outer one.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

#include <exception>

namespace vitamin {

// A boxed kernel on the Autograd key: redispatches to _hgemm_no_grad or _hgemm_grad, or to their
// out= variants. Those take the activation and the kernel by number: see option_names.h.
void redispatch(StableIValue* stack, bool has_out);

// In an inner kernel: true if the error was kept for redispatch(), which will throw it. The kernel
// then returns with an undefined tensor on its stack.
bool keep_error(const std::exception& error, StableIValue* stack);

}  // namespace vitamin

// The same for a kernel in Python, which calls this through ctypes before it raises: torch 2.11 and
// 2.12 don't tell the text of what was raised.
extern "C" __attribute__((visibility("default"))) void vitamin_keep_error(const char* text);
