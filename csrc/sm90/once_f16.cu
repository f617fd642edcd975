#include "once_launch.cuh"

namespace vitamin::sm90 {

int launch_once_f16(const LaunchArgs& args) { return launch_once<__half>(args); }

}  // namespace vitamin::sm90
