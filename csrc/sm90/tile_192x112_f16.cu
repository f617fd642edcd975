#include "launch.cuh"

namespace vitamin::sm90 {

int launch_192x112_f16(const LaunchArgs& args) { return launch_tile<__half, k192x112>(args); }

}  // namespace vitamin::sm90
