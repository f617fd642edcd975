#include "launch.cuh"

namespace vitamin::sm90 {

int launch_16x128_bf16(const LaunchArgs& args) { return launch_tile<__nv_bfloat16, k16x128>(args); }

}  // namespace vitamin::sm90
