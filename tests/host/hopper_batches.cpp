// Batches and views that plan() has no words for: which of them the production kernels of the
// Hopper path are given, and what they need of them. Links csrc/dispatch.
#include <cstring>
#include <string>
#include <vector>

#include "dispatch/select.h"
#include "dispatch/stream_shape.h"
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

void two_strides_are_not_given_to_the_tiles() {
  Problem p = product(256, 128, 64);
  add_batch(&p, 2, 6 * 256 * 64, 6 * 64 * 128, 5 * 256 * 128);
  add_batch(&p, 5, 256 * 64, 64 * 128, 256 * 128);
  REQUIRE(answer_of_all(p) == "the batch has more than one stride", "%s", answer_of_all(p).c_str());
  const auto list = candidates(p, h200(), "sm90");
  REQUIRE(count(list, "sm90") > 0 && count(list, "sm80") > 0, "a family is missing");
  for (const Candidate& candidate : list) {
    const KernelEntry& entry = *candidate.launch.kernel;
    REQUIRE(of_family(entry, "sm80") || entry.work != Work::kTiles, "%s", entry.name);
  }
  // With a larger operand that those for few rows or columns refuse, and K above 1024, all is
  // sm80's.
  p.a.layout = Layout::kStrided;
  p.a.col_stride = 2;
  p.a.align = 2;
  for (const char* kernel : {"auto", "sm90"}) {
    p.k = 64;
    const auto with_once = candidates(p, h200(), kernel);
    REQUIRE(count(with_once, "sm90") == 1 && count(with_once, "sm80") > 0, "%s", kernel);
    p.k = 1025;
    const auto others = candidates(p, h200(), kernel);
    REQUIRE(!others.empty() && count(others, "sm80") == int(others.size()), "%s", kernel);
  }
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

void only_the_larger_operand_needs_a_stride_of_1() {
  for (const char* name : {"sm90_stream", "sm90_shallow"}) {
    for (bool b_is_larger : {false, true}) {
      Problem p = b_is_larger ? product(5, 300, 77) : product(300, 5, 77);
      for (Matrix* x : {&p.a, &p.b}) {
        const Matrix before = *x;
        *x = {nullptr, 900, 3, Layout::kStrided, 2};
        Launch launch;
        const std::string answer = select(p, h200(), name, &launch);
        const bool larger = x == (b_is_larger ? &p.b : &p.a);
        REQUIRE(answer == (larger ? "neither stride of the larger operand is 1" : ""), "%s: %s",
                name, answer.c_str());
        *x = before;
      }
    }
  }
}

// Neither operand needs a stride of 1, nor any alignment, and batches may have several strides.
void a_block_a_tile_takes_any_operands() {
  for (int64_t k : {0, 1, 64, 1024, 1025}) {
    Problem p = product(300, 65, k);
    p.a = {nullptr, 900, 3, Layout::kStrided, 2};
    p.b = {nullptr, 7, 1000, Layout::kStrided, 2};
    add_batch(&p, 5, 7, 0, 6 * 300 * 65);
    add_batch(&p, 3, 0, 9, 300 * 65);
    Launch launch;
    const std::string answer = select(p, h200(), "sm90_once", &launch);
    REQUIRE(answer == (k > 1024 ? "K is above 1024" : ""), "K of %d: %s", int(k), answer.c_str());
    REQUIRE(k > 1024 || (launch.splits == 1 && launch.workspace_bytes == 0), "K of %d", int(k));
  }
}

// Of any distance, also of none; where the kernel for shallow K takes them.
void buffers_hold_the_rows_of_a_tile() {
  int taken = 0;
  for (int64_t k : {1, 13, 64, 128}) {
    for (int64_t distance : {int64_t(0), int64_t(1), k - 1, k, k + 1, int64_t(300),
                             int64_t(1) << 23, int64_t(1) << 31}) {
      Problem p = product(1000, 1, k);
      p.a.row_stride = distance;
      p.a.align = 2;
      Launch launch;
      if (!select(p, h200(), "sm90_shallow", &launch).empty()) continue;
      const ShallowShape s = shallow_shape(p);
      // Behind up to 14 bytes more, in whole pieces of 16.
      const int64_t rows = int64_t(kShallowThreads) * s.rows;
      const int64_t bytes = 14 + ((rows - 1) * distance + k) * 2;
      REQUIRE((bytes + 15) / 16 * 16 <= s.buffer_bytes, "K of %d, %lld apart: %lld bytes in %d",
              int(k), (long long)distance, (long long)bytes, int(s.buffer_bytes));
      ++taken;
    }
  }
  REQUIRE(taken > 10, "%d", taken);
}

const Checks kChecks = {
    {"batches_of_one_stride_are_one_launch", batches_of_one_stride_are_one_launch},
    {"two_strides_are_not_given_to_the_tiles", two_strides_are_not_given_to_the_tiles},
    {"overlapping_rows_are_not_copied", overlapping_rows_are_not_copied},
    {"no_terms_need_no_alignment", no_terms_need_no_alignment},
    {"copies_are_of_what_differs", copies_are_of_what_differs},
    {"only_the_larger_operand_needs_a_stride_of_1", only_the_larger_operand_needs_a_stride_of_1},
    {"a_block_a_tile_takes_any_operands", a_block_a_tile_takes_any_operands},
    {"buffers_hold_the_rows_of_a_tile", buffers_hold_the_rows_of_a_tile},
};

}  // namespace
}  // namespace vitamin

int main(int argc, char** argv) { return vitamin::run_checks(vitamin::kChecks, argc, argv); }
