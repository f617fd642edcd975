#include "stream_launch.cuh"

namespace vitamin::sm90 {

int launch_stream_f16(const LaunchArgs& args) { return launch_stream<__half>(args); }

}  // namespace vitamin::sm90
