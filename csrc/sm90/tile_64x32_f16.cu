#include "launch.cuh"

namespace vitamin::sm90 {

int launch_64x32_f16(const LaunchArgs& args) { return launch_tile<__half, k64x32>(args); }

}  // namespace vitamin::sm90
