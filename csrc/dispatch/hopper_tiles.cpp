#include <algorithm>
#include <initializer_list>
#include <list>
#include <string>

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
  // Work items are counted in 32 bits; 16x64 is the smallest tile.
  const double tiles = (p.m / 16 + 1.0) * (p.n / 16 + 1.0) * double(p.batch.count()) / 4;
  if (tiles * 32 >= 2e9) return "c has too many tiles";
  return p.k == 0 ? nullptr : unaligned(p);
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

const char* unsupported_by_once(const Problem& p) {
  if (p.k > kOnceK) return "K is above 1024";
  if (const char* reason = no_tma(p)) return reason;
  const double tiles = (p.m / 64 + 1.0) * (p.n / 64 + 1.0) * double(p.batch.count());
  return tiles >= 2e9 ? "c has too many tiles" : nullptr;
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
  e.cluster_m = 1;
  e.cluster_n = 1;
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

// How a tile is used: blocks of a cluster below each other and side by side in c.
struct ClusterShape {
  int m, n;
};

// Adds a tile's entries, one a shape of clusters. Swapped: the tile's rows are columns of c.
void add(std::vector<KernelEntry>* list, const sm90::Tile& t, bool swapped, const char* what,
         LaunchFunction launch, std::initializer_list<ClusterShape> shapes) {
  // Entries only point to their names.
  static std::list<std::string> names;
  const int rows = swapped ? t.n : t.m(), columns = swapped ? t.m() : t.n;
  for (const ClusterShape shape : shapes) {
    std::string name = std::string("sm90_") + std::to_string(rows) + "x" + std::to_string(columns) +
                       "x" + std::to_string(t.k);
    if (shape.m * shape.n > 1) {
      name += "_" + std::to_string(shape.m) + "x" + std::to_string(shape.n);
    }
    names.push_back(name);
    KernelEntry e = family_entry(names.back().c_str(), what, launch);
    e.tile_m = rows;
    e.tile_n = columns;
    e.tile_k = t.k;
    e.stages = t.stages_of(true);
    e.cluster_m = shape.m;
    e.cluster_n = shape.n;
    e.swapped = swapped;
    e.threads = t.threads();
    e.smem_bytes = std::max(t.smem_bytes(true), t.smem_bytes(false));
    e.blocks_per_sm = t.blocks_per_sm;
    e.unsupported = unsupported;
    list->push_back(e);
  }
}

}  // namespace

std::vector<KernelEntry> hopper_tiles() {
  using namespace sm90;
  std::vector<KernelEntry> list;
  add(&list, k128x256, false, "large", VITAMIN_TILE(sm90, 128x256), {{2, 1}, {1, 1}, {1, 2}});
  add(&list, k128x208, false, "large", VITAMIN_TILE(sm90, 128x208), {{2, 1}, {1, 2}});
  add(&list, k128x208, true, "large", VITAMIN_TILE(sm90, 128x208), {{1, 2}});
  add(&list, k128x192, false, "large", VITAMIN_TILE(sm90, 128x192), {{2, 1}, {1, 2}});
  add(&list, k128x192, true, "large", VITAMIN_TILE(sm90, 128x192), {{2, 1}, {1, 2}});
  add(&list, k128x176, false, "large", VITAMIN_TILE(sm90, 128x176), {{2, 1}, {1, 2}});
  add(&list, k128x176, true, "large", VITAMIN_TILE(sm90, 128x176), {{2, 1}, {1, 2}});
  add(&list, k192x160, false, "large", VITAMIN_TILE(sm90, 192x160), {{1, 2}});
  add(&list, k192x160, true, "large", VITAMIN_TILE(sm90, 192x160), {{2, 1}});
  add(&list, k192x112, false, "mid", VITAMIN_TILE(sm90, 192x112), {{2, 1}});
  add(&list, k192x112, true, "mid", VITAMIN_TILE(sm90, 192x112), {{2, 1}});
  add(&list, k192x96, false, "mid", VITAMIN_TILE(sm90, 192x96), {{2, 1}, {1, 2}});
  add(&list, k192x96, true, "mid", VITAMIN_TILE(sm90, 192x96), {{1, 1}});
  add(&list, k128x144, false, "mid", VITAMIN_TILE(sm90, 128x144), {{1, 1}, {1, 2}});
  add(&list, k128x144, true, "mid", VITAMIN_TILE(sm90, 128x144), {{1, 2}, {2, 2}});
  add(&list, k128x128, false, "mid", VITAMIN_TILE(sm90, 128x128),
      {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {1, 4}, {4, 2}});
  add(&list, k128x112, false, "mid", VITAMIN_TILE(sm90, 128x112), {{1, 1}, {2, 1}, {1, 2}, {1, 4}});
  add(&list, k128x112, true, "mid", VITAMIN_TILE(sm90, 128x112), {{2, 1}, {4, 1}});
  add(&list, k128x96, false, "mid", VITAMIN_TILE(sm90, 128x96), {{1, 1}, {1, 2}});
  add(&list, k128x96, true, "mid", VITAMIN_TILE(sm90, 128x96), {{1, 1}, {4, 1}});
  add(&list, k128x64, false, "small", VITAMIN_TILE(sm90, 128x64), {{1, 1}, {4, 1}});
  add(&list, k64x128, false, "small", VITAMIN_TILE(sm90, 64x128), {{2, 1}, {4, 1}});
  add(&list, k64x64, false, "smallest", VITAMIN_TILE(sm90, 64x64), {{1, 1}, {4, 1}, {1, 4}});
  add(&list, k128x48, true, "up to 48 rows, or some more", VITAMIN_TILE(sm90, 128x48),
      {{1, 1}, {1, 2}});
  add(&list, k128x32, false, "up to 32 columns", VITAMIN_TILE(sm90, 128x32), {{1, 1}, {4, 1}});
  add(&list, k128x16, false, "up to 16 columns", VITAMIN_TILE(sm90, 128x16), {{1, 1}});
  add(&list, k64x32, false, "up to 32 columns, few rows", VITAMIN_TILE(sm90, 64x32),
      {{1, 1}, {2, 1}, {1, 2}, {4, 1}, {1, 4}});
  add(&list, k64x16, false, "up to 16 columns, few rows", VITAMIN_TILE(sm90, 64x16),
      {{1, 1}, {2, 1}});
  add(&list, k128x64, true, "up to 64 rows", VITAMIN_TILE(sm90, 128x64), {{1, 1}, {1, 4}});
  add(&list, k128x32, true, "up to 32 rows", VITAMIN_TILE(sm90, 128x32), {{1, 1}, {1, 4}});
  add(&list, k128x16, true, "up to 16 rows", VITAMIN_TILE(sm90, 128x16), {{1, 1}, {1, 2}});
  add(&list, k64x32, true, "up to 32 rows, few columns", VITAMIN_TILE(sm90, 64x32), {{1, 1}});
  add(&list, k64x16, true, "up to 16 rows, few columns", VITAMIN_TILE(sm90, 64x16), {{1, 1}});
  KernelEntry once = family_entry("sm90_once", "a tile a block, K up to 1024, of any alignment",
                                  VITAMIN_TILE(sm90, once));
  once.tile_m = k64x64.m();
  once.tile_n = k64x64.n;
  once.tile_k = 64;
  once.work = Work::kOnce;
  once.threads = 8 * 32;
  once.smem_bytes = once_bytes(kOnceK);
  once.blocks_per_sm = once_blocks(8);
  once.any_align = true;
  once.unsupported = unsupported_by_once;
  list.push_back(once);
  list.push_back(stream("sm90_stream", "few rows or columns, of any alignment", Work::kStream,
                        kStreamBytes, unsupported_by_stream, VITAMIN_TILE(sm90, stream)));
  list.push_back(stream("sm90_shallow", "few rows or columns, K up to 128", Work::kShallow,
                        kShallowBytes, unsupported_by_shallow, VITAMIN_TILE(sm90, shallow)));
  return list;
}

}  // namespace vitamin
