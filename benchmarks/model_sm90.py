"""The cost model of the production Hopper kernel in Python, with constants that can be varied.

It is predict_sm90 of csrc/dispatch/cost.cpp for tight rows, N and K of 2 or more, c row-major in 16
bits; badly aligned operands are copied first. A test holds the two together.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from benchmarks.shapes import Shape

COST = Path(__file__).resolve().parent.parent / "csrc" / "dispatch" / "cost.cpp"
TILE_K = 64
NORM = 3  # how sharply the slower of products and traffic decides
Constants = dict[str, float]


@dataclass(frozen=True)
class Fixed:
    """What the model takes as given: rates and SMs of the GPU, and what clusters fill of them."""

    sm_count: int
    sm_ghz: float
    dram: float  # bytes a microsecond that a copy reaches
    filled: tuple[float, ...]

    def slots(self, blocks: int) -> int:
        """Clusters of `blocks` blocks that the GPU holds at once."""
        return math.floor(self.sm_count * self.filled[blocks - 1] / blocks)


def fixed(gpu, path: Path = COST) -> Fixed:
    """For a GPU, given as vitamin_hgemm.planning.DeviceFacts."""
    text = path.read_text()
    filled = re.search(r"kFilled\[\] = \{([^}]*)\}", text)[1]
    share = float(re.search(r"kDramShare = ([\d.]+)", path.with_suffix(".h").read_text())[1])
    filled = tuple(float(value) for value in filled.split(","))
    return Fixed(gpu.sm_count, gpu.sm_ghz, gpu.dram_tbs * 1e6 * share, filled)


def read_namespace(path: Path, name: str) -> Constants:
    """The constants of a namespace of a C++ file."""
    body = path.read_text().split(f"namespace {name} {{")[1].split(f"}}  // namespace {name}")[0]
    return {name: float(value) for name, value in re.findall(r"\b(k\w+) =\s+([\d.]+)", body)}


@dataclass(frozen=True)
class Tile:
    """m rows of one operand by n of the other; swapped, the n are rows of c."""

    m: int
    n: int
    cluster: tuple[int, int]  # blocks of a cluster, below each other and side by side in c
    swapped: bool

    @property
    def blocks_per_sm(self) -> int:
        return 2 if self.m == 64 and self.n in (16, 64) else 1

    @property
    def in_c(self) -> tuple[int, int]:
        """Rows and columns of c."""
        return (self.n, self.m) if self.swapped else (self.m, self.n)


def tile_of(kernel: str) -> Tile:
    """The tile that the name of an sm90 kernel tells."""
    match = re.fullmatch(r"sm90_(\d+)x(\d+)x64(?:_(\d)x(\d))?", kernel)
    if match is None:
        raise ValueError(f"kernel is {kernel!r}; wanted a tile of the family sm90")
    rows, columns = int(match[1]), int(match[2])
    cluster = int(match[3] or 1), int(match[4] or 1)
    # One of the sides is 64, 128 or 192 rows of wgmma. Of two such it is the rows of c, but for the
    # columns of 192x128, and of 64x128 where blocks below each other share nothing.
    if columns in (64, 128):
        swapped = rows not in (64, 128) or (rows, columns, cluster[0]) == (64, 128, 1)
    else:
        swapped = rows not in (64, 128, 192)
    if swapped:
        return Tile(columns, rows, cluster, True)
    return Tile(rows, columns, cluster, False)


@dataclass(frozen=True)
class Rows:
    """Rows of 128 bytes that bring a k-tile of an operand."""

    count: float
    constant: str  # that tells the cycles of one
    shared_constant: str  # and of one that others copy parts of
    share: int  # blocks that ask for a part of them each, and take in all
    beyond: float  # rows that the boxes of parts reach beyond the matrix

    def asked(self, c: Constants) -> float:
        """What a block asks the L2 for, in straight rows."""
        requests = self.constant.replace("Row", "Requests")
        return self.count / self.share * c.get(requests, 1.0)

    def cycles(self, c: Constants) -> float:
        one = c[self.constant]
        if self.share > 1:
            one = max(one / self.share, c[self.shared_constant])
        return self.count * one + self.beyond * c["kRowBeyond"]


@dataclass(frozen=True)
class Operand:
    """How an operand lies in memory: `outer` rows of `inner` elements, tight, each contiguous."""

    outer: int
    inner: int
    k_major: bool

    @property
    def align(self) -> int:
        """Bytes that all rows begin at multiples of, up to 16."""
        return math.gcd(2 * self.inner, 16) if self.outer > 1 else 16

    @property
    def copy_bytes(self) -> float:
        """Of the aligned copy that TMA reads, or 0 if it reads the operand itself."""
        if self.align == 16:
            return 0
        step = 8 if self.inner < 64 else 32 if self.inner < 512 else 64
        return 2.0 * self.outer * (-(-self.inner // step) * step)

    def rows(self, tile: int, share: int) -> Rows:
        extent = self.outer if self.k_major else self.inner
        granule = 8 if self.k_major else 64
        count = math.ceil(min(extent, tile) / granule) * granule
        # Of which less than 128 bytes lie in the matrix.
        short = self.inner < TILE_K
        if short:
            constant = "kShortRow"
        elif self.straight or self.copy_bytes:
            constant = "kRow"
        else:
            constant = "kCrookedRow" if self.pitch % 16 == 0 else "kSplitRow"
        beyond = max(0, tile - count) if self.k_major and share > 1 else 0
        shared = "kSharedShortRow" if short else "kSharedRow"
        return Rows(count, constant, shared, share, beyond)

    @property
    def pitch(self) -> int:
        return self.inner if self.outer > 1 else -(-self.inner // 8) * 8

    @property
    def straight(self) -> bool:
        """Whether all rows begin at multiples of 64 bytes."""
        return self.align == 16 and self.pitch % 32 == 0


class Way:
    """A tile and a number of K parts for a problem: all of it that no constant changes."""

    def __init__(self, shape: Shape, kernel: str, splits: int, given: Fixed):
        tile = tile_of(kernel)
        self.given, self.kernel, self.splits = given, kernel, splits
        self.m, self.n = tile.m, tile.n
        m, n, k = shape.m, shape.n, shape.k
        batch = max(shape.batch, 1)
        # A single row is contiguous along K, however it is called.
        a_k_major, b_k_major = shape.layout[0] == "n" or m == 1, shape.layout[1] == "t"
        a_tile, b_tile = tile.in_c
        below, beside = tile.cluster
        a = Operand(m, k, True) if a_k_major else Operand(k, m, False)
        b = Operand(n, k, True) if b_k_major else Operand(k, n, False)
        self.rows = (
            a.rows(a_tile, beside),
            b.rows(b_tile, below),
        )
        self.copied = batch * (a.copy_bytes + b.copy_bytes)

        groups = math.ceil(m / (a_tile * below)) * math.ceil(n / (b_tile * beside)) * batch
        blocks = below * beside * splits
        # K is split only where all parts run at once, and have two k-tiles.
        whole_k_tiles = math.ceil(k / TILE_K)
        in_parts = (
            blocks <= 8
            and whole_k_tiles // splits >= 2
            and math.ceil(m / a_tile) * math.ceil(n / b_tile) * batch < given.sm_count
            and groups <= given.slots(blocks) * tile.blocks_per_sm
        )
        self.allowed = splits == 1 or in_parts
        slots = max(1, given.slots(blocks))  # with a block an SM
        self.rounds = math.ceil(groups / (slots * tile.blocks_per_sm))
        # Blocks that share an SM.
        self.resident = min(tile.blocks_per_sm, math.ceil(groups / slots))
        self.clusters = below * beside > 1
        self.begun = min(1.0, groups * blocks / given.sm_count)  # share of the SMs
        self.k_tiles = math.ceil(whole_k_tiles / splits)
        # Of a wgmma: tensor cores, or its reads of shared memory.
        self.wgmma = max(tile.n / 2, 16 + tile.n / 4)
        self.by_rows = not tile.swapped and splits == 1 and tile.n % 64 == 0
        self.by_tma = self.by_rows and n % 8 == 0
        # Straight from the accumulators: in pieces of 16 bytes where rows of c consist of them.
        elements = "kScalarStore" if tile.swapped else "kOddStore"
        self.direct = "kDirectStore" if n % 8 == 0 else elements
        self.values = min(m, a_tile) * min(n, b_tile)  # of c in a tile
        self.bytes = 2.0 * batch * (m * k + k * n + m * n)
        self.tiles_loaded = groups * blocks * self.k_tiles

    def _store_cycles(self, c: Constants) -> float:
        """An element of a tile, beside what all stores cost."""
        if not self.by_rows:
            return c[self.direct] / self.splits
        return 0 if self.by_tma else c["kRowsStore"]

    def predict(self, c: Constants) -> float:
        """Microseconds."""
        copies = sum(rows.cycles(c) for rows in self.rows)
        wgmma = self.wgmma * c["kWgmma"] * (c["kNarrow"] if self.n < 256 else 1)
        products = self.m // 16 * wgmma
        k_tile = max(products * self.resident, c["kStageCycles"], copies * self.resident)
        store = (c["kStore"] + self._store_cycles(c)) * self.m * self.n * self.resident
        tile = self.k_tiles * k_tile + c["kTileCycles"] + store
        last = c["kLastStore"] * self.values * self.resident
        per_us = self.given.sm_ghz * c["kClock"] * 1e3
        start = c["kStartCycles"] / per_us
        tensor = (self.rounds * tile + last) / per_us + start
        dram = self.given.dram
        asked = 128 * self.tiles_loaded * sum(rows.asked(c) for rows in self.rows)
        traffic = self.bytes / dram + max(0.0, asked - self.bytes) / (dram * c["kL2OverDram"])
        memory = traffic + start
        total = (tensor**NORM + memory**NORM) ** (1 / NORM)
        total += self.clusters * c["kClusterUs"] + self.begun * c["kBeginUs"]
        if self.copied:
            total += c["kCopyUs"] + 2 * self.copied / self.given.dram
        if self.splits > 1:
            total += c["kReduceUs"] + c["kReducePartUs"] * self.splits
            sent = self.m * self.n * (self.splits - 1) / self.splits
            total += c["kReduceKiloUs"] * sent / 1024
        return total
