// The launch functions of the Ampere ladder, one a step.
#pragma once

#include "../../dispatch/kernel_table.h"

namespace vitamin::sm80_ladder {

int launch_naive(const LaunchArgs& args);
int launch_bcf(const LaunchArgs& args);
int launch_bcf_dbf(const LaunchArgs& args);
int launch_bcf_dbf_rw(const LaunchArgs& args);

}  // namespace vitamin::sm80_ladder
