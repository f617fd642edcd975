#include "launch.cuh"

namespace vitamin::sm90 {

int launch_128x32_f16(const LaunchArgs& args) { return launch_tile<__half, k128x32>(args); }

}  // namespace vitamin::sm90
