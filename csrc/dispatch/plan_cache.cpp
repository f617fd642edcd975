#include "plan_cache.h"

#include <cstring>
#include <memory>

#include "overrides.h"

namespace vitamin {
namespace {

constexpr int kSlots = 128;  // a power of two
constexpr int kNameBytes = 64;

// All of a problem but its addresses, whose alignment the matrices hold; and the state of the
// overrides.
struct Key {
  char kernel[kNameBytes] = {};
  int64_t numbers[13 + 4 * kMaxBatchDims] = {};
};

uint64_t pack(const Matrix& matrix) {
  return uint64_t(matrix.layout) << 8 | uint64_t(matrix.align);
}

Key make_key(const Problem& problem, int device_index, const char* kernel) {
  Key key;
  std::strncpy(key.kernel, kernel, kNameBytes - 1);
  int64_t* next = key.numbers;
  *next++ = int64_t(overrides_epoch());
  *next++ = problem.m;
  *next++ = problem.n;
  *next++ = problem.k;
  for (const Matrix* matrix : {&problem.a, &problem.b, &problem.c}) {
    *next++ = matrix->row_stride;
    *next++ = matrix->col_stride;
  }
  *next++ = problem.bias_stride;
  *next++ = int64_t(pack(problem.a) | pack(problem.b) << 16 | pack(problem.c) << 32);
  *next++ = int64_t(problem.dtype) | int64_t(problem.out_f32) << 8 |
            int64_t(problem.has_bias) << 16 | int64_t(problem.activation) << 24 |
            int64_t(problem.batch.dims) << 32 | int64_t(device_index) << 40;
  for (int i = 0; i < problem.batch.dims; ++i) {
    *next++ = problem.batch.size[i];
    *next++ = problem.batch.a[i];
    *next++ = problem.batch.b[i];
    *next++ = problem.batch.c[i];
  }
  return key;
}

uint64_t hash(const Key& key) {
  uint64_t words[sizeof(Key) / sizeof(uint64_t)];
  std::memcpy(words, &key, sizeof(Key));
  uint64_t value = 0;
  for (uint64_t word : words) {
    value = (value ^ word) * 0x9e3779b97f4a7c15u;
    value ^= value >> 32;
  }
  return value;
}

struct Slot {
  Key key;
  Launch launch;
};

}  // namespace

std::string select_cached(const Problem& problem, const DeviceFacts& device, int device_index,
                          const char* kernel, Launch* launch) {
  thread_local const std::unique_ptr<Slot[]> slots = std::make_unique<Slot[]>(kSlots);
  const Key key = make_key(problem, device_index, kernel);
  Slot& slot = slots[hash(key) % kSlots];
  if (slot.launch.kernel != nullptr && std::memcmp(&slot.key, &key, sizeof(Key)) == 0) {
    *launch = slot.launch;
    return {};
  }
  std::string reason = select(problem, device, kernel, launch);
  if (reason.empty()) slot = {key, *launch};
  return reason;
}

}  // namespace vitamin
