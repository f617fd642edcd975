#include "shallow_launch.cuh"

namespace vitamin::sm90 {

int launch_shallow_bf16(const LaunchArgs& args) { return launch_shallow<__nv_bfloat16>(args); }

}  // namespace vitamin::sm90
