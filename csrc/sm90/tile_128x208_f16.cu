#include "launch.cuh"

namespace vitamin::sm90 {

int launch_128x208_f16(const LaunchArgs& args) { return launch_tile<__half, k128x208>(args); }

}  // namespace vitamin::sm90
