#include "cuda.h"

#include <stdexcept>

#ifdef VITAMIN_WITH_CUDA

#include <cstring>
#include <string>

#include "../dispatch/plan_cache.h"
#include "aten.h"
#include "device.h"

namespace vitamin {
namespace {

constexpr int kOldestCc = 80;

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error("hgemm: " + text); }

void* current_stream(int device_index) {
  if (aoti_torch_get_current_cuda_stream == nullptr) {
    fail("a is on a CUDA device and this build of torch has no CUDA");
  }
  void* stream = nullptr;
  check_torch(aoti_torch_get_current_cuda_stream(device_index, &stream),
              "asking for the current stream");
  return stream;
}

TensorHandle allocate(int64_t bytes, int device_index) {
  const TorchCodes& codes = torch_codes();
  const int64_t stride = 1;
  AtenTensorHandle handle = nullptr;
  check_torch(
      aoti_torch_empty_strided(1, &bytes, &stride, codes.uint8, codes.cuda, device_index, &handle),
      "allocating workspace");
  return TensorHandle(handle);
}

// Tells autograd that the caller's out has new contents, as torch's own out= operators do: an
// in-place operator that changes nothing raises the version that saved tensors are checked against.
void mark_written(const TensorArgument& out) {
  AtenTensorHandle shared = nullptr;
  check_torch(aoti_torch_new_tensor_handle(out.handle.get(), &shared), "sharing out");
  StableIValue stack[] = {reinterpret_cast<StableIValue>(shared), 0, 0};
  check_torch(torch_call_dispatcher("aten::transpose_", "", stack, TORCH_ABI_VERSION),
              "marking out as written");
  const TensorHandle result(reinterpret_cast<AtenTensorHandle>(stack[0]));
}

void set_epilogue(const Arguments& args, Problem* problem) {
  problem->dtype = args.a.dtype == torch_codes().float16 ? DType::kF16 : DType::kBF16;
  problem->out_f32 = args.out_f32();
  problem->activation = args.activation;
  if (!args.bias) return;
  problem->has_bias = true;
  problem->bias = args.bias.view.data;
  problem->bias_stride = problem->n > 1 ? args.bias.view.strides[0] : 1;
}

void advance(Matrix* matrix, int64_t elements, int itemsize) {
  matrix->data = static_cast<const char*>(matrix->data) + elements * itemsize;
}

// The problem at one index of the given batch dimensions, counted row-major.
Problem at_index(const Problem& problem, int64_t index, int dims, const int64_t* size,
                 const int64_t* a, const int64_t* b, const int64_t* c) {
  Problem one = problem;
  for (int i = dims - 1; i >= 0; --i) {
    const int64_t position = index % size[i];
    index /= size[i];
    advance(&one.a, position * a[i], 2);
    advance(&one.b, position * b[i], 2);
    advance(&one.c, position * c[i], problem.out_f32 ? 4 : 2);
  }
  return one;
}

void launch(const LaunchArgs& args) {
  const int error = args.launch.kernel->launch(args);
  if (error == 0) return;
  check_cuda(error, (std::string("launching kernel '") + args.launch.kernel->name + "'").c_str());
}

// Launches the kernel for all of problem.batch: at once if it can, else once for each index.
void launch_batch(const LaunchArgs& args) {
  if (args.launch.kernel->batched || args.problem.batch.dims == 0) return launch(args);
  const Batch& batch = args.problem.batch;
  for (int64_t i = 0; i < batch.count(); ++i) {
    Problem one = at_index(args.problem, i, batch.dims, batch.size, batch.a, batch.b, batch.c);
    one.batch = Batch();
    launch({one, args.launch, args.device, args.workspace, args.stream});
  }
}

void launch_outer(const OuterBatch& outer, const LaunchArgs& args) {
  int64_t count = 1;
  for (int i = 0; i < outer.dims; ++i) count *= outer.size[i];
  for (int64_t i = 0; i < count; ++i) {
    const Problem inner =
        at_index(args.problem, i, outer.dims, outer.size, outer.a, outer.b, outer.c);
    launch_batch({inner, args.launch, args.device, args.workspace, args.stream});
  }
}

std::string gpu_text(int device_index, const DeviceFacts& device) {
  return "cuda:" + std::to_string(device_index) + " (" + device.name + ", compute capability " +
         std::to_string(device.cc / 10) + "." + std::to_string(device.cc % 10) + ")";
}

}  // namespace

void run_cuda(Arguments* args) {
  const int device_index = args->a.device_index;
  const DeviceFacts& device = device_facts(device_index);
  const char* kernel = args->kernel_name.c_str();
  const bool old = device.cc < kOldestCc;
  if (old && std::strcmp(kernel, "auto") != 0) {
    fail(std::string("kernel '") + kernel + "' can't run on " + gpu_text(device_index, device) +
         "; wanted compute capability 8.0 or newer, or kernel='auto', which uses cuBLAS there");
  }
  const bool callers_out = bool(args->out);
  ensure_out(args);
  if (args->product.count() == 0) return;
  if (old) return run_aten(*args);

  Problem problem;
  OuterBatch outer;
  Launch choice;
  build_problem(args->a.view, args->b.view, args->out.view, args->product, &problem, &outer);
  set_epilogue(*args, &problem);
  const std::string reason = select_cached(problem, device, device_index, kernel, &choice);
  if (!reason.empty()) {
    fail(std::string("kernel '") + kernel + "' can't run this problem on " +
         gpu_text(device_index, device) + ": " + reason);
  }
  const CurrentDevice current(device_index);
  void* const stream = current_stream(device_index);
  TensorHandle workspace;
  void* scratch = nullptr;
  if (choice.workspace_bytes > 0) {
    workspace = allocate(choice.workspace_bytes, device_index);
    check_torch(torch_get_mutable_data_ptr(workspace.get(), &scratch), "reading the workspace");
  }
  launch_outer(outer, {problem, choice, device, scratch, stream});
  if (callers_out) mark_written(args->out);
}

}  // namespace vitamin

#else

namespace vitamin {

void run_cuda(Arguments*) {
  throw std::runtime_error(
      "hgemm: a is on a CUDA device and this library was built without CUDA; wanted CPU tensors, "
      "or a build of vitamin_hgemm made where nvcc is found");
}

}  // namespace vitamin

#endif
