#include "measured.h"

namespace vitamin {
namespace {

// Fewer rows are the same work: what was measured for 16 of them is taken for less too, and for 32
// down to 17, where a tile of 16 is too small.
std::vector<MeasuredChoice> for_fewer_rows(std::vector<MeasuredChoice> choices) {
  const size_t measured = choices.size();
  for (size_t i = 0; i < measured; ++i) {
    const int64_t rows = choices[i].key[kKeyM];
    if (rows != 16 && rows != 32) continue;
    for (int64_t fewer = rows - 15; fewer < rows; ++fewer) {
      choices.push_back(choices[i]);
      choices.back().key[kKeyM] = fewer;
    }
  }
  return choices;
}

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
  static const std::vector<MeasuredChoice> choices = for_both_types(for_fewer_rows({
      // 256x28672x4096:nt bf16: sm90_128x112x64_2x1 101.9 us, not sm90_128x256x64_2x1 108.5 us
      {"NVIDIA H200",
       {256, 28672, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16},
       "sm90_128x112x64_2x1",
       1},
      // 128x2112x7168:nt bf16: sm90_128x64x64/3 14.0 us, not sm90_128x96x64_1x2/4 14.4 us
      {"NVIDIA H200", {128, 2112, 7168, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x64x64", 3},
      // 128x28672x4096:nt bf16: sm90_128x112x64_1x2 64.5 us, not sm90_128x256x64_1x2 68.3 us
      {"NVIDIA H200",
       {128, 28672, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16},
       "sm90_128x112x64_1x2",
       1},
      // 1024x1024x1024:nn bf16: sm90_64x128x64 6.4 us, not sm90_64x128x64_2x1 6.7 us
      {"NVIDIA H200", {1024, 1024, 1024, 1, 1, 1, 1, 0, 0, 0, 0, 64, 64, 16}, "sm90_64x128x64", 1},
      // 128x4096x4096:nt bf16: sm90_128x64x64/2 13.0 us, not sm90_128x96x64_1x2/2 15.2 us
      {"NVIDIA H200", {128, 4096, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x64x64", 2},
      // 256x4096x14336:nt bf16: sm90_128x128x64/2 50.4 us, not sm90_128x144x64_1x2/2 55.2 us
      {"NVIDIA H200", {256, 4096, 14336, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_128x128x64", 2},
      // 32x4096x4096:nt bf16: sm90_32x128x64/2 11.4 us, not sm90_32x128x64/3 12.2 us
      {"NVIDIA H200", {32, 4096, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_32x128x64", 2},
      // 64x4096x4096:nt bf16: sm90_64x128x64/2 12.6 us, not sm90_64x128x64/3 13.2 us
      {"NVIDIA H200", {64, 4096, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_64x128x64", 2},
      // 16x4096x4096:nt bf16: sm90_16x64x64/2 10.8 us, not sm90_16x128x64_1x2/3 11.6 us
      {"NVIDIA H200", {16, 4096, 4096, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_16x64x64", 2},
      // 8x151936x5120:nt bf16: sm90_16x128x64 358.1 us, not sm90_16x128x64_1x2 372.4 us
      {"NVIDIA H200", {8, 151936, 5120, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_16x128x64", 1},
      // 64x2112x7168:nt bf16: sm90_64x64x64/6 12.5 us, not sm90_64x128x64/6 13.6 us
      {"NVIDIA H200", {64, 2112, 7168, 1, 1, 1, 1, 0, 0, 1, 0, 64, 64, 16}, "sm90_64x64x64", 6},
      // 1000x1001x1002:nn bf16: sm90_64x128x64 11.8 us, not sm90_64x128x64_2x1 12.9 us
      {"NVIDIA H200", {1000, 1001, 1002, 1, 1, 1, 1, 0, 0, 0, 0, 4, 2, 2}, "sm90_64x128x64", 1},
      // 96x1024x64x1024:nn bf16: sm90_128x112x64_2x1 58.7 us, not sm90_128x64x64_4x1 60.1 us
      {"NVIDIA H200",
       {1024, 64, 1024, 96, 96, 96, 1, 0, 0, 0, 0, 64, 64, 16},
       "sm90_128x112x64_2x1",
       1},
      // 96x1024x1024x64:nt bf16: sm90_128x128x64_2x1 63.7 us, not sm90_128x256x64 66.4 us
      {"NVIDIA H200",
       {1024, 1024, 64, 96, 96, 96, 1, 0, 0, 1, 0, 64, 64, 16},
       "sm90_128x128x64_2x1",
       1},
  }));
  return choices;
}

}  // namespace vitamin
