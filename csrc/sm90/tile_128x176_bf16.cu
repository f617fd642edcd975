#include "launch.cuh"

namespace vitamin::sm90 {

int launch_128x176_bf16(const LaunchArgs& args) {
  return launch_tile<__nv_bfloat16, k128x176>(args);
}

}  // namespace vitamin::sm90
