"""The map of the production Hopper kernel: which tile is fastest where; drawn by plot.py."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks import portfolio
from benchmarks.figures import Rows, save, subtitle
from benchmarks.shapes import CLASSES

PALETTE = (
    *("#0072B2", "#56B4E9", "#882255", "#7B3F00", "#FFB6A6", "#009E73", "#E69F00", "#44AA99"),
    *("#999933", "#D55E00", "#F0E442", "#CC79A7", "#AA4499", "#BBBBBB", "#666666", "#332288"),
    *("#000000", "#117733", "#DDCC77", "#D73027"),
)
OTHER_WIDTHS = ("48", "96", "112", "144", "160", "176", "208")  # no multiples of 64


def _legend_title(title: str) -> str:
    """Of a tile in all its clusters; the other widths have one for all that are turned alike."""
    tile = title.split()[0]
    rows, _, columns = tile.partition("x")
    if columns in OTHER_WIDTHS:
        return "rows x other widths"
    return "other widths x columns" if rows in OTHER_WIDTHS else tile


LEGEND = {tile: _legend_title(title) for tile, title in portfolio.TILES.items()}
COLORS = dict(zip(dict.fromkeys(LEGEND.values()), PALETTE, strict=True))
# A panel: its title, and the K of its problems.
PANELS = (
    ("K up to 2048", range(0, 2049)),
    ("K of 4096 and 5120", range(2049, 6000)),
    ("K of 7168 and more", range(6000, 1 << 31)),
)


def points(rows: Rows, ks: range) -> list[portfolio.Measured]:
    """The plain problems of the suites whose K is in the range; where dots would hide each other,
    the first."""
    found = {}
    for problem in portfolio.measured([row for row in rows if row["suite"] in CLASSES]):
        shape = problem.shape
        if shape.batch == 0 and shape.k in ks:
            found.setdefault(
                (round(4 * math.log2(shape.m)), round(4 * math.log2(shape.n))), problem
            )
    return list(found.values())


def draw_map(plt, rows: Rows, path: Path) -> None:
    figure, all_axes = plt.subplots(1, len(PANELS), figsize=(12, 4.8), sharex=True, sharey=True)
    drawn = {}
    for axes, (title, ks) in zip(all_axes, PANELS, strict=True):
        for problem in points(rows, ks):
            m, n = problem.shape.m, problem.shape.n
            tile = LEGEND[problem.best["kernel"]]
            dot = axes.scatter(n, m, 60, color=COLORS[tile], edgecolors="black", linewidths=0.5)
            drawn[tile] = dot
            ratio = f"{float(problem.best['ratio_torch']):.2f}"
            text = portfolio.with_parts(ratio, problem.best)
            axes.annotate(text, (n, m), (5, 4), textcoords="offset points", fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        axes.set_xlabel("N")
        axes.margins(0.12)
        axes.grid(alpha=0.25)
    all_axes[0].set_ylabel("M")
    tiles = [tile for tile in COLORS if tile in drawn]
    figure.legend(
        [drawn[tile] for tile in tiles],
        tiles,
        loc="lower center",
        ncols=9,
        fontsize=8,
    )
    figure.suptitle(
        "The fastest tile by name, its speedup over torch and the parts of its K, bf16\n"
        + subtitle(rows),
        fontsize=9,
    )
    save(plt, figure, path, bottom=0.1)
