#include "launch.cuh"

namespace vitamin::sm80 {

int launch_256x128x32_bf16(const LaunchArgs& args) {
  return launch_tile<__nv_bfloat16, k256x128x32>(args);
}

}  // namespace vitamin::sm80
