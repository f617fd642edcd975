#include "stream_launch.cuh"

namespace vitamin::sm90 {

int launch_stream_bf16(const LaunchArgs& args) { return launch_stream<__nv_bfloat16>(args); }

}  // namespace vitamin::sm90
