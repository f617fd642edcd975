// vitamin_hgemm._C: the kernel table and the choice of a kernel, for people. No tensor goes through
// it, and it needs neither a GPU nor torch.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdio>
#include <cstring>
#include <optional>
#include <string>

#include "../dispatch/overrides.h"
#include "../dispatch/select.h"
#include "../dispatch/shapes.h"

namespace py = pybind11;

namespace vitamin {
namespace {

// An operand or the result as plan() is told of it, stored with or without transposition.
struct StoredMatrix {
  int64_t sizes[3];
  int64_t strides[3];
  StridedView view;

  StoredMatrix(const char* name, int64_t batch, int64_t rows, int64_t cols, bool transposed,
               std::optional<int64_t> ld, int64_t align_offset, int itemsize) {
    const int64_t stored_rows = transposed ? cols : rows;
    const int64_t stored_cols = transposed ? rows : cols;
    const int64_t pitch = ld.value_or(stored_cols);
    if (pitch < stored_cols) {
      throw py::value_error(std::string(name) + " is " + std::to_string(pitch) +
                            "; wanted at least " + std::to_string(stored_cols));
    }
    const int64_t values[] = {batch, rows, cols};
    const int64_t steps[] = {stored_rows * pitch, transposed ? 1 : pitch, transposed ? pitch : 1};
    std::memcpy(sizes, values, sizeof(sizes));
    std::memcpy(strides, steps, sizeof(strides));
    // A page-aligned address, as of a fresh allocation, that nothing reads.
    const void* data = reinterpret_cast<const void*>(uintptr_t(1) << 32 | uintptr_t(align_offset));
    view = {3, sizes, strides, data, itemsize};
  }
};

Activation parse_activation(const std::string& name) {
  static constexpr const char* kNames[] = {"none", "relu", "gelu", "gelu_tanh", "silu"};
  for (int i = 0; i < 5; ++i) {
    if (name == kNames[i]) return Activation(i);
  }
  throw py::value_error("activation is '" + name + "'");
}

// False if the result is empty; the problem is then left as it is.
bool read_problem(const py::dict& from, Problem* problem) {
  const auto count = [&](const char* key) { return from[key].cast<int64_t>(); };
  const auto pitch = [&](const char* key) { return from[key].cast<std::optional<int64_t>>(); };
  const std::string layout = from["layout"].cast<std::string>();
  const int64_t m = count("m"), n = count("n"), k = count("k"), batch = count("batch");
  const int64_t offset = count("align_offset");
  problem->out_f32 = !from["out_dtype"].is_none();
  const StoredMatrix a("lda", batch, m, k, layout[0] == 't', pitch("lda"), offset, 2);
  const StoredMatrix b("ldb", batch, k, n, layout[1] == 't', pitch("ldb"), offset, 2);
  const StoredMatrix c("ldc", batch, m, n, false, pitch("ldc"), offset, problem->out_f32 ? 4 : 2);
  problem->dtype = from["dtype"].cast<std::string>() == "fp16" ? DType::kF16 : DType::kBF16;
  problem->has_bias = from["bias"].cast<bool>();
  problem->activation = parse_activation(from["activation"].cast<std::string>());
  ProductShape product;
  const std::string mismatch = matmul_shape(a.view, b.view, &product);
  if (!mismatch.empty()) throw py::value_error(mismatch);
  if (product.count() == 0) return false;
  OuterBatch outer;
  build_problem(a.view, b.view, c.view, product, problem, &outer);
  return true;
}

DeviceFacts read_device(const py::dict& from) {
  DeviceFacts device;
  std::snprintf(device.name, sizeof(device.name), "%s", from["name"].cast<std::string>().c_str());
  device.cc = from["cc"].cast<int>();
  device.sm_count = from["sm_count"].cast<int>();
  device.smem_per_block = from["smem_per_block"].cast<int64_t>();
  device.smem_per_sm = from["smem_per_sm"].cast<int64_t>();
  device.l2_bytes = from["l2_bytes"].cast<int64_t>();
  device.sm_ghz = from["sm_ghz"].cast<double>();
  device.dram_tbs = from["dram_tbs"].cast<double>();
  return device;
}

void write_launch(const Launch& launch, py::dict* to) {
  py::dict& dict = *to;
  dict["kernel"] = launch.kernel == nullptr ? "none" : launch.kernel->name;
  dict["splits"] = launch.splits;
  dict["repack_a"] = launch.repack_a;
  dict["repack_b"] = launch.repack_b;
  dict["workspace_bytes"] = launch.workspace_bytes;
  dict["predicted_us"] = launch.predicted_us;
}

py::object override_name(const Launch& launch) {
  if (launch.chooser == Chooser::kModel) return py::none();
  return py::str(launch.chooser == Chooser::kTuned ? "tuned" : "built-in");
}

std::string choice_reason(const Launch& launch, const std::string& asked,
                          const std::vector<Candidate>& others) {
  if (asked == launch.kernel->name) return "asked for by name";
  if (launch.chooser != Chooser::kModel) {
    const Launch& first = others.front().launch;
    const char* by = launch.chooser == Chooser::kTuned ? "tuned" : "a built-in measurement";
    const bool same = first.kernel == launch.kernel && first.splits == launch.splits;
    if (same) return std::string(by) + "; the model agrees";
    const std::string parts =
        first.splits > 1 ? " with K in " + std::to_string(first.splits) + " parts" : "";
    char us[32];
    std::snprintf(us, sizeof(us), "%.1f us", first.predicted_us);
    return std::string(by) + "; the model's choice is " + first.kernel->name + parts + " at " + us;
  }
  if (others.size() < 2) return "the only kernel of '" + asked + "' that can run it";
  char text[160];
  const Launch& second = others[1].launch;
  std::snprintf(text, sizeof(text), "cheapest of %zu ways to run it; next is %s at %.1f us",
                others.size(), second.kernel->name, second.predicted_us);
  return text;
}

py::dict plan(const py::dict& problem_dict, const py::dict& device_dict,
              const std::string& kernel) {
  Problem problem;
  const DeviceFacts device = read_device(device_dict);
  Launch launch;
  std::string error;
  std::string reason = "the result is empty: nothing is launched";
  py::list listed;
  if (!is_kernel_name(kernel.c_str())) {
    error = "kernel is '" + kernel + "'; wanted one of " + kernel_names();
  } else if (read_problem(problem_dict, &problem)) {
    const std::string refused = select(problem, device, kernel.c_str(), &launch);
    if (refused.empty()) {
      const std::vector<Candidate> all = candidates(problem, device, kernel.c_str());
      reason = choice_reason(launch, kernel, all);
      for (const Candidate& candidate : all) {
        py::dict entry;
        write_launch(candidate.launch, &entry);
        entry["tensor_us"] = candidate.tensor_us;
        entry["memory_us"] = candidate.memory_us;
        entry["overhead_us"] = candidate.overhead_us;
        listed.append(entry);
      }
    } else {
      error = "kernel '" + kernel + "' can't run this problem on " + device.name + ": " + refused;
    }
  }
  py::dict result;
  write_launch(launch, &result);
  result["override"] = override_name(launch);
  result["reason"] = reason;
  result["error"] = error;
  result["candidates"] = listed;
  return result;
}

std::optional<ProblemKey> key_of(const py::dict& problem_dict) {
  Problem problem;
  if (!read_problem(problem_dict, &problem)) return std::nullopt;
  return problem_key(problem);
}

py::list kernels() {
  py::list list;
  for (const KernelEntry& entry : kernel_table()) {
    py::dict kernel;
    kernel["name"] = entry.name;
    kernel["family"] = entry.family;
    kernel["what"] = entry.what;
    kernel["min_cc"] = entry.min_cc;
    kernel["max_cc"] = entry.max_cc;
    kernel["tile"] = py::make_tuple(entry.tile_m, entry.tile_n, entry.tile_k);
    kernel["stages"] = entry.stages;
    kernel["threads"] = entry.threads;
    kernel["smem_bytes"] = entry.smem_bytes;
    kernel["any_align"] = entry.any_align;
    kernel["layouts"] = entry.layouts;
    kernel["batched"] = entry.batched;
    list.append(kernel);
  }
  return list;
}

py::dict build_info() {
  py::dict info;
  info["version"] = VITAMIN_VERSION;
  info["cuda"] = std::strlen(VITAMIN_ARCHS) > 0;
  info["archs"] = VITAMIN_ARCHS;
  info["nvcc"] = VITAMIN_NVCC;
  return info;
}

}  // namespace
}  // namespace vitamin

PYBIND11_MODULE(_C, module) {
  module.doc() = "The kernels of vitamin_hgemm and how one is chosen; see vitamin_hgemm.planning.";
  module.def("kernels", &vitamin::kernels, "Every kernel of the table, a dict each.");
  module.def("plan", &vitamin::plan, py::arg("problem"), py::arg("device"), py::arg("kernel"),
             "What hgemm would launch: a dict with the choice, its reason and the candidates.");
  module.def("problem_key", &vitamin::key_of, py::arg("problem"),
             "The numbers by which overrides know a problem; None if its result is empty.");
  module.def("set_override", &vitamin::set_override, py::arg("gpu"), py::arg("key"),
             py::arg("kernel"), py::arg("splits"),
             "Makes plan() choose so, where it can; whether the override was taken.");
  module.def("remove_override", &vitamin::remove_override, py::arg("gpu"), py::arg("key"),
             "Forgets one override, but what is built in.");
  module.def("clear_overrides", &vitamin::clear_overrides,
             "Forgets all overrides, but what is built in.");
  module.def("build_info", &vitamin::build_info,
             "Version, and what this build was made with and for.");
}
