#include "launch.cuh"

namespace vitamin::sm80 {

int launch_any_128x128x32_bf16(const LaunchArgs& args) {
  return launch_tile<__nv_bfloat16, kAny128x128x32>(args);
}

}  // namespace vitamin::sm80
