#include "launch.cuh"

namespace vitamin::sm90 {

int launch_32x128_f16(const LaunchArgs& args) { return launch_tile<__half, k32x128>(args); }

}  // namespace vitamin::sm90
