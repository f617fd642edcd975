#include "launch.cuh"

namespace vitamin::sm80 {

int launch_any_128x128x32_f16(const LaunchArgs& args) {
  return launch_tile<__half, kAny128x128x32>(args);
}

}  // namespace vitamin::sm80
