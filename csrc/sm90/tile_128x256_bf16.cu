#include "launch.cuh"

namespace vitamin::sm90 {

int launch_128x256_bf16(const LaunchArgs& args) {
  return launch_tile<__nv_bfloat16, k128x256>(args);
}

}  // namespace vitamin::sm90
