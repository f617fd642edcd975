#include "launch.cuh"

namespace vitamin::sm90 {

int launch_128x112c2_f16(const LaunchArgs& args) { return launch_tile<__half, k128x112c2>(args); }

}  // namespace vitamin::sm90
