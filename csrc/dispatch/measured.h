// The choices that are built in, from recorded measurements.
#pragma once

#include <vector>

#include "overrides.h"

namespace vitamin {

struct MeasuredChoice {
  const char* gpu;
  ProblemKey key;
  const char* kernel;
  int splits;
};

// Of two for the same problem the first holds: what was measured comes before what is taken from
// it.
const std::vector<MeasuredChoice>& measured_choices();

}  // namespace vitamin
