#include "launch.cuh"

namespace vitamin::sm80 {

int launch_any_64x64x64_f16(const LaunchArgs& args) {
  return launch_tile<__half, kAny64x64x64>(args);
}

}  // namespace vitamin::sm80
