#include "../sm90/ladder/steps.h"
#include "entries.h"

namespace vitamin {
namespace {

const char* unsupported(const Problem& p) {
  if (const char* reason = no_tma(p)) return reason;
  if (p.k == 0) return nullptr;  // nothing is read
  if (p.a.layout == Layout::kCol) {
    return "a is column-major and the Hopper ladder takes row-major a only";
  }
  if (p.b.layout == Layout::kRow) {
    return "b is row-major and the Hopper ladder takes b stored [N, K] only";
  }
  return unaligned(p);
}

struct Tile {
  int m, n, k, stages, threads, smem_bytes;
};

constexpr Tile kSimt{128, 128, 16, 1, 256, 16896};
constexpr Tile kTmaWgmma{128, 128, 64, 1, 256, 32784};
constexpr Tile warp_specialized(int stages) { return {128, 128, 64, stages, 384, stages * 32784}; }
constexpr Tile kWide{128, 256, 64, 4, 384, 4 * 49168};
constexpr Tile kWideStaged{128, 256, 64, 4, 384, 4 * 49168 + 32768};

KernelEntry entry(const char* family, const char* name, const char* what, const Tile& t,
                  LaunchFunction launch) {
  KernelEntry e{};
  e.name = name;
  e.family = family;
  e.what = what;
  e.min_cc = kHopper;
  e.max_cc = kHopper;
  e.tile_m = t.m;
  e.tile_n = t.n;
  e.tile_k = t.k;
  e.stages = t.stages;
  e.threads = t.threads;
  e.smem_bytes = t.smem_bytes;
  e.blocks_per_sm = t.threads == 256 ? 2 : 1;
  e.layouts = "nt";
  e.unsupported = unsupported;
  e.launch = launch;
  return e;
}

}  // namespace

#define VITAMIN_STEP(name, what, tile, function) \
  entry("ladder", name, what, tile, VITAMIN_LAUNCH(sm90_ladder::function))
#define VITAMIN_STUDY(name, what, tile, function) \
  entry("study", name, what, tile, VITAMIN_LAUNCH(sm90_ladder::function))

std::vector<KernelEntry> hopper_ladder() {
  return {
      VITAMIN_STEP("sm90_v1_simt", "shared-memory tiles on the CUDA cores", kSimt, launch_v1_simt),
      VITAMIN_STEP("sm90_v2_tma_wgmma", "TMA and WGMMA, in turn", kTmaWgmma, launch_v2_tma_wgmma),
      VITAMIN_STEP("sm90_v4_warp_specialized", "+ a producer and a ring of stages",
                   warp_specialized(4), launch_v4_warp_specialized),
      VITAMIN_STEP("sm90_v5_setmaxnreg", "+ 128x256 tile, registers for the consumers", kWide,
                   launch_v5_setmaxnreg),
      VITAMIN_STEP("sm90_v6_persistent", "+ one block an SM, loads under the epilogue", kWide,
                   launch_v6_persistent),
      VITAMIN_STEP("sm90_v8_cluster", "+ pairs of blocks share b by multicast", kWide,
                   launch_v8_cluster),
      VITAMIN_STEP("sm90_v10_tma_store", "+ c through shared memory by TMA", kWideStaged,
                   launch_v10_tma_store),
      VITAMIN_STEP("sm90_v11_hilbert", "+ Hilbert order, tuned loop", kWideStaged,
                   launch_v11_hilbert),
      VITAMIN_STUDY("sm90_v2_tma_wgmma_sw0", "step 2 without swizzle", kTmaWgmma,
                    launch_v2_tma_wgmma_sw0),
      VITAMIN_STUDY("sm90_v2_tma_wgmma_sw32", "step 2 with 32-byte swizzle", kTmaWgmma,
                    launch_v2_tma_wgmma_sw32),
      VITAMIN_STUDY("sm90_v2_tma_wgmma_sw64", "step 2 with 64-byte swizzle", kTmaWgmma,
                    launch_v2_tma_wgmma_sw64),
      VITAMIN_STUDY("sm90_v4_warp_specialized_s2", "step 4 with 2 stages", warp_specialized(2),
                    launch_v4_s2),
      VITAMIN_STUDY("sm90_v4_warp_specialized_s3", "step 4 with 3 stages", warp_specialized(3),
                    launch_v4_s3),
      VITAMIN_STUDY("sm90_v4_warp_specialized_s4", "step 4 with 4 stages", warp_specialized(4),
                    launch_v4_s4),
      VITAMIN_STUDY("sm90_v4_warp_specialized_s5", "step 4 with 5 stages", warp_specialized(5),
                    launch_v4_s5),
      VITAMIN_STUDY("sm90_v4_warp_specialized_s6", "step 4 with 6 stages", warp_specialized(6),
                    launch_v4_s6),
      VITAMIN_STUDY("sm90_v4_warp_specialized_l2_none", "step 4 without L2 promotion",
                    warp_specialized(4), launch_v4_l2_none),
      VITAMIN_STUDY("sm90_v4_warp_specialized_l2_64", "step 4 with L2 promotion to 64 bytes",
                    warp_specialized(4), launch_v4_l2_64),
      VITAMIN_STUDY("sm90_v4_warp_specialized_l2_128", "step 4 with L2 promotion to 128 bytes",
                    warp_specialized(4), launch_v4_l2_128),
      VITAMIN_STUDY("sm90_v4_warp_specialized_box_32", "step 4 with boxes of 32 rows",
                    warp_specialized(4), launch_v4_box_32),
      VITAMIN_STUDY("sm90_v4_warp_specialized_box_64", "step 4 with boxes of 64 rows",
                    warp_specialized(4), launch_v4_box_64),
      VITAMIN_STUDY("sm90_v8_cluster_1x2", "step 8 with pairs that share a", kWide,
                    launch_v8_cluster_1x2),
      VITAMIN_STUDY("sm90_v11_row", "step 11 in row-major order", kWideStaged, launch_v11_row),
      VITAMIN_STUDY("sm90_v11_grouped", "step 11 in strips", kWideStaged, launch_v11_grouped),
      VITAMIN_STUDY("sm90_v11_serpentine", "step 11 in serpentine strips", kWideStaged,
                    launch_v11_serpentine),
      VITAMIN_STUDY("sm90_v11_hilbert_nc", "step 11 without clusters", kWideStaged,
                    launch_v11_hilbert_nc),
      VITAMIN_STUDY("sm90_v11_row_nc", "step 11 in row-major order, no clusters", kWideStaged,
                    launch_v11_row_nc),
      VITAMIN_STUDY("sm90_v11_grouped_nc", "step 11 in strips, no clusters", kWideStaged,
                    launch_v11_grouped_nc),
      VITAMIN_STUDY("sm90_v11_serpentine_nc", "step 11 in serpentine strips, no clusters",
                    kWideStaged, launch_v11_serpentine_nc),
  };
}

}  // namespace vitamin
