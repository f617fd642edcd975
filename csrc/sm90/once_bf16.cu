#include "once_launch.cuh"

namespace vitamin::sm90 {

int launch_once_bf16(const LaunchArgs& args) { return launch_once<__nv_bfloat16>(args); }

}  // namespace vitamin::sm90
