#include <algorithm>

#include "../sm90/tiles.h"
#include "entries.h"
#include "stream_shape.h"

namespace vitamin {

// Coordinates, to the end of the last tile, are 32-bit; strides below 2^40 bytes.
const char* no_tma(const Problem& p) {
#ifdef VITAMIN_NO_SM90A
  return "this build has no code for sm_90a: VITAMIN_ARCHS left 90a out";
#endif
  constexpr int64_t kExtent = (int64_t(1) << 31) - 512, kStride = int64_t(1) << 39;
  const int64_t extent = std::max({p.m, p.n, p.k, p.batch.count()});
  const int64_t stride = std::max({p.a.row_stride, p.a.col_stride, p.b.row_stride, p.b.col_stride,
                                   p.c.row_stride, p.batch.a[0], p.batch.b[0], p.batch.c[0]});
  if (extent >= kExtent) return "an extent is 2^31 - 512 or more";
  if (stride >= kStride) return "a stride is 2^40 bytes or more";
  return nullptr;
}

namespace {

const char* unsupported(const Problem& p) {
  if (const char* reason = no_tma(p)) return reason;
  if (p.batch.dims > 1) return "the batch has more than one stride";
  // Work items are counted in 32 bits; 64 is the shorter side of the smallest tile but for few
  // rows.
  const double tiles = (p.m / 16 + 1.0) * (p.n / 64 + 1.0) * double(p.batch.count());
  if (tiles * 32 >= 2e9) return "c has too many tiles";
  return nullptr;
}

const char* unsupported_by_tma(const Problem& p) {
  const char* const reason = unsupported(p);
  return reason || p.k == 0 ? reason : unaligned(p);
}

const char* unsupported_by_stream(const Problem& p) {
  if (const char* reason = no_tma(p)) return reason;
  const StreamShape shape = stream_shape(p);
  const Matrix& wide = shape.wide_is_b ? p.b : p.a;
  if (wide.layout == Layout::kStrided) return "neither stride of the larger operand is 1";
  if (double(shape.blocks) * 8 >= 2e9) return "c has too many tiles";
  return nullptr;
}

const char* unsupported_by_shallow(const Problem& p) {
  if (p.k > kShallowK) return "K is above 128";
  if (const char* reason = unsupported_by_stream(p)) return reason;
  const ShallowShape shape = shallow_shape(p);
  const int64_t bytes = 2 * shape.buffer_bytes + shape.thin_bytes;
  return bytes > kShallowBytes ? "rows of the larger operand lie too far apart" : nullptr;
}

// What all kernels of the family have in common.
KernelEntry family_entry(const char* name, const char* what, LaunchFunction launch) {
  KernelEntry e{};
  e.name = name;
  e.family = "sm90";
  e.what = what;
  e.min_cc = kHopper;
  e.max_cc = kHopper;
  e.splits_in_cluster = true;
  e.main_loop_share = 1;
  e.layouts = "all";
  e.batched = true;
  e.launch = launch;
  return e;
}

KernelEntry stream(const char* name, const char* what, Work work, int smem_bytes,
                   const char* (*unsupported)(const Problem&), LaunchFunction launch) {
  KernelEntry e = family_entry(name, what, launch);
  e.tile_m = 8;
  e.tile_n = kStreamColumnTile;
  e.tile_k = kStreamRowStep;
  e.work = work;
  e.threads = 256;
  e.smem_bytes = smem_bytes;
  e.blocks_per_sm = 2;
  e.any_align = true;
  e.unsupported = unsupported;
  return e;
}

KernelEntry entry(const char* name, const char* what, const sm90::Tile& t, LaunchFunction launch) {
  KernelEntry e = family_entry(name, what, launch);
  e.tile_m = t.swapped ? t.n : t.m();
  e.tile_n = t.swapped ? t.m() : t.n;
  e.tile_k = t.k;
  e.stages = t.stages_of(true);
  e.cluster = t.cluster;
  e.swapped = t.swapped;
  e.threads = t.threads();
  e.smem_bytes = std::max(t.smem_bytes(true), t.smem_bytes(false));
  e.blocks_per_sm = t.blocks_per_sm;
  e.any_align = t.copies;
  e.unsupported = t.copies ? unsupported : unsupported_by_tma;
  return e;
}

// The same tile with the columns of c as its rows.
KernelEntry swapped(const char* name, const char* what, sm90::Tile t, LaunchFunction launch) {
  t.swapped = true;
  return entry(name, what, t, launch);
}

}  // namespace

std::vector<KernelEntry> hopper_tiles() {
  using namespace sm90;
  return {
      entry("sm90_128x256x64_2x1", "large, pairs of blocks share b", k128x256c2,
            VITAMIN_TILE(sm90, 128x256c2)),
      entry("sm90_128x256x64", "large", k128x256, VITAMIN_TILE(sm90, 128x256)),
      entry("sm90_128x192x64_2x1", "large, where its waves fit better", k128x192c2,
            VITAMIN_TILE(sm90, 128x192c2)),
      entry("sm90_128x208x64_2x1", "where 208 columns leave less over", k128x208c2,
            VITAMIN_TILE(sm90, 128x208c2)),
      swapped("sm90_208x128x64_1x2", "where 208 rows do", k128x208c2,
              VITAMIN_TILE(sm90, 128x208c2)),
      entry("sm90_128x176x64_2x1", "176 columns", k128x176c2, VITAMIN_TILE(sm90, 128x176c2)),
      swapped("sm90_176x128x64_1x2", "176 rows", k128x176c2, VITAMIN_TILE(sm90, 128x176c2)),
      entry("sm90_128x144x64_2x1", "144 columns", k128x144c2, VITAMIN_TILE(sm90, 128x144c2)),
      swapped("sm90_144x128x64_1x2", "144 rows", k128x144c2, VITAMIN_TILE(sm90, 128x144c2)),
      entry("sm90_128x144x64", "144 columns", k128x144, VITAMIN_TILE(sm90, 128x144)),
      swapped("sm90_144x128x64", "144 rows", k128x144, VITAMIN_TILE(sm90, 128x144)),
      entry("sm90_128x128x64", "mid", k128x128, VITAMIN_TILE(sm90, 128x128)),
      entry("sm90_128x112x64_2x1", "112 columns", k128x112c2, VITAMIN_TILE(sm90, 128x112c2)),
      swapped("sm90_112x128x64_1x2", "112 rows", k128x112c2, VITAMIN_TILE(sm90, 128x112c2)),
      entry("sm90_128x112x64", "112 columns", k128x112, VITAMIN_TILE(sm90, 128x112)),
      swapped("sm90_112x128x64", "112 rows", k128x112, VITAMIN_TILE(sm90, 128x112)),
      entry("sm90_128x96x64_2x1", "96 columns", k128x96c2, VITAMIN_TILE(sm90, 128x96c2)),
      swapped("sm90_96x128x64_1x2", "96 rows", k128x96c2, VITAMIN_TILE(sm90, 128x96c2)),
      entry("sm90_128x96x64", "96 columns", k128x96, VITAMIN_TILE(sm90, 128x96)),
      swapped("sm90_96x128x64", "96 rows", k128x96, VITAMIN_TILE(sm90, 128x96)),
      entry("sm90_128x64x64", "small", k128x64, VITAMIN_TILE(sm90, 128x64)),
      entry("sm90_128x48x64", "48 columns", k128x48, VITAMIN_TILE(sm90, 128x48)),
      swapped("sm90_48x128x64", "48 rows", k128x48, VITAMIN_TILE(sm90, 128x48)),
      entry("sm90_64x128x64_2x1", "small, pairs of blocks share b", k64x128c2,
            VITAMIN_TILE(sm90, 64x128c2)),
      entry("sm90_64x64x64", "smallest", k64x64, VITAMIN_TILE(sm90, 64x64)),
      entry("sm90_64x128x64", "up to 64 rows", k64x128, VITAMIN_TILE(sm90, 64x128)),
      entry("sm90_32x128x64", "up to 32 rows", k32x128, VITAMIN_TILE(sm90, 32x128)),
      entry("sm90_16x128x64", "up to 16 rows", k16x128, VITAMIN_TILE(sm90, 16x128)),
      entry("sm90_16x64x64", "up to 16 rows, few columns", k16x64, VITAMIN_TILE(sm90, 16x64)),
      entry("sm90_any_64x64x64", "small, rows of any alignment", kAny64x64,
            VITAMIN_TILE(sm90, any_64x64)),
      entry("sm90_any_16x64x64", "up to 16 rows, of any alignment", kAny16x64,
            VITAMIN_TILE(sm90, any_16x64)),
      stream("sm90_stream", "few rows or columns, of any alignment", Work::kStream, kStreamBytes,
             unsupported_by_stream, VITAMIN_TILE(sm90, stream)),
      stream("sm90_shallow", "few rows or columns, K up to 128", Work::kShallow, kShallowBytes,
             unsupported_by_shallow, VITAMIN_TILE(sm90, shallow)),
  };
}

}  // namespace vitamin
