#include "launch.cuh"

namespace vitamin::sm90 {

int launch_64x16_bf16(const LaunchArgs& args) { return launch_tile<__nv_bfloat16, k64x16>(args); }

}  // namespace vitamin::sm90
