#include "launch.cuh"

namespace vitamin::sm90 {

int launch_128x32_bf16(const LaunchArgs& args) { return launch_tile<__nv_bfloat16, k128x32>(args); }

}  // namespace vitamin::sm90
