#include "kernel_table.h"

#include <cstring>

#include "../cublas/cublas.h"
#include "../sm80/ladder/steps.h"
#include "../sm80/tiles.h"
#include "entries.h"

namespace vitamin {

const char* unaligned(const Problem& p) {
  if (p.a.layout == Layout::kStrided) return "neither stride of a is 1";
  if (p.b.layout == Layout::kStrided) return "neither stride of b is 1";
  if (p.a.align < 16) return "the rows of a are not 16-byte aligned (base address or strides)";
  if (p.b.align < 16) return "the rows of b are not 16-byte aligned (base address or strides)";
  return nullptr;
}

namespace {

constexpr int kAmpere = 80;

const char* ladder_unsupported(const Problem& p) {
  if (p.a.layout == Layout::kCol) return "a is column-major and the ladder takes row-major a only";
  if (p.b.layout == Layout::kCol) return "b is column-major and the ladder takes row-major b only";
  return unaligned(p);
}

const char* nothing_unsupported(const Problem&) { return nullptr; }

KernelEntry baseline() {
  KernelEntry e{};
  e.name = "cublas";
  e.family = "cublas";
  e.what = "cublasGemmEx with fp32 compute: the baseline";
  e.min_cc = kAmpere;
  e.any_align = true;
  e.layouts = "all";
  e.batched = true;
  e.unsupported = cublas_unsupported;
  e.workspace = cublas_workspace_bytes;
  e.launch = VITAMIN_LAUNCH(cublas_launch);
  return e;
}

KernelEntry step(const char* name, const char* what, int stages, int smem_bytes,
                 LaunchFunction launch) {
  KernelEntry e{};
  e.name = name;
  e.family = "ladder";
  e.what = what;
  e.min_cc = kAmpere;
  e.tile_m = 128;
  e.tile_n = 128;
  e.tile_k = 32;
  e.stages = stages;
  e.threads = 256;
  e.smem_bytes = smem_bytes;
  e.blocks_per_sm = 2;
  e.layouts = "nn";
  e.unsupported = ladder_unsupported;
  e.launch = launch;
  return e;
}

KernelEntry tile(const char* name, const char* what, const sm80::Tile& t, LaunchFunction launch) {
  KernelEntry e{};
  e.name = name;
  e.family = "sm80";
  e.what = what;
  e.min_cc = kAmpere;
  e.tile_m = t.m;
  e.tile_n = t.n;
  e.tile_k = t.k;
  e.stages = t.stages;
  e.threads = t.threads();
  e.smem_bytes = t.smem_bytes();
  e.blocks_per_sm = t.blocks_per_sm;
  e.main_loop_share = t.main_loop_share;
  e.any_align = t.any_align;
  e.layouts = "all";
  e.batched = true;
  e.unsupported = t.any_align ? nothing_unsupported : unaligned;
  e.launch = launch;
  return e;
}

std::vector<KernelEntry> make_table() {
  using namespace sm80;
  std::vector<KernelEntry> table = {
      baseline(),
      step("sm80_naive", "cp.async, ldmatrix and mma.sync, in turn", 1, 16384,
           VITAMIN_LAUNCH(sm80_ladder::launch_naive)),
      step("sm80_bcf", "+ swizzled shared tiles: no bank conflicts", 1, 16384,
           VITAMIN_LAUNCH(sm80_ladder::launch_bcf)),
      step("sm80_bcf_dbf", "+ two buffers: copies run under the mma", 2, 32768,
           VITAMIN_LAUNCH(sm80_ladder::launch_bcf_dbf)),
      step("sm80_bcf_dbf_rw", "+ C through shared memory: 16-byte coalesced stores", 2, 32768,
           VITAMIN_LAUNCH(sm80_ladder::launch_bcf_dbf_rw)),
  };
  const std::vector<KernelEntry> hopper = hopper_ladder();
  table.insert(table.end(), hopper.begin(), hopper.end());
  const std::vector<KernelEntry> tiles = hopper_tiles();
  table.insert(table.end(), tiles.begin(), tiles.end());
  const std::vector<KernelEntry> production = {
      tile("sm80_256x128x64", "large, needs 192 KB", k256x128x64, VITAMIN_TILE(sm80, 256x128x64)),
      tile("sm80_128x256x64", "large and wide, needs 192 KB", k128x256x64,
           VITAMIN_TILE(sm80, 128x256x64)),
      tile("sm80_256x128x32", "large, within 99 KB", k256x128x32, VITAMIN_TILE(sm80, 256x128x32)),
      tile("sm80_128x128x64", "mid", k128x128x64, VITAMIN_TILE(sm80, 128x128x64)),
      tile("sm80_64x64x64", "small", k64x64x64, VITAMIN_TILE(sm80, 64x64x64)),
      tile("sm80_16x128x64", "few rows", k16x128x64, VITAMIN_TILE(sm80, 16x128x64)),
      tile("sm80_128x16x64", "few columns", k128x16x64, VITAMIN_TILE(sm80, 128x16x64)),
      tile("sm80_any_128x128x32", "mid, rows of any alignment", kAny128x128x32,
           VITAMIN_TILE(sm80, any_128x128x32)),
      tile("sm80_any_64x64x64", "small, rows of any alignment", kAny64x64x64,
           VITAMIN_TILE(sm80, any_64x64x64)),
  };
  table.insert(table.end(), production.begin(), production.end());
  return table;
}

}  // namespace

const std::vector<KernelEntry>& kernel_table() {
  static const std::vector<KernelEntry> table = make_table();
  return table;
}

const KernelEntry* find_kernel(const char* name) {
  for (const KernelEntry& entry : kernel_table()) {
    if (std::strcmp(entry.name, name) == 0) return &entry;
  }
  return nullptr;
}

}  // namespace vitamin
