#include "launch.cuh"

namespace vitamin::sm90 {

int launch_64x128_bf16(const LaunchArgs& args) { return launch_tile<__nv_bfloat16, k64x128>(args); }

}  // namespace vitamin::sm90
