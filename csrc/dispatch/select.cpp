#include "select.h"

#include <algorithm>
#include <cstring>

#include "cost.h"
#include "overrides.h"
#include "span.h"
#include "stream_shape.h"
#include "workspace.h"

namespace vitamin {
namespace {

constexpr const char* kAuto = "auto";
// The families of production kernels, newest first: "auto" takes the best of all.
constexpr const char* kHopperFamily = "sm90";
constexpr const char* kAmpereFamily = "sm80";
constexpr const char* kFamilies[] = {kHopperFamily, kAmpereFamily};

bool is_family(const char* name) {
  return std::any_of(std::begin(kFamilies), std::end(kFamilies),
                     [&](const char* family) { return std::strcmp(family, name) == 0; });
}

bool is_group(const char* name) { return std::strcmp(name, kAuto) == 0 || is_family(name); }

bool in_group(const KernelEntry& entry, const char* group) {
  return std::strcmp(group, kAuto) == 0 ? is_family(entry.family)
                                        : std::strcmp(entry.family, group) == 0;
}

// Empty, or why the device can't run the kernel at all.
std::string device_refusal(const KernelEntry& entry, const DeviceFacts& device) {
  if (device.cc < entry.min_cc || (entry.max_cc && device.cc > entry.max_cc)) {
    const auto cc = [](int v) { return std::to_string(v / 10) + "." + std::to_string(v % 10); };
    std::string wanted = entry.max_cc ? cc(entry.min_cc) + " to " + cc(entry.max_cc)
                                      : cc(entry.min_cc) + " or newer";
    return "the device has compute capability " + cc(device.cc) + "; wanted " + wanted;
  }
  if (entry.smem_bytes > device.smem_per_block) {
    return "it needs " + std::to_string(entry.smem_bytes) +
           " bytes of shared memory a block; the device has " +
           std::to_string(device.smem_per_block);
  }
  return {};
}

// A view whose elements overlap may be far larger than its memory: it is read where it lies.
bool may_repack(const Problem& p, Operand operand) {
  const Repacked to = repacked(p, operand);
  const int64_t elements = to.batches * to.outer * to.inner;
  return elements <= (operand == Operand::kA ? span(p.a, p.m, p.k, p.batch, p.batch.a)
                                             : span(p.b, p.k, p.n, p.batch, p.batch.b));
}

Candidate make_candidate(const Problem& problem, const DeviceFacts& device, Launch launch) {
  const KernelEntry& entry = *launch.kernel;
  launch.workspace_bytes = workspace_layout(problem, launch, entry.tile_m, entry.tile_n).bytes;
  const Cost cost = predict(problem, device, launch);
  launch.predicted_us = cost.total_us();
  return {launch, cost.tensor_us, cost.memory_us, cost.overhead_us};
}

// Adds the entry with every sensible number of K parts.
void add_splits(const Problem& problem, const DeviceFacts& device, Launch launch,
                std::vector<Candidate>* list) {
  constexpr int kMaxSplits = 32;
  constexpr int64_t kMaxWorkspace = int64_t(1) << 30;
  const KernelEntry& entry = *launch.kernel;
  const bool streams = entry.work == Work::kStream || entry.work == Work::kShallow;
  const bool whole = entry.work == Work::kShallow || entry.work == Work::kOnce;
  const StreamShape stream = streams ? stream_shape(problem) : StreamShape();
  const int64_t k_tiles = streams ? stream.steps : (problem.k + entry.tile_k - 1) / entry.tile_k;
  const int64_t tiles = streams ? stream.blocks : tile_count(problem, entry.tile_m, entry.tile_n);
  const int cluster = entry.splits_in_cluster ? entry.cluster_m * entry.cluster_n : 1;
  // Clusters have up to 8 blocks.
  const int most = whole ? 1 : entry.splits_in_cluster ? 8 / cluster : kMaxSplits;
  const int64_t groups =
      entry.splits_in_cluster
          ? tile_count(problem, entry.tile_m * entry.cluster_m, entry.tile_n * entry.cluster_n)
          : tiles;
  const auto next = [&](int splits) {
    return splits + (entry.splits_in_cluster || splits < 4 ? 1 : splits / 2);
  };
  for (int splits = 1; splits <= most; splits = next(splits)) {
    if (splits > 1 && (k_tiles / splits < 2 || tiles >= device.sm_count * (streams ? 2 : 1))) {
      break;
    }
    if (splits > 1 && entry.splits_in_cluster && !streams &&
        groups > cluster_slots(device, cluster * splits) * entry.blocks_per_sm) {
      continue;
    }
    launch.splits = splits;
    const Candidate candidate = make_candidate(problem, device, launch);
    if (splits > 1 && candidate.launch.workspace_bytes > kMaxWorkspace) break;
    list->push_back(candidate);
  }
}

// Ways in which a production kernel can run the problem. Badly aligned operands are either read
// as they are, by the tiles for any alignment, or repacked; by_name: only as they are.
void add_entry(const Problem& problem, const DeviceFacts& device, const KernelEntry& entry,
               bool by_name, std::vector<Candidate>* list) {
  Launch launch;
  launch.kernel = &entry;
  if (!by_name) {
    const bool all_aligned = problem.a.aligned() && problem.b.aligned();
    if (entry.any_align && entry.work == Work::kTiles && all_aligned) return;
    if (!entry.any_align) {
      launch.repack_a = !problem.a.aligned();
      launch.repack_b = !problem.b.aligned();
      if (launch.repack_a && !may_repack(problem, Operand::kA)) return;
      if (launch.repack_b && !may_repack(problem, Operand::kB)) return;
    }
    Problem as_read = problem;
    if (launch.repack_a) as_read.a = repacked(problem, Operand::kA).matrix;
    if (launch.repack_b) as_read.b = repacked(problem, Operand::kB).matrix;
    if (entry.unsupported(as_read)) return;
  }
  add_splits(problem, device, launch, list);
}

// The candidate that an override of this problem names; else the cheapest.
Launch choose(const Problem& problem, const DeviceFacts& device,
              const std::vector<Candidate>& list) {
  if (const auto wanted = find_override(device.name, problem_key(problem))) {
    for (const Candidate& candidate : list) {
      Launch launch = candidate.launch;
      if (launch.kernel != wanted->kernel || launch.splits != wanted->splits) continue;
      launch.chooser = wanted->tuned ? Chooser::kTuned : Chooser::kMeasured;
      return launch;
    }
  }
  return list.front().launch;
}

}  // namespace

bool is_kernel_name(const char* name) { return is_group(name) || find_kernel(name) != nullptr; }

std::string kernel_names() {
  std::string names = kAuto;
  for (const char* family : kFamilies) names += std::string(", ") + family;
  for (const KernelEntry& entry : kernel_table()) names += std::string(", ") + entry.name;
  return names;
}

std::vector<Candidate> candidates(const Problem& problem, const DeviceFacts& device,
                                  const char* kernel) {
  // On Hopper "auto" is its own family: the others would be chosen by what a model of another kind
  // says of them.
  const bool hopper = device.cc == kHopper;
  if (hopper && std::strcmp(kernel, kAuto) == 0) kernel = kHopperFamily;
  std::vector<Candidate> list;
  for (const KernelEntry& entry : kernel_table()) {
    const bool by_name = std::strcmp(entry.name, kernel) == 0;
    if (!is_family(entry.family) || !(by_name || in_group(entry, kernel))) continue;
    if (!device_refusal(entry, device).empty()) continue;
    if (by_name && entry.unsupported(problem)) continue;
    add_entry(problem, device, entry, by_name, &list);
  }
  // What TMA can't read, nor a copy be made of (batches of several strides, large views of little
  // memory), is sm80's too.
  const bool by_tiles = std::any_of(list.begin(), list.end(), [](const Candidate& candidate) {
    return candidate.launch.kernel->work == Work::kTiles;
  });
  if (!by_tiles && std::strcmp(kernel, kHopperFamily) == 0 && hopper) {
    const std::vector<Candidate> more = candidates(problem, device, kAmpereFamily);
    list.insert(list.end(), more.begin(), more.end());
  }
  std::stable_sort(list.begin(), list.end(), [](const Candidate& x, const Candidate& y) {
    return x.launch.predicted_us < y.launch.predicted_us;
  });
  return list;
}

std::string select(const Problem& problem, const DeviceFacts& device, const char* kernel,
                   Launch* launch) {
  const KernelEntry* named = is_group(kernel) ? nullptr : find_kernel(kernel);
  if (named) {
    const std::string refusal = device_refusal(*named, device);
    if (!refusal.empty()) return refusal;
    if (const char* reason = named->unsupported(problem)) return reason;
    if (!is_family(named->family)) {
      *launch = Launch();
      launch->kernel = named;
      if (named->workspace) launch->workspace_bytes = named->workspace(problem);
      return {};
    }
  }
  const std::vector<Candidate> list = candidates(problem, device, kernel);
  if (list.empty()) {
    return "no kernel of it runs on compute capability " + std::to_string(device.cc / 10) + "." +
           std::to_string(device.cc % 10) + "; wanted " +
           (std::strcmp(kernel, kHopperFamily) == 0 ? "9.0" : "8.0 or newer");
  }
  const bool any = std::strcmp(kernel, kAuto) == 0;
  *launch = any ? choose(problem, device, list) : list.front().launch;
  return {};
}

}  // namespace vitamin
