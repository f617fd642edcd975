// The orders of csrc/common/tile_order.h, checked exhaustively on the host.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "common/tile_order.h"
#include "run_checks.h"

namespace vitamin {
namespace {

constexpr Order kOrders[] = {Order::kRow, Order::kGrouped, Order::kSerpentine, Order::kHilbert};

// Calls check(tiles_m, tiles_n) for every small grid and for large ones of each parity and aspect.
template <class Check>
void for_each_grid(Check check) {
  for (int m = 1; m <= 40; ++m) {
    for (int n = 1; n <= 40; ++n) check(m, n);
  }
  for (int m = 41; m <= 80; ++m) {
    check(m, m);
    check(m, m + 1);
  }
  const std::pair<int, int> large[] = {{1, 1000},  {2, 1001},  {3, 700},   {3, 2048}, {4, 999},
                                       {64, 32},   {63, 1000}, {128, 64},  {127, 64}, {129, 65},
                                       {1001, 64}, {509, 503}, {512, 1024}};
  for (const auto& [m, n] : large) {
    check(m, n);
    check(n, m);
  }
}

int64_t distance(TileCoord x, TileCoord y) { return std::abs(x.m - y.m) + std::abs(x.n - y.n); }

void every_tile_comes_once() {
  for_each_grid([](int m, int n) {
    for (Order order : kOrders) {
      for (int group : {1, 2, 3, 8}) {
        std::vector<int> seen(m * n, 0);
        for (int index = 0; index < m * n; ++index) {
          const TileCoord at = order_tile(order, index, m, n, group);
          REQUIRE(at.m >= 0 && at.m < m && at.n >= 0 && at.n < n, "%dx%d, order %d of %d, tile %d",
                  m, n, int(order), group, index);
          ++seen[at.m * n + at.n];
        }
        for (int count : seen)
          REQUIRE(count == 1, "%dx%d, order %d of %d", m, n, int(order), group);
      }
    }
  });
}

void row_and_grouped_are_what_they_say() {
  for_each_grid([](int m, int n) {
    for (int index = 0; index < m * n; ++index) {
      const TileCoord row = order_tile(Order::kRow, index, m, n, 8);
      REQUIRE(row.m * n + row.n == index, "%dx%d, tile %d", m, n, index);
      const TileCoord grouped = order_tile(Order::kGrouped, index, m, n, 8);
      REQUIRE(distance(grouped, strip_raster(index, m, n, 8)) == 0, "%dx%d, tile %d", m, n, index);
    }
  });
}

void serpentine_steps_to_neighbours() {
  for_each_grid([](int m, int n) {
    for (int group : {1, 2, 3, 8}) {
      TileCoord before = order_tile(Order::kSerpentine, 0, m, n, group);
      for (int index = 1; index < m * n; ++index) {
        const TileCoord at = order_tile(Order::kSerpentine, index, m, n, group);
        const bool same_strip = index % (m * group) != 0;
        REQUIRE(same_strip == (at.n / group == before.n / group), "%dx%d of %d, tile %d", m, n,
                group, index);
        if (same_strip || m % 2 || group == 1) {
          REQUIRE(distance(at, before) == 1, "%dx%d of %d, tile %d", m, n, group, index);
        } else {
          REQUIRE(at.m == before.m && at.n == before.n + group, "%dx%d of %d, tile %d", m, n, group,
                  index);
        }
        before = at;
      }
    }
  });
}

void hilbert_steps_to_neighbours() {
  for_each_grid([](int m, int n) {
    TileCoord before = order_tile(Order::kHilbert, 0, m, n, 8);
    REQUIRE(before.m == 0 && before.n == 0, "%dx%d starts elsewhere", m, n);
    for (int index = 1; index < m * n; ++index) {
      const TileCoord at = order_tile(Order::kHilbert, index, m, n, 8);
      REQUIRE(distance(at, before) == 1, "%dx%d, tile %d", m, n, index);
      before = at;
    }
  });
}

// What makes a curve Hilbert's: it finishes each quarter of each quarter before it goes on.
void hilbert_is_hilberts_own_where_there_is_one() {
  for (int side = 2; side <= 64; side *= 2) {
    for (int part = 2; part <= side; part *= 2) {
      for (int index = 0; index < side * side; ++index) {
        const TileCoord first =
            order_tile(Order::kHilbert, index / (part * part) * part * part, side, side, 8);
        const TileCoord at = order_tile(Order::kHilbert, index, side, side, 8);
        REQUIRE(at.m / part == first.m / part && at.n / part == first.n / part,
                "%d of %d tiles, tile %d", part, side, index);
      }
    }
  }
}

// The most rows and columns of tiles that `window` tiles in a row touch, added up.
int widest_window(Order order, int m, int n, int window) {
  std::vector<int> rows(m), columns(n);
  int touched = 0, worst = 0;
  for (int index = 0; index < m * n; ++index) {
    const TileCoord in = order_tile(order, index, m, n, 8);
    touched += (rows[in.m]++ == 0) + (columns[in.n]++ == 0);
    if (index >= window) {
      const TileCoord out = order_tile(order, index - window, m, n, 8);
      touched -= (--rows[out.m] == 0) + (--columns[out.n] == 0);
    }
    worst = std::max(worst, touched);
  }
  return worst;
}

// 132 tiles are one wave of an H100 or H200; a square of them would touch 12 + 11.
void waves_are_compact() {
  constexpr int kWave = 132;
  const int row = widest_window(Order::kRow, 64, 64, kWave);
  REQUIRE(row == 64 + 4, "row-major: %d", row);
  for (Order order : {Order::kGrouped, Order::kSerpentine, Order::kHilbert}) {
    const int worst = widest_window(order, 64, 64, kWave);
    REQUIRE(worst <= row / 2, "order %d: %d", int(order), worst);
  }
  // A last strip of one column is as tall as the wave is long; the curve stays compact.
  REQUIRE(widest_window(Order::kGrouped, 65, 65, kWave) > row, "strips");
  for (int m = 60; m <= 70; ++m) {
    for (int n = 60; n <= 70; ++n) {
      const int worst = widest_window(Order::kHilbert, m, n, kWave);
      REQUIRE(worst <= row / 2 + 4, "Hilbert on %dx%d: %d", m, n, worst);
    }
  }
}

void hilbert_takes_almost_2_32_tiles() {
  const std::pair<int64_t, int64_t> grids[] = {{65535, 65537},  {65535, 65536},  {65536, 65535},
                                               {1, 4294967295}, {4294967295, 1}, {2, 2147483647},
                                               {2147483647, 2}, {3, 1431655765}, {1431655764, 3}};
  for (const auto& [m, n] : grids) {
    REQUIRE(m * n < int64_t(1) << 32, "too large");
    for (int64_t base : {int64_t(0), m * n / 5, m * n / 2, m * n / 4 * 3, m * n - 2000}) {
      std::set<std::pair<int64_t, int64_t>> seen;
      TileCoord before{};
      for (int64_t index = base; index < base + 2000; ++index) {
        const TileCoord at = order_tile(Order::kHilbert, index, m, n, 8);
        REQUIRE(at.m >= 0 && at.m < m && at.n >= 0 && at.n < n, "%lldx%lld", (long long)m,
                (long long)n);
        REQUIRE(index == base || distance(at, before) == 1, "%lldx%lld", (long long)m,
                (long long)n);
        seen.emplace(at.m, at.n);
        before = at;
      }
      REQUIRE(seen.size() == 2000, "%lldx%lld: a tile comes twice", (long long)m, (long long)n);
    }
  }
}

const Checks kChecks = {
    {"every_tile_comes_once", every_tile_comes_once},
    {"row_and_grouped_are_what_they_say", row_and_grouped_are_what_they_say},
    {"serpentine_steps_to_neighbours", serpentine_steps_to_neighbours},
    {"hilbert_steps_to_neighbours", hilbert_steps_to_neighbours},
    {"hilbert_is_hilberts_own_where_there_is_one", hilbert_is_hilberts_own_where_there_is_one},
    {"waves_are_compact", waves_are_compact},
    {"hilbert_takes_almost_2_32_tiles", hilbert_takes_almost_2_32_tiles},
};

}  // namespace
}  // namespace vitamin

int main(int argc, char** argv) { return vitamin::run_checks(vitamin::kChecks, argc, argv); }
