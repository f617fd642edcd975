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
    cluster: int
    swapped: bool
    by_threads: bool  # warps copy what is multiplied, not TMA

    @property
    def blocks_per_sm(self) -> int:
        return 2 if self.m == 64 and self.cluster == 1 else 1


def tile_of(kernel: str) -> Tile:
    """The tile that the name of an sm90 kernel tells."""
    match = re.fullmatch(r"sm90_(any_)?(\d+)x(\d+)x64(_2x1|_1x2)?", kernel)
    if match is None:
        raise ValueError(f"kernel is {kernel!r}; wanted a tile of the family sm90")
    by_threads = match[1] is not None
    rows, columns = int(match[2]), int(match[3])
    cluster = 2 if match[4] else 1
    # One of the sides is 64 or 128 rows of wgmma; of the single blocks of 64x128, the 128 columns.
    if rows not in (64, 128) or (rows, columns, cluster) == (64, 128, 1):
        return Tile(columns, rows, cluster, True, by_threads)
    return Tile(rows, columns, cluster, False, by_threads)


@dataclass(frozen=True)
class Rows:
    """Rows of 128 bytes that bring a k-tile of an operand, a block's share of them."""

    count: float
    constant: str  # that tells the cycles of one


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

    def rows(self, tile: int, by_threads: bool) -> Rows:
        extent = self.outer if self.k_major else self.inner
        granule = 8 if self.k_major else 64
        count = math.ceil(min(extent, tile) / granule) * granule
        if by_threads:
            constant = "kCopiedRow" + ("" if self.align == 16 else str(self.align))
        elif self.straight or self.copy_bytes:
            constant = "kRow"
        else:
            constant = "kCrookedRow" if self.pitch % 16 == 0 else "kSplitRow"
        return Rows(count, constant)

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
        self.small = tile.blocks_per_sm > 1
        m, n, k = shape.m, shape.n, shape.k
        batch = max(shape.batch, 1)
        # A single row is contiguous along K, however it is called.
        a_k_major, b_k_major = shape.layout[0] == "n" or m == 1, shape.layout[1] == "t"
        a_tile, b_tile = (tile.n, tile.m) if tile.swapped else (tile.m, tile.n)
        a = Operand(m, k, True) if a_k_major else Operand(k, m, False)
        b = Operand(n, k, True) if b_k_major else Operand(k, n, False)
        a_rows, b_rows = a.rows(a_tile, tile.by_threads), b.rows(b_tile, tile.by_threads)
        # What blocks of a cluster share is the operand that gives the n columns.
        self.own, self.shared = (b_rows, a_rows) if tile.swapped else (a_rows, b_rows)
        self.copied = 0 if tile.by_threads else batch * (a.copy_bytes + b.copy_bytes)
        self.cluster = tile.cluster
        self.beyond = max(0, tile.n - self.shared.count) if tile.cluster > 1 else 0

        long, short = (n, m) if tile.swapped else (m, n)
        groups = math.ceil(long / (tile.m * tile.cluster)) * math.ceil(short / tile.n) * batch
        blocks = tile.cluster * splits
        # K is split only where all parts run at once, and have two k-tiles.
        whole_k_tiles = math.ceil(k / TILE_K)
        in_parts = (
            tile.cluster == 1
            and whole_k_tiles // splits >= 2
            and groups < given.sm_count
            and groups <= given.slots(splits) * tile.blocks_per_sm
        )
        # What TMA reads well is not for threads to copy.
        well = a.straight and b.straight
        self.allowed = (splits == 1 or in_parts) and not (tile.by_threads and well)
        self.rounds = math.ceil(groups / max(1, given.slots(blocks) * tile.blocks_per_sm))
        # Blocks that share an SM, and how many more some SMs have than the mean.
        self.resident = min(tile.blocks_per_sm, math.ceil(groups * blocks / given.sm_count))
        most = self.rounds * self.resident * given.sm_count / (groups * blocks)
        self.uneven = max(0.0, min(2.0, most) - 1)
        half, nearly_all = given.sm_count / 2, given.sm_count * 0.9
        self.in_turn = splits > 1 and half < groups * blocks < nearly_all
        self.k_tiles = math.ceil(whole_k_tiles / splits)
        # Of a wgmma: tensor cores, or its reads of shared memory.
        self.wgmma = max(tile.n / 2, 16 + tile.n / 4)
        self.by_rows = not tile.swapped and splits == 1 and tile.n % 64 == 0
        self.by_tma = self.by_rows and n % 8 == 0
        # Straight from the accumulators: pairs of columns where rows of c are aligned.
        pairs = "kDirectStore" if n % 8 == 0 or m * batch == 1 else "kOddStore"
        self.direct = "kScalarStore" if tile.swapped else pairs
        self.hidden = self.k_tiles >= tile.n // 64
        self.bytes = 2.0 * batch * (m * k + k * n + m * n)
        loaded_rows = (
            tile.m * min(1.0, long / tile.m) + tile.n * min(1.0, short / tile.n) / tile.cluster
        )
        loaded = groups * blocks * self.k_tiles * TILE_K * 2.0 * loaded_rows
        self.from_l2 = max(0.0, loaded - self.bytes)

    def _store_cycles(self, c: Constants) -> float:
        """An element of c."""
        if not self.by_rows:
            return c[self.direct] / self.splits
        if self.by_tma:
            return 0 if self.hidden else c["kExposedBoxes"]
        return c["kHiddenRows"] if self.hidden else c["kExposedRows"]

    def predict(self, c: Constants) -> float:
        """Microseconds."""
        # Each block of a cluster asks for a part of what is shared, and takes in all of it; boxes
        # of parts reach beyond the matrix.
        asked = c[self.shared.constant] / self.cluster
        copies = self.own.count * c[self.own.constant]
        copies += self.shared.count * max(asked, c["kRow"]) + self.beyond * c["kRowBeyond"]
        wgmma = self.wgmma * c["kWgmma"] * (c["kNarrow"] if self.n < 256 else 1)
        products = self.m // 16 * wgmma
        k_tile = max(products * self.resident, c["kStageCycles"], copies * self.resident)
        store = self._store_cycles(c) * self.m * self.n * self.resident
        tile = self.k_tiles * k_tile + c["kTileCycles"] + store
        per_us = self.given.sm_ghz * c["kClock"] * 1e3
        start = c["kSmallStartCycles" if self.small else "kStartCycles"] / per_us
        tensor = self.rounds * tile / per_us + start
        dram = self.given.dram
        traffic = self.bytes / dram + self.from_l2 / (dram * c["kL2OverDram"])
        memory = traffic * (1 + c["kUneven"] * self.uneven) + start
        total = (tensor ** c["kNorm"] + memory ** c["kNorm"]) ** (1 / c["kNorm"])
        total += c["kLaunchUs"] + self.in_turn * c["kInTurnUs"]
        if self.copied:
            total += c["kCopyUs"] + 2 * self.copied / self.given.dram
        if self.splits > 1:
            total += c["kReduceUs"] + c["kReducePartUs"] * self.splits
            total += c["kReduceColumnsUs"] * self.n / 64
        return total
