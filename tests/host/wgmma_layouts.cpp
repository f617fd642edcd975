// Where TMA puts the elements of an operand tile and where the descriptors of
// csrc/common/wgmma_descriptor.h make wgmma look for them, checked for every element on the host;
// and what the production kernels take for granted of their tiles. Links csrc/dispatch.
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "common/swizzle.h"
#include "common/wgmma_descriptor.h"
#include "dispatch/entries.h"
#include "run_checks.h"
#include "sm90/tiles.h"

namespace vitamin {
namespace {

constexpr int kDepth = 64;  // elements of K in a tile
constexpr int kRows[] = {8, 16, 32, 48, 64, 96, 112, 128, 144, 160, 176, 192, 208, 256};
// Of stages in shared memory.
constexpr uint32_t kTiles[] = {0, 1024, 49152, 3 * 49152 + 16384};

// What the hardware exchanges: 16-byte chunks, by the number of the 128-byte line they are in.
uint32_t swizzled(uint32_t address, Swizzle swizzle) {
  const uint32_t chunks = span_bytes(swizzle) / 16;
  return address ^ (((address >> 7) & (chunks - 1)) << 4);
}

// The fields of a descriptor, as the PTX ISA has them.
struct Fields {
  uint32_t address, lead, stride, base_offset;
  Swizzle swizzle;

  explicit Fields(uint64_t bits)
      : address(uint32_t(bits & 0x3fff) << 4),
        lead(uint32_t(bits >> 16 & 0x3fff) << 4),
        stride(uint32_t(bits >> 32 & 0x3fff) << 4),
        base_offset(uint32_t(bits >> 49 & 7)),
        swizzle(Swizzle(bits >> 62)) {}
};

// The byte at which an instruction that is given `descriptor` reads element (row, k) of its own.
uint32_t k_major_place(Fields descriptor, int row, int k) {
  const uint32_t line = row / 8 * descriptor.stride;
  if (descriptor.swizzle == Swizzle::kNone) {
    return descriptor.address + line + k / 8 * descriptor.lead + row % 8 * 16 + k % 8 * 2;
  }
  return swizzled(
      descriptor.address + line + row % 8 * span_bytes(descriptor.swizzle) + k / 8 * 16 + k % 8 * 2,
      descriptor.swizzle);
}
uint32_t mn_major_place(Fields descriptor, int row, int k) {
  return swizzled(descriptor.address + row / 64 * descriptor.lead + k / 8 * descriptor.stride +
                      k % 8 * 128 + row % 64 * 2,
                  descriptor.swizzle);
}

// Notes which element of a tile is read at each of its bytes, and where that is wrong.
class Reads {
 public:
  explicit Reads(int rows) : times_(rows * kDepth) {}
  void read(int64_t offset) {
    REQUIRE(offset >= 0 && offset % 2 == 0 && offset / 2 < int64_t(times_.size()), "at byte %d",
            int(offset));
    ++times_[offset / 2];
  }
  void require_each_once() const {
    for (int times : times_) REQUIRE(times == 1, "an element is read %d times", times);
  }

 private:
  std::vector<int> times_;
};

// By instructions of 64 rows (of a) and of all rows (of b).
template <Swizzle S>
void k_major_tiles_are_read() {
  constexpr int span = span_bytes(S);
  for (int rows : kRows) {
    for (int height : {rows % 64 ? rows : 64, rows}) {
      for (uint32_t tile : kTiles) {
        Reads reads(rows);
        for (int i = 0; i < rows * kDepth; ++i) {
          const int row = i / kDepth, k = i % kDepth, first = row / height * height;
          const Fields from(k_major_descriptor<S>(tile, rows, first, k / 16));
          const uint32_t place = k_major_place(from, row - first, k % 16);
          const int block = k * 2 / span, byte = k * 2 % span;
          const uint32_t box = tile + block * rows * span;
          REQUIRE(place == swizzled(box + row * span + byte, S), "%d rows, swizzle %d: (%d, %d)",
                  rows, int(S), row, k);
          reads.read(int64_t(place) - tile);
        }
        reads.require_each_once();
      }
    }
  }
}
void k_major_tiles_are_read_as_tma_writes_them() {
  k_major_tiles_are_read<Swizzle::kNone>();
  k_major_tiles_are_read<Swizzle::k32>();
  k_major_tiles_are_read<Swizzle::k64>();
  k_major_tiles_are_read<Swizzle::k128>();
}

void mn_major_tiles_are_read_as_tma_writes_them() {
  for (int rows : {64, 128, 192, 256}) {
    for (int height : {64, rows}) {
      for (uint32_t tile : kTiles) {
        Reads reads(rows);
        for (int i = 0; i < rows * kDepth; ++i) {
          const int row = i / kDepth, k = i % kDepth, first = row / height * height;
          const Fields from(mn_major_descriptor(tile, first, k / 16));
          const uint32_t place = mn_major_place(from, row - first, k % 16);
          const uint32_t box = tile + row / 64 * (kDepth * 128);
          REQUIRE(place == swizzled(box + k * 128 + row % 64 * 2, Swizzle::k128),
                  "%d rows: (%d, %d)", rows, row, k);
          reads.read(int64_t(place) - tile);
        }
        reads.require_each_once();
      }
    }
  }
}

// The header's words for it: chunk c of row r lies at chunk c ^ swizzle_xor(r).
template <Swizzle S>
void require_the_xor() {
  constexpr int span = span_bytes(S);
  for (int row = 0; row < 256; ++row) {
    for (int chunk = 0; chunk < span / 16; ++chunk) {
      const uint32_t want = row * span + (chunk ^ swizzle_xor<span / 2>(row)) * 16;
      REQUIRE(swizzled(row * span + chunk * 16, S) == want, "row %d, chunk %d", row, chunk);
    }
  }
}
void swizzles_are_xors_of_the_row() {
  require_the_xor<Swizzle::k32>();
  require_the_xor<Swizzle::k64>();
  require_the_xor<Swizzle::k128>();
}

void descriptors_have_their_fields() {
  for (uint32_t address : {0u, 1024u, 196608u, 0x3fc00u}) {
    const Fields fields(wgmma_descriptor(address, 8192, 1024, Swizzle::k64));
    REQUIRE(fields.address == address && fields.lead == 8192 && fields.stride == 1024, "at %u",
            address);
    REQUIRE(fields.base_offset == 0 && fields.swizzle == Swizzle::k64, "at %u", address);
    // Shared addresses of a cluster have more bits, which are no part of it.
    REQUIRE(wgmma_descriptor(address | 1u << 24, 8192, 1024, Swizzle::k64) ==
                wgmma_descriptor(address, 8192, 1024, Swizzle::k64),
            "at %u", address);
  }
  REQUIRE(uint64_t(Swizzle::kNone) == 0 && uint64_t(Swizzle::k128) == 1 &&
              uint64_t(Swizzle::k64) == 2 && uint64_t(Swizzle::k32) == 3,
          "as the PTX ISA numbers them");
}

// Of the production kernels.
constexpr sm90::Tile kProductionTiles[] = {
    sm90::k128x256, sm90::k192x160, sm90::k192x112, sm90::k192x96,  sm90::k128x208,
    sm90::k128x192, sm90::k128x176, sm90::k128x144, sm90::k128x128, sm90::k128x112,
    sm90::k128x96,  sm90::k128x64,  sm90::k128x48,  sm90::k128x32,  sm90::k128x16,
    sm90::k64x128,  sm90::k64x64,   sm90::k64x32,   sm90::k64x16};

// The main loop adds offsets to the low word: no step or stage may carry into the fields above.
void steps_and_stages_stay_in_the_address() {
  constexpr Swizzle k128 = Swizzle::k128;
  constexpr uint32_t start = 1024;
  for (const sm90::Tile& tile : kProductionTiles) {
    for (const bool k_major : {true, false}) {
      for (int stage = 0; stage < tile.stages_of(k_major); ++stage) {
        const uint32_t offset = stage * tile.stage_bytes(k_major), at = start + offset;
        for (int step = 0; step < 4; ++step) {
          REQUIRE(k_major_descriptor<k128>(start, 128, 64, 0) + (offset >> 4) +
                          step * (k_major_offset<k128>(128, 0, 1) >> 4) ==
                      k_major_descriptor<k128>(at, 128, 64, step),
                  "stage %d, step %d", stage, step);
          REQUIRE(mn_major_descriptor(start, 64, 0) + (offset >> 4) +
                          step * (mn_major_offset(0, 1) >> 4) ==
                      mn_major_descriptor(at, 64, step),
                  "stage %d, step %d", stage, step);
        }
      }
    }
  }
}

// What the configuration of the production kernels takes for granted of each tile.
void production_tiles_fit_shared_memory() {
  using sm90::Tile;
  for (const Tile& tile : kProductionTiles) {
    // An instruction takes multiples of 8 columns; 16 are stored at once.
    REQUIRE(tile.n % 16 == 0 && tile.n <= 256, "%d columns are no instruction", tile.n);
    REQUIRE(tile.boxes() <= 4, "%d columns", tile.n);
    REQUIRE(tile.b_rows(false) % 64 == 0 && tile.b_rows(false) >= tile.n, "%d columns", tile.n);
    REQUIRE(tile.m() * Tile::k * 2 % 1024 == 0, "%d rows", tile.m());
    REQUIRE(tile.staging_bytes() % 8192 == 0, "%d columns", tile.n);
    REQUIRE(tile.threads() * tile.blocks_per_sm <= 1024, "%d threads", tile.threads());
    for (const bool k_major : {true, false}) {
      const int stages = tile.stages_of(k_major), smem = tile.smem_bytes(k_major);
      // Tiles of a and b, and boxes of c, begin where a swizzle does.
      REQUIRE(tile.stage_bytes(k_major) % 1024 == 0, "%d columns", tile.n);
      REQUIRE(tile.stage_bytes(k_major) >= (tile.m() + tile.n) * Tile::k * 2, "%d columns", tile.n);
      REQUIRE(stages >= 3 && stages <= tile.stages, "%d columns: %d stages", tile.n, stages);
      REQUIRE((smem + 1024) * tile.blocks_per_sm <= 228 * 1024, "%d columns: %d bytes", tile.n,
              smem);
      // The parts of a split K are left where the stages were.
      REQUIRE(tile.m() * tile.n * 4 <= stages * tile.stage_bytes(k_major), "%d columns", tile.n);
    }
  }
}

// An SM has 65536, a thread up to 255; they change hands in eights.
void production_tiles_fit_the_registers() {
  for (const sm90::Tile& tile : kProductionTiles) {
    REQUIRE(tile.producers() >= 64 && tile.producers() % 32 == 0, "%d columns", tile.n);
    if (!tile.moves_registers()) continue;
    // As many producers, and as many registers of each, as kernel.cuh has.
    const int registers = 128 * 40 + tile.consumers * 128 * tile.registers();
    REQUIRE(tile.producers() == 128 && tile.blocks_per_sm == 1, "%d columns", tile.n);
    REQUIRE(registers <= 65536, "%d columns: %d registers", tile.n, registers);
    REQUIRE(tile.registers() % 8 == 0 && tile.registers() < 256, "%d columns", tile.n);
    // Accumulators and half as many packed ones, where c leaves through shared memory.
    const int held = tile.n / 2 + (tile.boxes() > 0 ? tile.n / 4 : 0);
    REQUIRE(held + 16 <= tile.registers(), "%d columns: %d registers", tile.n, held);
  }
}

// Blocks side by side copy a part each of their rows of a; those below each other, of their columns
// of b: parts of whole swizzles, 8 rows.
void production_clusters_share_whole_swizzles() {
  int sharing = 0;
  bool used[std::size(kProductionTiles)] = {};
  for (const KernelEntry& e : hopper_tiles()) {
    const int m = e.cluster_m, n = e.cluster_n;
    REQUIRE(m >= 1 && n >= 1 && m * n <= 8, "%s has %d blocks", e.name, m * n);
    REQUIRE((m & (m - 1)) == 0 && (n & (n - 1)) == 0, "%s: no powers of 2", e.name);
    REQUIRE(e.work == Work::kTiles || m * n == 1, "%s has no clusters", e.name);
    if (e.work != Work::kTiles) continue;
    REQUIRE(e.tile_m % (8 * n) == 0, "%s: %d rows in %d parts", e.name, e.tile_m, n);
    REQUIRE(e.tile_n % (8 * m) == 0, "%s: %d columns in %d parts", e.name, e.tile_n, m);
    // Or lines of K, where the other index is contiguous.
    REQUIRE(e.tile_k % (8 * std::max(m, n)) == 0, "%s: K", e.name);
    // The tile is one of those above, and its rows, 64 a consumer, are what the entry says.
    const int rows = e.swapped ? e.tile_n : e.tile_m, columns = e.swapped ? e.tile_m : e.tile_n;
    const auto is_it = [&](const sm90::Tile& t) { return t.m() == rows && t.n == columns; };
    const auto* tile =
        std::find_if(std::begin(kProductionTiles), std::end(kProductionTiles), is_it);
    REQUIRE(tile != std::end(kProductionTiles), "%s: no such tile", e.name);
    REQUIRE(e.threads == tile->threads() && e.blocks_per_sm == tile->blocks_per_sm, "%s", e.name);
    used[tile - std::begin(kProductionTiles)] = true;
    sharing += m * n > 1;
  }
  REQUIRE(sharing > 0, "no clusters");
  REQUIRE(std::count(std::begin(used), std::end(used), false) == 0, "a tile without an entry");
}

const Checks kChecks = {
    {"k_major_tiles_are_read_as_tma_writes_them", k_major_tiles_are_read_as_tma_writes_them},
    {"mn_major_tiles_are_read_as_tma_writes_them", mn_major_tiles_are_read_as_tma_writes_them},
    {"swizzles_are_xors_of_the_row", swizzles_are_xors_of_the_row},
    {"descriptors_have_their_fields", descriptors_have_their_fields},
    {"steps_and_stages_stay_in_the_address", steps_and_stages_stay_in_the_address},
    {"production_tiles_fit_shared_memory", production_tiles_fit_shared_memory},
    {"production_tiles_fit_the_registers", production_tiles_fit_the_registers},
    {"production_clusters_share_whole_swizzles", production_clusters_share_whole_swizzles},
};

}  // namespace
}  // namespace vitamin

int main(int argc, char** argv) { return vitamin::run_checks(vitamin::kChecks, argc, argv); }
