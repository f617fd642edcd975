#include "measured.h"

namespace vitamin {
namespace {

// What was measured in bf16 is taken for fp16 too.
std::vector<MeasuredChoice> for_both_types(std::vector<MeasuredChoice> choices) {
  const size_t measured = choices.size();
  for (size_t i = 0; i < measured; ++i) {
    choices.push_back(choices[i]);
    choices.back().key[kKeyDtype] = int64_t(DType::kF16);
  }
  return choices;
}

}  // namespace

const std::vector<MeasuredChoice>& measured_choices() {
  // Printed by benchmarks/measured.py from the named problems of
  // benchmarks/results/sm90-tiles-h200.csv.
  static const std::vector<MeasuredChoice> choices = for_both_types({
      // 128x28672x4096:nt bf16: sm90_128x128x64 65.6 us, not sm90_128x256x64 67.8 us
      {"NVIDIA H200", {128, 28672, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x128x64", 1},
      // 512x4096x14336:nt bf16: sm90_128x128x64 83.9 us, not sm90_128x256x64/2 86.8 us
      {"NVIDIA H200", {512, 4096, 14336, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x128x64", 1},
      // 128x7168x16384:nt bf16: sm90_64x128x64_2x1 65.5 us, not sm90_128x256x64/4 69.4 us
      {"NVIDIA H200",
       {128, 7168, 16384, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16},
       "sm90_64x128x64_2x1",
       1},
      // 128x2112x7168:nt bf16: sm90_128x64x64/3 14.3 us, not sm90_128x128x64/6 16.6 us
      {"NVIDIA H200", {128, 2112, 7168, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x64x64", 3},
      // 1024x1024x1024:nn bf16: sm90_128x64x64 6.3 us, not sm90_64x128x64_2x1 6.5 us
      {"NVIDIA H200", {1024, 1024, 1024, 1, 1, 1, 1, 0, 0, 0, 0, 64, 64, 16}, "sm90_128x64x64", 1},
      // 32x4096x4096:nt bf16: sm90_128x64x64/2 12.4 us, not sm90_64x64x64/2 12.7 us
      {"NVIDIA H200", {32, 4096, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x64x64", 2},
      // 64x28672x4096:nt bf16: sm90_64x64x64 61.6 us, not sm90_64x128x64 64.4 us
      {"NVIDIA H200", {64, 28672, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_64x64x64", 1},
      // 64x2112x7168:nt bf16: sm90_64x128x64/4 12.6 us, not sm90_64x64x64/4 15.8 us
      {"NVIDIA H200", {64, 2112, 7168, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_64x128x64", 4},
      // 2048x2048x2048:nn bf16: sm90_128x256x64 24.9 us, not sm90_128x256x64_2x1 25.7 us
      {"NVIDIA H200", {2048, 2048, 2048, 1, 1, 1, 1, 0, 0, 0, 0, 64, 64, 16}, "sm90_128x256x64", 1},
      // 96x1024x1024x64:nt bf16: sm90_128x128x64 65.4 us, not sm90_128x256x64_2x1 67.0 us
      {"NVIDIA H200",
       {1024, 1024, 64, 96, 96, 96, 1, 0, 0, 1, 0, 64, 64, 16},
       "sm90_128x128x64",
       1},
      // 2048x50257x768:nt bf16: sm90_128x256x64 309.9 us, not sm90_128x256x64_2x1 339.6 us
      {"NVIDIA H200", {2048, 50257, 768, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 2}, "sm90_128x256x64", 1},
  });
  return choices;
}

}  // namespace vitamin
