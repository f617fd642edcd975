#include "launch.cuh"

namespace vitamin::sm90 {

int launch_192x160_bf16(const LaunchArgs& args) {
  return launch_tile<__nv_bfloat16, k192x160>(args);
}

}  // namespace vitamin::sm90
