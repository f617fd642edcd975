#include "launch.cuh"

namespace vitamin::sm90 {

int launch_192x112_bf16(const LaunchArgs& args) {
  return launch_tile<__nv_bfloat16, k192x112>(args);
}

}  // namespace vitamin::sm90
