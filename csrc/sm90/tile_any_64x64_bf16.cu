#include "launch.cuh"

namespace vitamin::sm90 {

int launch_any_64x64_bf16(const LaunchArgs& args) {
  return launch_tile<__nv_bfloat16, kAny64x64>(args);
}

}  // namespace vitamin::sm90
