#include "launch.cuh"

namespace vitamin::sm90 {

int launch_128x208_bf16(const LaunchArgs& args) {
  return launch_tile<__nv_bfloat16, k128x208>(args);
}

}  // namespace vitamin::sm90
