// Batches and views that plan() has no words for: which of them the production kernels of the
// Hopper path are given. Links csrc/dispatch.
#include <cstring>
#include <string>
#include <vector>

#include "dispatch/select.h"
#include "dispatch/workspace.h"
#include "problems.h"
#include "run_checks.h"

namespace vitamin {
namespace {

void add_batch(Problem* p, int64_t size, int64_t a, int64_t b, int64_t c) {
  Batch& batch = p->batch;
  batch.size[batch.dims] = size;
  batch.a[batch.dims] = a;
  batch.b[batch.dims] = b;
  batch.c[batch.dims++] = c;
}

bool of_family(const KernelEntry& entry, const char* family) {
  return std::strcmp(entry.family, family) == 0;
}

int count(const std::vector<Candidate>& list, const char* family) {
  int of_it = 0;
  for (const Candidate& candidate : list) of_it += of_family(*candidate.launch.kernel, family);
  return of_it;
}

// What each kernel of the family that needs TMA answers when it is asked for by name; all answer
// the same.
std::string answer_of_all(const Problem& p) {
  std::string answer;
  int asked = 0;
  for (const KernelEntry& entry : kernel_table()) {
    if (!of_family(entry, "sm90") || entry.any_align) continue;
    Launch launch;
    const std::string own = select(p, h200(), entry.name, &launch);
    REQUIRE(asked++ == 0 || own == answer, "%s: %s", entry.name, own.c_str());
    REQUIRE(!own.empty() || launch.kernel == &entry, "%s: another kernel", entry.name);
    answer = own;
  }
  REQUIRE(asked > 0, "no kernel of the family");
  return answer;
}

// That only kernels of sm80 are asked, also for the family.
void require_left_to_the_others(const Problem& p, const char* what) {
  for (const char* kernel : {"auto", "sm90"}) {
    const auto list = candidates(p, h200(), kernel);
    REQUIRE(!list.empty() && count(list, "sm90") == 0, "%s, %s", what, kernel);
    REQUIRE(count(list, "sm80") == int(list.size()), "%s, %s", what, kernel);
  }
  Launch launch;
  REQUIRE(select(p, h200(), "sm90", &launch).empty() && of_family(*launch.kernel, "sm80"), "%s",
          what);
}

void batches_of_one_stride_are_one_launch() {
  for (int64_t a : {int64_t(0), int64_t(256 * 64), int64_t(256 * 64 + 8)}) {
    for (int64_t b : {int64_t(0), int64_t(128 * 64 + 72)}) {
      Problem p = product(256, 128, 64);
      add_batch(&p, 12, a, b, 256 * 128);
      REQUIRE(answer_of_all(p).empty(), "strides %d and %d", int(a), int(b));
      const auto list = candidates(p, h200(), "sm90");
      REQUIRE(!list.empty() && count(list, "sm90") == int(list.size()), "strides %d and %d", int(a),
              int(b));
      REQUIRE(count(candidates(p, h200(), "auto"), "sm90") == int(list.size()), "auto");
    }
  }
}

void batches_of_two_strides_are_not_given_to_them() {
  Problem p = product(256, 128, 64);
  add_batch(&p, 2, 6 * 256 * 64, 6 * 64 * 128, 5 * 256 * 128);
  add_batch(&p, 5, 256 * 64, 64 * 128, 256 * 128);
  REQUIRE(answer_of_all(p) == "the batch has more than one stride", "%s", answer_of_all(p).c_str());
  require_left_to_the_others(p, "two strides");
}

// 60 elements from one row of 512 to the next: a copy would be 8 times as large as the memory.
void overlapping_rows_are_not_copied() {
  Problem p = product(1024, 128, 512);
  p.a.row_stride = 60;
  p.a.align = 8;
  REQUIRE(answer_of_all(p).find("rows of a are not 16-byte aligned") != std::string::npos, "%s",
          answer_of_all(p).c_str());
  const auto list = candidates(p, h200(), "sm90");
  REQUIRE(!list.empty(), "overlapping rows: none");
  for (const Candidate& candidate : list) {
    REQUIRE(candidate.launch.kernel->any_align, "%s", candidate.launch.kernel->name);
  }
  // Aligned rows may overlap: TMA reads them where they lie.
  p.a.row_stride = 64;
  p.a.align = 16;
  REQUIRE(answer_of_all(p).empty(), "%s", answer_of_all(p).c_str());
}

void no_terms_need_no_alignment() {
  Problem p = product(256, 128, 0);
  p.a.align = p.b.align = 2;
  REQUIRE(answer_of_all(p).empty(), "%s", answer_of_all(p).c_str());
}

// A copy of b for one matrix of a batch that shares it, in rows of whole lines.
void copies_are_of_what_differs() {
  Problem p = product(256, 130, 515);
  p.b.align = 2;
  p.a.row_stride = 520;
  add_batch(&p, 12, 256 * 520, 0, 256 * 130);
  for (const Candidate& candidate : candidates(p, h200(), "sm90")) {
    if (candidate.launch.kernel->any_align) continue;
    REQUIRE(!candidate.launch.repack_a && candidate.launch.repack_b, "%s",
            candidate.launch.kernel->name);
    REQUIRE(candidate.launch.workspace_bytes == 130 * 576 * 2, "%s: %d bytes",
            candidate.launch.kernel->name, int(candidate.launch.workspace_bytes));
  }
  const Repacked to = repacked(p, Operand::kB);
  REQUIRE(to.matrix.align == 16 && to.matrix.layout == Layout::kCol, "layout");
  REQUIRE(to.matrix.col_stride == 576 && to.pitch == 576 && to.batch_stride[0] == 0, "%d",
          int(to.pitch));
}

const Checks kChecks = {
    {"batches_of_one_stride_are_one_launch", batches_of_one_stride_are_one_launch},
    {"batches_of_two_strides_are_not_given_to_them", batches_of_two_strides_are_not_given_to_them},
    {"overlapping_rows_are_not_copied", overlapping_rows_are_not_copied},
    {"no_terms_need_no_alignment", no_terms_need_no_alignment},
    {"copies_are_of_what_differs", copies_are_of_what_differs},
};

}  // namespace
}  // namespace vitamin

int main(int argc, char** argv) { return vitamin::run_checks(vitamin::kChecks, argc, argv); }
