// The index maps of csrc/common, checked exhaustively on the host.
#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "common/fragment.h"
#include "common/gemm_params.h"
#include "common/raster.h"
#include "common/swizzle.h"
#include "run_checks.h"

namespace vitamin {
namespace {

constexpr int kBankGroups = 8;  // 16-byte groups of the 32 four-byte banks

int bank_group(int element_offset) { return element_offset * 2 / 16 % kBankGroups; }

// Calls check.operator()<Inner>() for every row width that a tile may have.
template <class Check>
void for_each_width(Check check) {
  check.template operator()<16>();
  check.template operator()<32>();
  check.template operator()<64>();
  check.template operator()<128>();
  check.template operator()<256>();
}

struct SwizzleIsBijective {
  template <int Inner>
  void operator()() const {
    constexpr int rows = 64, chunks = Inner / 8;
    std::vector<int> seen(rows * Inner / 8, 0);
    for (int row = 0; row < rows; ++row) {
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int at = swizzled_offset<Inner>(row, chunk);
        REQUIRE(at % 8 == 0, "width %d, row %d, chunk %d: splits a chunk", Inner, row, chunk);
        REQUIRE(at / Inner == row, "width %d, row %d, chunk %d: leaves its row", Inner, row, chunk);
        ++seen[at / 8];
      }
    }
    for (int count : seen) REQUIRE(count == 1, "width %d: %d chunks in one place", Inner, count);
  }
};

// ldmatrix reads one chunk of 8 consecutive rows in one go.
struct SwizzleReadsWithoutConflicts {
  template <int Inner>
  void operator()() const {
    for (int first = 0; first < 64; first += 8) {
      for (int chunk = 0; chunk < Inner / 8; ++chunk) {
        std::set<int> groups;
        for (int row = first; row < first + 8; ++row) {
          groups.insert(bank_group(swizzled_offset<Inner>(row, chunk)));
        }
        REQUIRE(groups.size() == kBankGroups, "width %d, rows from %d, chunk %d: %zu bank groups",
                Inner, first, chunk, groups.size());
      }
    }
  }
};

// The copies write the chunks of whole rows, 8 neighbouring chunks in one go.
struct SwizzleWritesWithoutConflicts {
  template <int Inner>
  void operator()() const {
    constexpr int chunks = Inner / 8;
    for (int first = 0; first < 64 * chunks; first += 8) {
      std::set<int> groups;
      for (int i = first; i < first + 8; ++i) {
        groups.insert(bank_group(swizzled_offset<Inner>(i / chunks, i % chunks)));
      }
      REQUIRE(groups.size() == kBankGroups, "width %d, chunks from %d: %zu bank groups", Inner,
              first, groups.size());
    }
  }
};

// What lets a lane compute its address once and derive those of the other 16x16 tiles.
struct SwizzleCommutesWithTiles {
  template <int Inner>
  void operator()() const {
    for (int row = 0; row < 16; ++row) {
      for (int chunk = 0; chunk < 2; ++chunk) {
        const int base = 2 * swizzled_offset<Inner>(row, chunk);
        for (int tile = 0; tile < Inner / 16; ++tile) {
          REQUIRE(2 * swizzled_offset<Inner>(row, chunk + 2 * tile) == (base ^ (tile * 32)),
                  "width %d, row %d, chunk %d, tile %d along the row", Inner, row, chunk, tile);
        }
        for (int tile = 0; tile < 8; ++tile) {
          REQUIRE(2 * swizzled_offset<Inner>(row + 16 * tile, chunk) == base + tile * 32 * Inner,
                  "width %d, row %d, chunk %d, tile %d down the rows", Inner, row, chunk, tile);
        }
      }
    }
  }
};

// The ladder's own formulas, in elements: A is 32 wide, B and C are 128 wide.
void swizzle_is_that_of_the_ladder() {
  for (int row = 0; row < 128; ++row) {
    for (int column = 0; column < 128; ++column) {
      const int a = row * 32 + (column % 32 ^ ((row >> 1 & 3) << 3));
      const int b = row * 128 + (column ^ ((row & 7) << 3));
      REQUIRE(swizzled_offset<32>(row, column % 32 / 8) + column % 8 == a, "A (%d, %d)", row,
              column % 32);
      REQUIRE(swizzled_offset<128>(row, column / 8) + column % 8 == b, "B (%d, %d)", row, column);
    }
  }
}

using Element = std::pair<int, int>;     // (row, column) of an operand tile
using Registers = std::vector<Element>;  // of one lane, two elements a register

// The four 8x8 matrices that ldmatrix.x4 hands to `lane` (PTX ISA, ldmatrix), read from a swizzled
// tile in which every element holds its own (row, column).
template <int Inner>
Registers ldmatrix_x4(RowChunk (*place)(int), bool transposed, int lane) {
  Registers got;
  for (int matrix = 0; matrix < 4; ++matrix) {
    for (int half = 0; half < 2; ++half) {
      const int pair = 2 * (lane % 4) + half;
      const int row = transposed ? pair : lane / 4;
      const int column = transposed ? lane / 4 : pair;
      const RowChunk at = place(8 * matrix + row);
      const int offset = swizzled_offset<Inner>(at.row, at.chunk) + column;
      const int stored_row = offset / Inner;
      const int stored_chunk = offset % Inner / 8 ^ swizzle_xor<Inner>(stored_row);
      got.emplace_back(stored_row, stored_chunk * 8 + offset % 8);
    }
  }
  return got;
}

// What mma.m16n8k16 takes from `lane` (PTX ISA): A as (m, k), and B as (k, n) of two n8 blocks.
Registers mma_a(int lane) {
  Registers want;
  for (int i = 0; i < 8; ++i) {
    want.emplace_back(lane / 4 + (i / 2 % 2) * 8, 2 * (lane % 4) + i % 2 + (i / 4) * 8);
  }
  return want;
}
Registers mma_b(int lane) {
  Registers want;
  for (int i = 0; i < 8; ++i) {
    want.emplace_back(2 * (lane % 4) + i % 2 + (i / 2 % 2) * 8, lane / 4 + (i / 4) * 8);
  }
  return want;
}

Registers flipped(Registers r) {
  for (auto& [row, column] : r) std::swap(row, column);
  return r;
}

struct FragmentsAreWhatMmaTakes {
  template <int Inner>
  void operator()() const {
    for (int lane = 0; lane < 32; ++lane) {
      REQUIRE(ldmatrix_x4<Inner>(ldmatrix_a_k_major, false, lane) == mma_a(lane),
              "A, K contiguous: width %d, lane %d", Inner, lane);
      REQUIRE(flipped(ldmatrix_x4<Inner>(ldmatrix_a_m_major, true, lane)) == mma_a(lane),
              "A, M contiguous: width %d, lane %d", Inner, lane);
      REQUIRE(flipped(ldmatrix_x4<Inner>(ldmatrix_b_k_major, false, lane)) == mma_b(lane),
              "B, K contiguous: width %d, lane %d", Inner, lane);
      REQUIRE(ldmatrix_x4<Inner>(ldmatrix_b_n_major, true, lane) == mma_b(lane),
              "B, N contiguous: width %d, lane %d", Inner, lane);
    }
  }
};

// Every 8-lane phase of every ldmatrix, at every 16x16 tile of a 64-row tile.
struct FragmentsReadWithoutConflicts {
  template <int Inner>
  void operator()() const {
    for (auto place :
         {ldmatrix_a_k_major, ldmatrix_a_m_major, ldmatrix_b_k_major, ldmatrix_b_n_major}) {
      for (int row = 0; row < 64; row += 16) {
        for (int chunk = 0; chunk < Inner / 8; chunk += 2) {
          for (int phase = 0; phase < 4; ++phase) {
            std::set<int> groups;
            for (int lane = 8 * phase; lane < 8 * phase + 8; ++lane) {
              const RowChunk at = place(lane);
              groups.insert(bank_group(swizzled_offset<Inner>(row + at.row, chunk + at.chunk)));
            }
            REQUIRE(groups.size() == kBankGroups, "width %d, row %d, chunk %d, phase %d: %zu",
                    Inner, row, chunk, phase, groups.size());
          }
        }
      }
    }
  }
};

void accumulators_cover_the_tile() {
  std::map<Element, int> seen;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = acc_row(lane, i), column = acc_col(lane, i);
      REQUIRE(row == lane / 4 + i / 2 * 8 && column == lane % 4 * 2 + i % 2,
              "lane %d, element %d: (%d, %d)", lane, i, row, column);
      ++seen[{row, column}];
    }
  }
  REQUIRE(seen.size() == 16 * 8, "%zu places", seen.size());
  REQUIRE(seen.begin()->first == Element(0, 0) && seen.rbegin()->first == Element(15, 7), "range");
}

void raster_visits_every_tile_once() {
  for (int64_t m = 1; m <= 20; ++m) {
    for (int64_t n = 1; n <= 20; ++n) {
      for (int width = 1; width <= 18; ++width) {
        std::vector<int> seen(m * n, 0);
        for (int64_t tile = 0; tile < m * n; ++tile) {
          const TileCoord at = strip_raster(tile, m, n, width);
          REQUIRE(at.m >= 0 && at.m < m && at.n >= 0 && at.n < n, "%dx%d tiles, width %d, tile %d",
                  int(m), int(n), width, int(tile));
          ++seen[at.m * n + at.n];
        }
        for (int count : seen) REQUIRE(count == 1, "%dx%d, width %d", int(m), int(n), width);
      }
    }
  }
}

void raster_takes_more_than_2_31_tiles() {
  const std::array<std::pair<int64_t, int64_t>, 3> grids = {
      {{int64_t(1) << 33, 5}, {5, int64_t(1) << 33}, {(1 << 20) + 3, (1 << 20) + 5}}};
  for (const auto& [m, n] : grids) {
    for (int width : {1, 8, 13}) {
      std::set<std::pair<int64_t, int64_t>> seen;
      int64_t asked = 0;
      for (int64_t base : {int64_t(0), m * n / 3, m * n / 2, m * n - 500}) {
        for (int64_t tile = base; tile < base + 500; ++tile, ++asked) {
          const TileCoord at = strip_raster(tile, m, n, width);
          REQUIRE(at.m >= 0 && at.m < m && at.n >= 0 && at.n < n, "width %d", width);
          seen.emplace(at.m, at.n);
        }
      }
      REQUIRE(int64_t(seen.size()) == asked, "width %d: a tile comes twice", width);
    }
  }
}

void splits_partition_the_k_tiles() {
  for (int count = 0; count <= 300; ++count) {
    for (int splits = 1; splits <= 70; ++splits) {
      int next = 0, shortest = count, longest = 0;
      for (int split = 0; split < splits; ++split) {
        const TileRange range = split_range(count, splits, split);
        REQUIRE(range.begin == next && range.end >= range.begin, "%d k-tiles, part %d of %d: %d-%d",
                count, split, splits, int(range.begin), int(range.end));
        shortest = std::min(shortest, int(range.end - range.begin));
        longest = std::max(longest, int(range.end - range.begin));
        next = range.end;
      }
      REQUIRE(next == count, "%d k-tiles in %d parts end at %d", count, splits, next);
      REQUIRE(longest - shortest <= 1, "%d k-tiles in %d parts: %d to %d", count, splits, shortest,
              longest);
    }
  }
}

void batch_offsets_follow_the_strides() {
  Batch batch;
  batch.dims = 3;
  const int64_t size[] = {3, 4, 5}, a[] = {1000, 0, 7}, b[] = {0, int64_t(1) << 33, 11},
                c[] = {20, 5, 1};
  for (int d = 0; d < 3; ++d) {
    batch.size[d] = size[d];
    batch.a[d] = a[d];
    batch.b[d] = b[d];
    batch.c[d] = c[d];
  }
  REQUIRE(batch.count() == 60, "%d", int(batch.count()));
  int64_t index = 0;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      for (int64_t l = 0; l < 5; ++l, ++index) {
        const BatchOffset at = batch_offset(batch, index);
        REQUIRE(at.a == i * a[0] + j * a[1] + l * a[2], "a at %d", int(index));
        REQUIRE(at.b == i * b[0] + j * b[1] + l * b[2], "b at %d", int(index));
        REQUIRE(at.c == index, "c at %d", int(index));
      }
    }
  }
  const BatchOffset none = batch_offset(Batch{}, 0);
  REQUIRE(none.a == 0 && none.b == 0 && none.c == 0, "no batch");
}

const Checks kChecks = {
    {"swizzle_is_bijective", [] { for_each_width(SwizzleIsBijective{}); }},
    {"swizzle_reads_without_conflicts", [] { for_each_width(SwizzleReadsWithoutConflicts{}); }},
    {"swizzle_writes_without_conflicts", [] { for_each_width(SwizzleWritesWithoutConflicts{}); }},
    {"swizzle_commutes_with_tiles", [] { for_each_width(SwizzleCommutesWithTiles{}); }},
    {"swizzle_is_that_of_the_ladder", swizzle_is_that_of_the_ladder},
    {"fragments_are_what_mma_takes", [] { for_each_width(FragmentsAreWhatMmaTakes{}); }},
    {"fragments_read_without_conflicts", [] { for_each_width(FragmentsReadWithoutConflicts{}); }},
    {"accumulators_cover_the_tile", accumulators_cover_the_tile},
    {"raster_visits_every_tile_once", raster_visits_every_tile_once},
    {"raster_takes_more_than_2_31_tiles", raster_takes_more_than_2_31_tiles},
    {"splits_partition_the_k_tiles", splits_partition_the_k_tiles},
    {"batch_offsets_follow_the_strides", batch_offsets_follow_the_strides},
};

}  // namespace
}  // namespace vitamin

int main(int argc, char** argv) { return vitamin::run_checks(vitamin::kChecks, argc, argv); }
