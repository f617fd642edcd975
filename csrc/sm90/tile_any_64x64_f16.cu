#include "launch.cuh"

namespace vitamin::sm90 {

int launch_any_64x64_f16(const LaunchArgs& args) { return launch_tile<__half, kAny64x64>(args); }

}  // namespace vitamin::sm90
