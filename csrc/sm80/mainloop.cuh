// The multistage main loop: cp.async fills a ring of shared-memory stages, ldmatrix feeds a double
// buffer of register fragments, mma.sync multiplies.
//
// Shared memory: Stages x { A tile, B tile }, each tile swizzled (common/swizzle.h).
//   K contiguous:      rows are m (or n), BK elements each
//   M or N contiguous: rows are k, BM (or BN) elements each
//
// One block barrier a k-tile, at its last k16 step: it says both that the next tile has landed for
// every thread and that nobody still reads the stage that the coming copies overwrite.
#pragma once

#include "../common/fragment.h"
#include "../common/tile_loader.cuh"
#include "../ptx/ldmatrix.cuh"
#include "../ptx/mma.cuh"

namespace vitamin::sm80 {

template <class T_, int BM_, int BN_, int BK_, int WM_, int WN_, int Stages_, bool ARow_,
          bool BRow_, bool AnyAlign_>
struct Config {
  using T = T_;
  static constexpr int BM = BM_, BN = BN_, BK = BK_, WM = WM_, WN = WN_, Stages = Stages_;
  static constexpr bool ARow = ARow_, BRow = BRow_, AnyAlign = AnyAlign_;
  static constexpr int WarpsM = BM / WM, WarpsN = BN / WN;
  static constexpr int Threads = WarpsM * WarpsN * 32;
  static constexpr int MI = WM / 16, NI = WN / 8;  // mma tiles a warp
  static constexpr int KSteps = BK / 16;
  static_assert(KSteps % 2 == 0, "the fragment double buffer alternates over whole k-tiles");
  static_assert(NI % 2 == 0, "ldmatrix.x4 reads two n8 blocks of B");

  using LoaderA = TileLoader<T, ARow ? BM : BK, ARow ? BK : BM, Threads, ARow, AnyAlign>;
  using LoaderB = TileLoader<T, BRow ? BK : BN, BRow ? BN : BK, Threads, !BRow, AnyAlign>;
  static constexpr int StageBytes = LoaderA::kBytes + LoaderB::kBytes;
  // The epilogue reuses the ring: a warp stages 8 rows of WN floats, padded by 8.
  static constexpr int PatchFloats = 8 * (WN + 8);
  static constexpr int EpilogueBytes = WarpsM * WarpsN * PatchFloats * 4;
  static constexpr int SmemBytes =
      StageBytes * Stages > EpilogueBytes ? StageBytes * Stages : EpilogueBytes;
};

// The lane's ldmatrix address for the 16x16 tile (mn16, k16) of one operand. The swizzle commutes
// with whole tiles along the contiguous index, so those are an xor and the others an addition.
template <bool KMajor, int Inner>
__device__ __forceinline__ uint32_t fragment_address(uint32_t lane_address, int mn16, int k16) {
  constexpr int row_tile = 16 * Inner * 2;
  return KMajor ? (lane_address ^ (k16 * 32)) + mn16 * row_tile
                : (lane_address ^ (mn16 * 32)) + k16 * row_tile;
}

template <class C>
class Mainloop {
 public:
  using T = typename C::T;

  // acc += A · B over `tiles` k-tiles, the last of which has `a_tail` indices of K to read in a and
  // `b_tail` in b. It is worked on first: only the prologue then needs to fill with zeros along K.
  // Interior: the output tile lies inside the matrix.
  template <bool Interior>
  __device__ __forceinline__ static void run(float (&acc)[C::MI][C::NI][4],
                                             typename C::LoaderA& load_a,
                                             typename C::LoaderB& load_b, uint32_t smem, int tiles,
                                             int a_tail, int b_tail) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int warp_m = warp % C::WarpsM * C::WM, warp_n = warp / C::WarpsM * C::WN;
    const uint32_t a_lane = lane_address<C::ARow, C::ARow ? C::BK : C::BM>(
        C::ARow ? ldmatrix_a_k_major(lane) : ldmatrix_a_m_major(lane), warp_m);
    const uint32_t b_lane = lane_address<!C::BRow, C::BRow ? C::BN : C::BK>(
        C::BRow ? ldmatrix_b_n_major(lane) : ldmatrix_b_k_major(lane), warp_n);

    int to_fetch = tiles;
#pragma unroll
    for (int s = 0; s < C::Stages - 1; ++s) {
      if (to_fetch > 0) {
        const uint32_t stage = smem + s * C::StageBytes;
        if (s == 0 && (a_tail < C::BK || b_tail < C::BK)) {
          load_a.load_tail(stage, tiles - 1, a_tail);
          load_b.load_tail(stage + C::LoaderA::kBytes, tiles - 1, b_tail);
        } else {
#pragma unroll
          for (int i = 0; i < kPasses; ++i) load_pass<Interior>(load_a, load_b, stage, i);
          load_a.next_k_tile();
          load_b.next_k_tile();
        }
        --to_fetch;
      }
      ptx::cp_async_commit();
    }
    ptx::cp_async_wait<C::Stages - 2>();
    __syncthreads();

    Fragments f[2];
    uint32_t read = smem;
    uint32_t write = smem + (C::Stages - 1) * C::StageBytes;
    const uint32_t end = smem + C::Stages * C::StageBytes;
#pragma unroll
    for (int i = 0; i < kFragmentLoads; ++i) load_fragment(f[0], i, read, a_lane, b_lane, 0);

#pragma unroll 1
    for (; tiles > 0; --tiles) {
#pragma unroll
      for (int step = 0; step < C::KSteps; ++step) {
        if (step == C::KSteps - 1) {
          read = read + C::StageBytes == end ? smem : read + C::StageBytes;
          ptx::cp_async_wait<C::Stages - 2>();
          __syncthreads();
        }
        // Each row of mma hides its share of the coming fragments and copies: issued in one go,
        // the copies fill the load-store queue and hold up whatever reuses their registers.
#pragma unroll
        for (int i = 0; i < C::MI; ++i) {
          constexpr int rows = C::MI > 1 ? C::MI / 2 : 1;  // fragments are due before the step ends
#pragma unroll
          for (int l = i * kFragmentLoads / rows;
               l < (i + 1) * kFragmentLoads / rows && l < kFragmentLoads; ++l) {
            load_fragment(f[(step + 1) % 2], l, read, a_lane, b_lane, (step + 1) % C::KSteps);
          }
          if (step < C::KSteps - 1) {
            constexpr int slots = (C::KSteps - 1) * C::MI;
            const int slot = step * C::MI + i;
#pragma unroll
            for (int pass = slot * kPasses / slots; pass < (slot + 1) * kPasses / slots; ++pass) {
              if (to_fetch > 0) load_pass<Interior>(load_a, load_b, write, pass);
            }
          }
          multiply_row(acc[i], f[step % 2].a[i], f[step % 2].b, i % 2);
        }
        if (step == C::KSteps - 2) {
          ptx::cp_async_commit();
          write = write + C::StageBytes == end ? smem : write + C::StageBytes;
          load_a.next_k_tile();
          load_b.next_k_tile();
          --to_fetch;
        }
      }
    }
    ptx::cp_async_wait<0>();
    __syncthreads();
  }

 private:
  static constexpr int kPasses = C::LoaderA::kPasses + C::LoaderB::kPasses;
  static constexpr int kFragmentLoads = C::MI + C::NI / 2;  // ldmatrix.x4 a k16 step

  struct Fragments {
    uint32_t a[C::MI][4];
    uint32_t b[C::NI][2];
  };

  // The lane's part of an ldmatrix address: its place in the warp's first 16x16 tile.
  template <bool KMajor, int Inner>
  __device__ __forceinline__ static uint32_t lane_address(RowChunk at, int warp_mn) {
    return 2 * (KMajor ? swizzled_offset<Inner>(warp_mn + at.row, at.chunk)
                       : swizzled_offset<Inner>(at.row, warp_mn / 8 + at.chunk));
  }

  template <bool Interior>
  __device__ __forceinline__ static void load_pass(const typename C::LoaderA& load_a,
                                                   const typename C::LoaderB& load_b,
                                                   uint32_t stage, int pass) {
    if (pass < C::LoaderA::kPasses) {
      load_a.template load_pass<Interior>(stage, pass);
    } else {
      load_b.template load_pass<Interior>(stage + C::LoaderA::kBytes, pass - C::LoaderA::kPasses);
    }
  }

  // Load `index` of a step's: the B fragments first, since the first row of mma needs all of them.
  __device__ __forceinline__ static void load_fragment(Fragments& f, int index, uint32_t stage,
                                                       uint32_t a_lane, uint32_t b_lane, int step) {
    if (index < C::NI / 2) {
      const uint32_t at = fragment_address<!C::BRow, C::BRow ? C::BN : C::BK>(
          stage + C::LoaderA::kBytes + b_lane, index, step);
      uint32_t r[4];
      if constexpr (C::BRow) {
        ptx::ldmatrix_x4_trans(r, at);
      } else {
        ptx::ldmatrix_x4(r, at);
      }
      f.b[2 * index][0] = r[0];
      f.b[2 * index][1] = r[1];
      f.b[2 * index + 1][0] = r[2];
      f.b[2 * index + 1][1] = r[3];
    } else {
      const int i = index - C::NI / 2;
      const uint32_t at =
          fragment_address<C::ARow, C::ARow ? C::BK : C::BM>(stage + a_lane, i, step);
      if constexpr (C::ARow) {
        ptx::ldmatrix_x4(f.a[i], at);
      } else {
        ptx::ldmatrix_x4_trans(f.a[i], at);
      }
    }
  }

  // Alternate rows run backwards, so that neighbouring mma share an operand.
  __device__ __forceinline__ static void multiply_row(float (&acc)[C::NI][4],
                                                      const uint32_t (&a)[4],
                                                      const uint32_t (&b)[C::NI][2],
                                                      bool backwards) {
#pragma unroll
    for (int j = 0; j < C::NI; ++j) {
      const int n = backwards ? C::NI - 1 - j : j;
      ptx::mma_m16n8k16<T>(acc[n], a, b[n]);
    }
  }
};

}  // namespace vitamin::sm80
