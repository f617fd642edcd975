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
      // 2048x2048x2048:nn bf16: sm90_128x256x64 24.5 us, not sm90_128x256x64_2x1 25.1 us
      {"NVIDIA H200", {2048, 2048, 2048, 1, 1, 1, 1, 0, 0, 0, 0, 64, 64, 16}, "sm90_128x256x64", 1},
      // 128x28672x4096:nt bf16: sm90_128x128x64 64.3 us, not sm90_128x256x64 66.8 us
      {"NVIDIA H200", {128, 28672, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x128x64", 1},
      // 128x2112x7168:nt bf16: sm90_128x96x64/4 14.3 us, not sm90_128x144x64/8 16.5 us
      {"NVIDIA H200", {128, 2112, 7168, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x96x64", 4},
      // 128x4096x4096:nt bf16: sm90_128x64x64/2 13.3 us, not sm90_128x144x64/4 16.1 us
      {"NVIDIA H200", {128, 4096, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x64x64", 2},
      // 512x4096x4096:nt bf16: sm90_128x128x64 26.5 us, not sm90_128x144x64_2x1 30.5 us
      {"NVIDIA H200", {512, 4096, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x128x64", 1},
      // 128x7168x16384:nt bf16: sm90_128x112x64/2 65.2 us, not sm90_128x256x64/4 69.1 us
      {"NVIDIA H200", {128, 7168, 16384, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x112x64", 2},
      // 32x4096x4096:nt bf16: sm90_32x128x64/2 12.2 us, not sm90_64x64x64/2 12.9 us
      {"NVIDIA H200", {32, 4096, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_32x128x64", 2},
      // 16x4096x14336:nt bf16: sm90_16x128x64/2 31.6 us, not sm90_16x64x64/2 33.8 us
      {"NVIDIA H200", {16, 4096, 14336, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_16x128x64", 2},
      // 64x28672x4096:nt bf16: sm90_64x64x64 60.0 us, not sm90_128x256x64 64.1 us
      {"NVIDIA H200", {64, 28672, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_64x64x64", 1},
      // 1x4096x14336:nt bf16: sm90_16x128x64/2 30.9 us, not sm90_16x64x64/2 33.1 us
      {"NVIDIA H200", {1, 4096, 14336, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_16x128x64", 2},
      // 64x2112x7168:nt bf16: sm90_64x128x64/4 13.0 us, not sm90_64x64x64/4 16.0 us
      {"NVIDIA H200", {64, 2112, 7168, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_64x128x64", 4},
      // 1x4095x4095:nt bf16: sm90_stream/6 15.7 us, not sm90_stream/4 18.4 us
      {"NVIDIA H200", {1, 4095, 4095, 1, 1, 1, 1, 0, 0, 1, 0, 64, 2, 16}, "sm90_stream", 6},
      // 64x4097x4097:nt bf16: sm90_64x64x64/3 34.1 us, not sm90_64x64x64/2 35.8 us
      {"NVIDIA H200", {64, 4097, 4097, 1, 1, 1, 1, 0, 0, 1, 0, 2, 2, 2}, "sm90_64x64x64", 3},
      // 511x511x511:nn bf16: sm90_16x64x64 6.3 us, not sm90_64x64x64 8.2 us
      {"NVIDIA H200", {511, 511, 511, 1, 1, 1, 1, 0, 0, 0, 0, 2, 2, 2}, "sm90_16x64x64", 1},
      // 1000x1001x1002:nn bf16: sm90_64x128x64 11.9 us, not sm90_64x128x64_2x1 12.7 us
      {"NVIDIA H200", {1000, 1001, 1002, 1, 1, 1, 1, 0, 0, 0, 0, 4, 2, 2}, "sm90_64x128x64", 1},
      // 96x1024x1024x64:nt bf16: sm90_128x128x64 64.5 us, not sm90_128x256x64_2x1 66.7 us
      {"NVIDIA H200",
       {1024, 1024, 64, 96, 96, 96, 1, 0, 0, 1, 0, 64, 64, 16},
       "sm90_128x128x64",
       1},
  });
  return choices;
}

}  // namespace vitamin
