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

const std::vector<MeasuredChoice>& measured_choices();

}  // namespace vitamin
