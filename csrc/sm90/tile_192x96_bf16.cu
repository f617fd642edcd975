#include "launch.cuh"

namespace vitamin::sm90 {

int launch_192x96_bf16(const LaunchArgs& args) { return launch_tile<__nv_bfloat16, k192x96>(args); }

}  // namespace vitamin::sm90
