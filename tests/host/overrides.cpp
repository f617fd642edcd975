// Overrides, what select() and the plan cache make of them. Links csrc/dispatch without
// measured.cpp: the built-in choices are those below.
#include "dispatch/overrides.h"

#include <atomic>
#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dispatch/measured.h"
#include "dispatch/plan_cache.h"
#include "dispatch/select.h"
#include "problems.h"
#include "run_checks.h"

namespace vitamin {
namespace {

constexpr char kGpu[] = "NVIDIA H200";

const Problem kProblem = product(512, 4096, 4096);
const Problem kBuiltIn = product(256, 4096, 4096);
const Problem kBuiltInNonsense = product(128, 4096, 4096);
constexpr char kBuiltInKernel[] = "sm90_64x128x64";

Launch chosen(const Problem& problem, const DeviceFacts& device, const char* kernel = "auto") {
  Launch launch;
  const std::string refusal = select(problem, device, kernel, &launch);
  REQUIRE(refusal.empty(), "%s", refusal.c_str());
  return launch;
}

bool is(const Launch& launch, const char* kernel, int splits, Chooser chooser) {
  return std::strcmp(launch.kernel->name, kernel) == 0 && launch.splits == splits &&
         launch.chooser == chooser;
}

void require_models(const Problem& problem, const char* what) {
  const Launch first = candidates(problem, h200(), "auto").front().launch;
  REQUIRE(is(chosen(problem, h200()), first.kernel->name, first.splits, Chooser::kModel), "%s",
          what);
}

// The last candidate: nothing that the model would take.
Launch other_way(const Problem& problem) {
  return candidates(problem, h200(), "auto").back().launch;
}

void set(const Problem& problem, const Launch& way) {
  REQUIRE(set_override(kGpu, problem_key(problem), way.kernel->name, way.splits), "refused");
}

void keys_differ_where_candidates_may() {
  std::vector<Problem> problems(1, kProblem);
  const auto add = [&](auto change) {
    Problem p = kProblem;
    change(p);
    problems.push_back(p);
  };
  add([](Problem& p) { p.m = 513; });
  add([](Problem& p) { p.n = 4095; });
  add([](Problem& p) { p.k = 4095; });
  add([](Problem& p) { p.dtype = DType::kF16; });
  add([](Problem& p) { p.out_f32 = true; });
  add([](Problem& p) { p.a.layout = Layout::kCol; });
  add([](Problem& p) { p.b.layout = Layout::kRow; });
  add([](Problem& p) { p.c.layout = Layout::kCol; });
  add([](Problem& p) { p.a.align = 8; });
  add([](Problem& p) { p.b.align = 2; });
  add([](Problem& p) { p.c.align = 4; });
  add([](Problem& p) { p.a.row_stride = 4104; });  // aligned, and no longer straight
  add([](Problem& p) { p.b.col_stride = 4104; });
  const auto batch = [](Problem& p, int64_t a, int64_t b) {
    p.batch.dims = 1;
    p.batch.size[0] = 3;
    p.batch.a[0] = a;
    p.batch.b[0] = b;
    p.batch.c[0] = p.m * p.n;
  };
  add([&](Problem& p) { batch(p, p.m * p.k, p.k * p.n); });
  add([&](Problem& p) { batch(p, 0, p.k * p.n); });
  add([&](Problem& p) { batch(p, p.m * p.k, 0); });
  std::set<ProblemKey> keys;
  for (const Problem& p : problems) keys.insert(problem_key(p));
  REQUIRE(keys.size() == problems.size(), "%zu keys of %zu problems", keys.size(), problems.size());
}

void keys_are_equal_where_nothing_depends_on_it() {
  Problem p = kProblem;
  p.a.data = p.b.data = p.c.data = &p;
  p.a.row_stride = p.b.col_stride = 4096 + 32;
  p.has_bias = true;
  p.activation = Activation::kGelu;
  REQUIRE(problem_key(p) == problem_key(kProblem), "another key");
}

void an_override_decides_for_auto_alone() {
  const Launch way = other_way(kProblem);
  set(kProblem, way);
  REQUIRE(is(chosen(kProblem, h200()), way.kernel->name, way.splits, Chooser::kTuned), "auto");
  REQUIRE(is(chosen(kProblem, h200("H200")), way.kernel->name, way.splits, Chooser::kTuned),
          "the name without its vendor");
  const Launch by_family = candidates(kProblem, h200(), "sm90").front().launch;
  const Launch family = chosen(kProblem, h200(), "sm90");
  REQUIRE(is(family, by_family.kernel->name, by_family.splits, Chooser::kModel), "family");
  Launch elsewhere = chosen(kProblem, h200("NVIDIA H100 80GB HBM3"));
  REQUIRE(elsewhere.chooser == Chooser::kModel, "another GPU");
  require_models(product(513, 4096, 4096), "another problem");
  remove_override(kGpu, problem_key(kProblem));
  require_models(kProblem, "removed");
}

void what_no_candidate_is_falls_back() {
  const auto key = problem_key(kProblem);
  REQUIRE(!set_override(kGpu, key, "sm90_1x1x1", 1), "unknown kernel");
  REQUIRE(!set_override(kGpu, key, "auto", 1), "no kernel's name");
  struct {
    const char* kernel;
    int splits;
  } const ways[] = {{"sm90_128x128x64", 7},  {"sm90_128x256x64_2x1", 5}, {"sm80_naive", 1},
                    {"cublas", 1},           {"sm80_128x128x64", 5},     {"sm80_any_64x64x64", 1},
                    {"sm90_128x128x64", -1}, {"sm90_128x128x64", 0}};
  for (const auto& way : ways) {
    REQUIRE(set_override(kGpu, key, way.kernel, way.splits), "%s", way.kernel);
    require_models(kProblem, way.kernel);
  }
  // A device of that name that can't hold the kernel's shared memory, and one of another kind.
  REQUIRE(set_override(kGpu, key, "sm90_128x128x64", 1), "refused");
  REQUIRE(chosen(kProblem, h200()).chooser == Chooser::kTuned, "not taken");
  DeviceFacts small = h200();
  small.smem_per_block = 99 << 10;
  REQUIRE(chosen(kProblem, small).chooser == Chooser::kModel, "too large");
  DeviceFacts old = h200();
  old.cc = 80;
  REQUIRE(set_override(kGpu, key, "sm90_128x128x64", 1), "refused");
  REQUIRE(chosen(kProblem, old).chooser == Chooser::kModel, "Hopper only");
  clear_overrides();
}

void built_in_choices_give_way_and_come_back() {
  const auto built_in = [] {
    return is(chosen(kBuiltIn, h200()), kBuiltInKernel, 1, Chooser::kMeasured);
  };
  REQUIRE(built_in(), "at start");
  require_models(kBuiltInNonsense, "a kernel that is gone");
  const Launch way = other_way(kBuiltIn);
  set(kBuiltIn, way);
  REQUIRE(chosen(kBuiltIn, h200()).chooser == Chooser::kTuned, "tuned");
  remove_override(kGpu, problem_key(kBuiltIn));
  REQUIRE(built_in(), "after removal");
  set(kBuiltIn, way);
  set(kProblem, other_way(kProblem));
  clear_overrides();
  REQUIRE(built_in(), "after clearing");
  require_models(kProblem, "cleared");
}

Launch cached(const Problem& problem) {
  Launch launch;
  const std::string refusal = select_cached(problem, h200(), 0, "auto", &launch);
  REQUIRE(refusal.empty(), "%s", refusal.c_str());
  return launch;
}

void the_plan_cache_notices_changes() {
  const Launch before = cached(kProblem);
  const Launch way = other_way(kProblem);
  set(kProblem, way);
  REQUIRE(is(cached(kProblem), way.kernel->name, way.splits, Chooser::kTuned), "set");
  remove_override(kGpu, problem_key(kProblem));
  REQUIRE(is(cached(kProblem), before.kernel->name, before.splits, Chooser::kModel), "removed");
  set(kProblem, way);
  clear_overrides();
  REQUIRE(is(cached(kProblem), before.kernel->name, before.splits, Chooser::kModel), "cleared");
}

void readers_see_one_of_the_two_ways() {
  const Launch one = candidates(kProblem, h200(), "auto").front().launch;
  const Launch other = other_way(kProblem);
  std::atomic<bool> done{false}, wrong{false};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const Launch seen = cached(kProblem);
        const Launch& like = seen.chooser == Chooser::kTuned ? other : one;
        if (seen.kernel != like.kernel || seen.splits != like.splits) wrong = true;
      }
    });
  }
  for (int i = 0; i < 300; ++i) {
    set(kProblem, other);
    clear_overrides();
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  REQUIRE(!wrong, "a mixture");
}

void the_table_is_bounded() {
  ProblemKey key = problem_key(kProblem);
  int taken = 0;
  for (key[0] = 1; key[0] <= 70000; ++key[0]) taken += set_override(kGpu, key, "cublas", 1);
  REQUIRE(taken > 60000 && taken <= 1 << 16, "%d", taken);
  key[0] = 1;
  REQUIRE(set_override(kGpu, key, "cublas", 2), "what is there can be replaced");
  clear_overrides();
  REQUIRE(set_override(kGpu, key, "cublas", 1), "room again");
  clear_overrides();
}

const Checks kChecks = {
    {"keys_differ_where_candidates_may", keys_differ_where_candidates_may},
    {"keys_are_equal_where_nothing_depends_on_it", keys_are_equal_where_nothing_depends_on_it},
    {"an_override_decides_for_auto_alone", an_override_decides_for_auto_alone},
    {"what_no_candidate_is_falls_back", what_no_candidate_is_falls_back},
    {"built_in_choices_give_way_and_come_back", built_in_choices_give_way_and_come_back},
    {"the_plan_cache_notices_changes", the_plan_cache_notices_changes},
    {"readers_see_one_of_the_two_ways", readers_see_one_of_the_two_ways},
    {"the_table_is_bounded", the_table_is_bounded},
};

}  // namespace

const std::vector<MeasuredChoice>& measured_choices() {
  static const std::vector<MeasuredChoice> choices = {
      {kGpu, problem_key(kBuiltIn), kBuiltInKernel, 1},
      {kGpu, problem_key(kBuiltIn), "sm90_128x128x64", 1},  // the first of two holds
      {kGpu, problem_key(kBuiltInNonsense), "sm90_gone", 1},
  };
  return choices;
}

}  // namespace vitamin

int main(int argc, char** argv) { return vitamin::run_checks(vitamin::kChecks, argc, argv); }
