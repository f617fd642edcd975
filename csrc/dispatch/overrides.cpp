#include "overrides.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "measured.h"

namespace vitamin {
namespace {

constexpr size_t kMaxOverrides = size_t(1) << 16;

// Outside of the table, since every call reads it.
std::atomic<uint64_t> epoch{0};

using Place = std::pair<std::string, ProblemKey>;

Place place(const char* gpu, const ProblemKey& key) {
  constexpr char kVendor[] = "NVIDIA ";
  constexpr size_t kLength = sizeof(kVendor) - 1;
  return {std::strncmp(gpu, kVendor, kLength) == 0 ? gpu + kLength : gpu, key};
}

using Entries = std::map<Place, Override>;

Entries built_in() {
  Entries entries;
  for (const MeasuredChoice& choice : measured_choices()) {
    if (const KernelEntry* kernel = find_kernel(choice.kernel)) {
      entries.emplace(place(choice.gpu, choice.key), Override{kernel, choice.splits, false});
    }
  }
  return entries;
}

struct Table {
  std::shared_mutex lock;
  Entries entries = built_in();
};

Table& table() {
  static Table one;
  return one;
}

int64_t alignment_class(const Matrix& matrix) { return matrix.straight() ? 64 : matrix.align; }

}  // namespace

ProblemKey problem_key(const Problem& p) {
  return {p.m,
          p.n,
          p.k,
          p.batch.count(),
          p.batch.stored(p.batch.a),
          p.batch.stored(p.batch.b),
          int64_t(p.dtype),
          int64_t(p.out_f32),
          int64_t(p.a.layout),
          int64_t(p.b.layout),
          int64_t(p.c.layout),
          alignment_class(p.a),
          alignment_class(p.b),
          p.c.align};
}

std::optional<Override> find_override(const char* gpu, const ProblemKey& key) {
  Table& t = table();
  const std::shared_lock<std::shared_mutex> guard(t.lock);
  const auto found = t.entries.find(place(gpu, key));
  if (found == t.entries.end()) return std::nullopt;
  return found->second;
}

bool set_override(const char* gpu, const ProblemKey& key, const char* kernel, int splits) {
  const KernelEntry* entry = find_kernel(kernel);
  if (entry == nullptr) return false;
  const Place at = place(gpu, key);
  Table& t = table();
  const std::unique_lock<std::shared_mutex> guard(t.lock);
  if (t.entries.size() >= kMaxOverrides && t.entries.count(at) == 0) return false;
  t.entries[at] = {entry, splits, true};
  epoch.fetch_add(1, std::memory_order_release);
  return true;
}

void remove_override(const char* gpu, const ProblemKey& key) {
  const Place at = place(gpu, key);
  const Entries before = built_in();
  Table& t = table();
  const std::unique_lock<std::shared_mutex> guard(t.lock);
  t.entries.erase(at);
  const auto found = before.find(at);
  if (found != before.end()) t.entries.insert(*found);
  epoch.fetch_add(1, std::memory_order_release);
}

void clear_overrides() {
  Entries before = built_in();
  Table& t = table();
  const std::unique_lock<std::shared_mutex> guard(t.lock);
  t.entries = std::move(before);
  epoch.fetch_add(1, std::memory_order_release);
}

uint64_t overrides_epoch() { return epoch.load(std::memory_order_acquire); }

}  // namespace vitamin
