#include "launch.cuh"

namespace vitamin::sm80 {

int launch_256x128x64_f16(const LaunchArgs& args) { return launch_tile<__half, k256x128x64>(args); }

}  // namespace vitamin::sm80
