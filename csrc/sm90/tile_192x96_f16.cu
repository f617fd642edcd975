#include "launch.cuh"

namespace vitamin::sm90 {

int launch_192x96_f16(const LaunchArgs& args) { return launch_tile<__half, k192x96>(args); }

}  // namespace vitamin::sm90
