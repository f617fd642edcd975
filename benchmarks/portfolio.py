"""What the tables and the map of the production Hopper kernel are made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from benchmarks import records
from benchmarks.figures import Rows
from benchmarks.shapes import CLASSES, Shape

TILES = {
    "sm90_128x256x64_2x1": "128x256 2x1",
    "sm90_128x256x64": "128x256",
    "sm90_128x192x64_2x1": "128x192 2x1",
    "sm90_128x208x64_2x1": "128x208 2x1",
    "sm90_208x128x64_1x2": "208x128 1x2",
    "sm90_128x176x64_2x1": "128x176 2x1",
    "sm90_176x128x64_1x2": "176x128 1x2",
    "sm90_128x144x64_2x1": "128x144 2x1",
    "sm90_144x128x64_1x2": "144x128 1x2",
    "sm90_128x144x64": "128x144",
    "sm90_144x128x64": "144x128",
    "sm90_128x128x64": "128x128",
    "sm90_128x112x64_2x1": "128x112 2x1",
    "sm90_112x128x64_1x2": "112x128 1x2",
    "sm90_128x112x64": "128x112",
    "sm90_112x128x64": "112x128",
    "sm90_128x96x64_2x1": "128x96 2x1",
    "sm90_96x128x64_1x2": "96x128 1x2",
    "sm90_128x96x64": "128x96",
    "sm90_96x128x64": "96x128",
    "sm90_128x64x64": "128x64",
    "sm90_128x48x64": "128x48",
    "sm90_48x128x64": "48x128",
    "sm90_64x128x64_2x1": "64x128 2x1",
    "sm90_64x64x64": "64x64",
    "sm90_64x128x64": "64x128",
    "sm90_32x128x64": "32x128",
    "sm90_16x128x64": "16x128",
    "sm90_16x64x64": "16x64",
    "sm90_any_64x64x64": "any_64x64",
    "sm90_any_16x64x64": "any_16x64",
    "sm90_stream": "stream",
    "sm90_shallow": "shallow",
}


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
