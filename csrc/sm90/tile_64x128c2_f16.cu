#include "launch.cuh"

namespace vitamin::sm90 {

int launch_64x128c2_f16(const LaunchArgs& args) { return launch_tile<__half, k64x128c2>(args); }

}  // namespace vitamin::sm90
