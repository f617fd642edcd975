// select() remembered: the cost model is too slow to run on every call.
#pragma once

#include <string>

#include "select.h"

namespace vitamin {

// As select(), for the GPU number `device_index` that `device` describes. Remembers the last
// choices of the calling thread, a bounded number of them, until the overrides change; never a
// failure.
std::string select_cached(const Problem& problem, const DeviceFacts& device, int device_index,
                          const char* kernel, Launch* launch);

}  // namespace vitamin
