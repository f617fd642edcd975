// The op library's overrides, for Python's ctypes: torch keeps a few bytes of every string that an
// op is given. The planning module has a table of its own.
#include <algorithm>

#include "../dispatch/overrides.h"

#define VITAMIN_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

vitamin::ProblemKey read_key(const int64_t* numbers) {
  vitamin::ProblemKey key;
  std::copy_n(numbers, key.size(), key.begin());
  return key;
}

}  // namespace

// `numbers` are the kKeyNumbers of a ProblemKey. Returns whether the override was taken.
VITAMIN_EXPORT bool vitamin_set_override(const char* gpu, const int64_t* numbers,
                                         const char* kernel, int splits) {
  return vitamin::set_override(gpu, read_key(numbers), kernel, splits);
}

VITAMIN_EXPORT void vitamin_remove_override(const char* gpu, const int64_t* numbers) {
  vitamin::remove_override(gpu, read_key(numbers));
}

VITAMIN_EXPORT void vitamin_clear_overrides() { vitamin::clear_overrides(); }
