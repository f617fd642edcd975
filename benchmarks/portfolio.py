"""What the tables and the map of the production Hopper kernel are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from benchmarks import records
from benchmarks.figures import Rows
from benchmarks.shapes import CLASSES, Shape

# In the order of the kernel table: rows and columns of c, and blocks of a cluster that share tiles.
TITLES = (
    *("128x256 2x1", "128x256", "128x256 1x2"),
    *("128x208 2x1", "128x208 1x2", "208x128 1x2"),
    *("128x192 2x1", "128x192 1x2", "192x128 2x1", "192x128 1x2"),
    *("128x176 2x1", "128x176 1x2", "176x128 2x1", "176x128 1x2"),
    *("192x160 1x2", "160x192 2x1"),
    *("192x112 2x1", "112x192 2x1"),
    *("192x96 2x1", "192x96 1x2", "96x192"),
    *("128x144", "128x144 1x2", "144x128 1x2", "144x128 2x2"),
    *("128x128", "128x128 2x1", "128x128 2x2", "128x128 4x1", "128x128 1x4", "128x128 4x2"),
    *("128x112", "128x112 2x1", "128x112 1x2", "128x112 1x4", "112x128 2x1", "112x128 4x1"),
    *("128x96", "128x96 1x2", "96x128", "96x128 4x1"),
    *("128x64", "128x64 4x1"),
    *("64x128 2x1", "64x128 4x1"),
    *("64x64", "64x64 4x1", "64x64 1x4"),
    *("48x128", "48x128 1x2"),
    *("128x32", "128x32 4x1"),
    "128x16",
    *("64x32", "64x32 2x1", "64x32 1x2", "64x32 4x1", "64x32 1x4"),
    *("64x16", "64x16 2x1"),
    *("64x128", "64x128 1x4"),
    *("32x128", "32x128 1x4"),
    *("16x128", "16x128 1x2"),
    *("32x64", "16x64"),
    *("once", "stream", "shallow"),
)


def _kernel(title: str) -> str:
    tile, *cluster = title.split()
    return "_".join(["sm90", f"{tile}x64" if "x" in tile else tile, *cluster])


TILES = {_kernel(title): title for title in TITLES}


@dataclass(frozen=True)
class Measured:
    """A problem, and for each tile the row of the number of K parts that took the least time."""

    shape: Shape
    rows: dict[str, dict[str, str]]

    @cached_property
    def by_time(self) -> list[dict[str, str]]:
        return sorted(self.rows.values(), key=_us)

    @property
    def best(self) -> dict[str, str]:
        return self.by_time[0]

    @property
    def torch_us(self) -> float:
        """In the run of the best row."""
        return _us(self.best) * float(self.best["ratio_torch"])


def _us(row: dict[str, str]) -> float:
    return float(row["time_us"])


def with_parts(text: str, row: dict[str, str]) -> str:
    return text if row["splits"] == "1" else f"{text} /{row['splits']}"


def measured(rows: Rows, dtype: str = "bf16") -> list[Measured]:
    """The problems class by class; of a way that was timed twice, the last time."""
    order = {name: i for i, name in enumerate(CLASSES)}
    found: dict[Shape, dict[tuple[str, str], dict[str, str]]] = {}
    for row in sorted(rows, key=lambda row: order.get(row["suite"], len(order))):
        if row["kernel"] in TILES and row["dtype"] == dtype:
            ways = found.setdefault(records.shape_of(row), {})
            ways[row["kernel"], row["splits"]] = row
    problems = []
    for shape, ways in found.items():
        of_tile = {}
        for tile in TILES:
            own = [row for (kernel, _), row in ways.items() if kernel == tile]
            if own:
                of_tile[tile] = min(own, key=_us)
        problems.append(Measured(shape, of_tile))
    return problems
