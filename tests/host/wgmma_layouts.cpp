// Where TMA puts the elements of an operand tile and where the descriptors of
// csrc/common/wgmma_descriptor.h make wgmma look for them, checked for every element on the host.
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "common/swizzle.h"
#include "common/wgmma_descriptor.h"
#include "run_checks.h"
#include "sm90/tiles.h"

namespace vitamin {
namespace {

constexpr int kDepth = 64;  // elements of K in a tile
constexpr int kRows[] = {8, 16, 32, 48, 64, 112, 128, 144, 176, 192, 208, 256};
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

// The main loop adds offsets to the low word: no step may carry into the fields above.
void steps_and_stages_stay_in_the_address() {
  for (int stage = 0; stage < 9; ++stage) {
    for (int step = 0; step < 4; ++step) {
      const uint32_t at = stage * 18432;
      const uint64_t first = k_major_descriptor<Swizzle::k128>(at, 128, 64, 0);
      REQUIRE(first + step * (k_major_offset<Swizzle::k128>(128, 0, 1) >> 4) ==
                  k_major_descriptor<Swizzle::k128>(at, 128, 64, step),
              "stage %d, step %d", stage, step);
      REQUIRE(mn_major_descriptor(at, 64, 0) + step * (mn_major_offset(0, 1) >> 4) ==
                  mn_major_descriptor(at, 64, step),
              "stage %d, step %d", stage, step);
    }
  }
}

// Of the production kernels: what their configuration takes for granted of each tile.
void production_tiles_fit_shared_memory() {
  using namespace sm90;
  for (const Tile& tile :
       {k128x256c2, k128x256, k128x192c2, k128x208c2, k128x176c2, k128x144c2, k128x144,  k128x128,
        k128x112c2, k128x112, k128x96c2,  k128x96,    k128x64,    k128x48,    k64x128c2, k64x64,
        k64x128,    k32x128,  k16x128,    k16x64,     kAny64x64,  kAny16x64}) {
    REQUIRE(tile.n % 8 == 0 && tile.n <= 256, "%d columns are no instruction", tile.n);
    REQUIRE(tile.boxes() <= 4, "%d columns", tile.n);
    REQUIRE(tile.b_rows(false) % 64 == 0 && tile.b_rows(false) >= tile.n, "%d columns", tile.n);
    REQUIRE(tile.m() * Tile::k * 2 % 1024 == 0, "%d rows", tile.m());
    REQUIRE(tile.staging_bytes() % 8192 == 0, "%d columns", tile.n);
    REQUIRE(tile.cluster == 1 || tile.n / tile.cluster % 8 == 0, "%d columns", tile.n);
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

const Checks kChecks = {
    {"k_major_tiles_are_read_as_tma_writes_them", k_major_tiles_are_read_as_tma_writes_them},
    {"mn_major_tiles_are_read_as_tma_writes_them", mn_major_tiles_are_read_as_tma_writes_them},
    {"swizzles_are_xors_of_the_row", swizzles_are_xors_of_the_row},
    {"descriptors_have_their_fields", descriptors_have_their_fields},
    {"steps_and_stages_stay_in_the_address", steps_and_stages_stay_in_the_address},
    {"production_tiles_fit_shared_memory", production_tiles_fit_shared_memory},
};

}  // namespace
}  // namespace vitamin

int main(int argc, char** argv) { return vitamin::run_checks(vitamin::kChecks, argc, argv); }
