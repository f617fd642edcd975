// Measured choices that go before the cost model's: those built in, and those tuned here.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "kernel_table.h"

namespace vitamin {

// What the candidates of a problem and their times depend on: m, n, k; products of the batch,
// matrices that it stores of a, of b; dtype, whether c is float32; the layouts of a, b, c, and how
// their rows are aligned (bytes, 64 for straight() ones of a and b).
constexpr int kKeyNumbers = 14;
constexpr int kKeyM = 0, kKeyDtype = 6;  // which of them is m, and the dtype
using ProblemKey = std::array<int64_t, kKeyNumbers>;

ProblemKey problem_key(const Problem& problem);

// A way to run a problem. Whether it is one of its candidates is for who uses it to see.
struct Override {
  const KernelEntry* kernel;
  int splits;
  bool tuned;  // else built in
};

// All of these may be called from any thread. GPUs go by name, with "NVIDIA " in front or not.
std::optional<Override> find_override(const char* gpu, const ProblemKey& key);

// Adds or replaces. False, and nothing is changed, if no kernel has that name or the table is full.
bool set_override(const char* gpu, const ProblemKey& key, const char* kernel, int splits);

// Back to what is built in: for one problem, for all.
void remove_override(const char* gpu, const ProblemKey& key);
void clear_overrides();

// Another number after every change.
uint64_t overrides_epoch();

}  // namespace vitamin
