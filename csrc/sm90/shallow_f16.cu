#include "shallow_launch.cuh"

namespace vitamin::sm90 {

int launch_shallow_f16(const LaunchArgs& args) { return launch_shallow<__half>(args); }

}  // namespace vitamin::sm90
