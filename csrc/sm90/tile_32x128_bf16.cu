#include "launch.cuh"

namespace vitamin::sm90 {

int launch_32x128_bf16(const LaunchArgs& args) { return launch_tile<__nv_bfloat16, k32x128>(args); }

}  // namespace vitamin::sm90
