"""The cost model of the kernels for few rows or columns, or shallow K, with constants to vary.

It is predict_stream, predict_shallow and predict_once of csrc/dispatch/stream_cost.cpp for tight
rows of 16 bits. A test holds the two together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from benchmarks.model_sm90 import COST, Constants, Fixed, Operand, Way, read_namespace
from benchmarks.shapes import Shape

STREAM_COST = COST.with_name("stream_cost.cpp")
STREAM, SHALLOW, ONCE = "sm90_stream", "sm90_shallow", "sm90_once"
# Bytes of a stage and of an SM.
ONCE_K, ONCE_STAGE, SM_BYTES = 1024, 2 * 64 * 144, 228 * 1024
ROW_STEP, COLUMN_STEP, COLUMN_TILE = 32, 16, 64
SHALLOW_K, SHALLOW_BYTES, THREADS = 128, 160 * 1024, 256


@dataclass(frozen=True)
class Sides:
    """A problem as these kernels see it: a wide operand and a thin one."""

    wide: int
    thin: int
    by_rows: bool  # K is contiguous in the wide one
    thin_by_rows: bool
    align: int  # bytes, of the wide one


def along_k(shape: Shape) -> tuple[bool, bool]:
    """Whether K is contiguous in a, and in b.

    What there is only one of is contiguous along the other index, however it is called.
    """
    a_rows = shape.m == 1 or (shape.k > 1 and shape.layout[0] == "n")
    return a_rows, shape.k > 1 and (shape.n == 1 or shape.layout[1] == "t")


def sides_of(shape: Shape) -> Sides:
    b_is_wide = shape.n >= shape.m
    wide, thin = (shape.n, shape.m) if b_is_wide else (shape.m, shape.n)
    a_rows, b_rows = along_k(shape)
    by_rows, thin_by_rows = (b_rows, a_rows) if b_is_wide else (a_rows, b_rows)
    pitch = shape.k if by_rows else wide
    align = math.gcd(2 * pitch, 16) if (wide if by_rows else shape.k) > 1 else 16
    if shape.batch > 1:
        align = math.gcd(align, 2 * wide * shape.k)
    return Sides(wide, thin, by_rows, thin_by_rows, align)


def _both(work: float, memory: float) -> float:
    """Microseconds of work and traffic side by side: of the slower one, and some of the other."""
    return math.hypot(work, memory)


class StreamWay:
    """A number of K parts for a problem: all of it that no constant changes."""

    def __init__(self, shape: Shape, splits: int, given: Fixed):
        s = sides_of(shape)
        batch = max(shape.batch, 1)
        self.given, self.kernel, self.splits, self.by_rows = given, STREAM, splits, s.by_rows
        self.columns = 8 if s.thin <= 8 else 16 if s.thin <= 16 or not s.by_rows else 32
        classes = 16 // s.align
        if s.by_rows:
            groups = 2 if self.columns <= 16 and s.wide > 16 * 32 * classes else 1
            rows, extent = 16 * classes * groups, ROW_STEP if groups > 1 else 2 * ROW_STEP
            steps = math.ceil((shape.k + 8 - s.align // 2) / extent)
        else:
            rows, extent = COLUMN_TILE if classes == 1 else COLUMN_TILE - 8, COLUMN_STEP * classes
            steps = math.ceil(shape.k / extent)
        thin_tiles = math.ceil(s.thin / self.columns)
        blocks = math.ceil(s.wide / rows) * thin_tiles * batch
        # K is split where an SM has less than two blocks, each of two steps at least.
        self.allowed = splits == 1 or (steps // splits >= 2 and blocks < 2 * given.sm_count)
        slots = max(1, given.slots(splits))  # of clusters, with a block an SM
        self.rounds = math.ceil(blocks / (2 * slots))
        self.resident = min(2, math.ceil(blocks / slots))
        part = math.ceil(steps / splits) * extent  # of K
        self.kilobytes = rows * part * 2 / 1024
        thin_rows = min(s.thin, self.columns)
        self.transposed_kilobytes = 0 if s.thin_by_rows else thin_rows * part * 2 / 1024
        self.bytes = 2.0 * batch * (s.wide * shape.k + s.thin * shape.k + s.wide * s.thin)

    def predict(self, c: Constants) -> float:
        """Microseconds."""
        per_us = self.given.sm_ghz * c["kStreamClock"] * 1e3
        kilobyte = c["kStreamRowKb"] if self.by_rows else c["kStreamColumnKb"]
        kilobyte += c["kStreamThinGroup"] * (self.columns / 8 - 1)
        # A block alone on its SM is slower than its share: it waits for each of its loads.
        alone = c["kStreamRowAlone"] if self.by_rows else c["kStreamColumnAlone"]
        tile = c["kStreamTileCycles"] + self.kilobytes * max(self.resident * kilobyte, alone)
        tile += self.resident * self.transposed_kilobytes * c["kStreamTransposed"]
        work = self.rounds * tile / per_us
        memory = self.bytes / (self.given.dram * c["kStreamDram"])
        total = _both(work, memory) + c["kStreamStartUs"]
        if self.splits > 1:
            total += c["kStreamPartsUs"]
        return total


class ShallowWay:
    """A problem of shallow K: all of it that no constant changes."""

    def __init__(self, shape: Shape, given: Fixed):
        s = sides_of(shape)
        batch = max(shape.batch, 1)
        self.given, self.kernel, self.splits = given, SHALLOW, 1
        self.k, self.by_rows = shape.k, s.by_rows
        self.columns = next(n for n in (2, 4, 8, 16) if s.thin <= n or n == 16)
        row_bytes = 2 * shape.k if s.by_rows else 0
        many = s.by_rows and s.wide >= 132 * 8 * THREADS
        self.rows = 2 if many and row_bytes <= 64 and self.columns <= 8 else 1
        tile = THREADS * self.rows
        c_whole = 1 < s.thin <= self.columns and shape.n < shape.m
        c_whole &= batch == 1 or s.wide * s.thin % 8 == 0
        c_bytes = tile * s.thin * 2 if c_whole else 0
        thin_bytes = (4 * self.columns * shape.k + 15) // 16 * 16
        buffer = (max(tile * row_bytes, c_bytes) + 31) // 16 * 16
        self.allowed = shape.k <= SHALLOW_K and 2 * buffer + thin_bytes <= SHALLOW_BYTES
        blocks = math.ceil(s.wide / tile) * math.ceil(s.thin / self.columns) * batch
        # Whether neighbouring threads write neighbouring values.
        self.side_by_side = shape.n >= shape.m or s.thin == 1 or c_whole
        self.resident = min(4, math.ceil(blocks / given.sm_count))
        self.rounds = math.ceil(blocks / (4 * given.sm_count))
        self.bytes = 2.0 * batch * (s.wide * shape.k + s.thin * shape.k + s.wide * s.thin)

    def predict(self, c: Constants) -> float:
        """Microseconds."""
        per_us = self.given.sm_ghz * c["kStreamClock"] * 1e3
        value = c["kShallowRowValue"] if self.by_rows else c["kShallowValue"]
        store = c["kShallowStore"] if self.side_by_side else c["kShallowScatter"]
        row = self.k * (value + c["kShallowProduct"] * self.columns) + store * self.columns
        tile = c["kShallowTileCycles"] + self.k * c["kShallowDepth"]
        tile += self.resident * self.rows * row
        work = self.rounds * tile / per_us
        memory = self.bytes / (self.given.dram * c["kStreamDram"])
        return _both(work, memory) + c["kShallowStartUs"]


class OnceWay:
    """A problem of K up to 1024, a tile of 64x64 a block: all of it that no constant changes."""

    def __init__(self, shape: Shape, given: Fixed):
        m, n, k, batch = shape.m, shape.n, shape.k, max(shape.batch, 1)
        self.given, self.kernel, self.splits = given, ONCE, 1
        self.k, self.allowed = k, k <= ONCE_K
        rows, columns = min(m, 64), min(n, 64)
        blocks = math.ceil(m / 64) * math.ceil(n / 64) * batch
        stages = max(1, min(3, math.ceil(k / 64)))
        # Blocks of 8 warps, or of 4 where there are many that do little.
        most = 4 if k > 64 or blocks <= 2 * given.sm_count else 6
        slots = min(most, SM_BYTES // (stages * ONCE_STAGE + 1024))
        self.resident = min(slots, math.ceil(blocks / given.sm_count))
        self.rounds = math.ceil(blocks / (slots * given.sm_count))
        a_rows, b_rows = along_k(shape)
        a = Operand(m, k, True) if a_rows else Operand(k, m, False)
        b = Operand(n, k, True) if b_rows else Operand(k, n, False)
        self.kilobytes = (rows + columns) * k * 2 / 1024
        self.a_by_pairs = self._by_pairs(a, a_rows, batch)
        self.reads_b = "kOncePairsB" if self._by_pairs(b, b_rows, batch) else "kOnceReadB"
        self.steps = math.ceil(k / 16) * math.ceil(rows / 16) / 4
        self.halves = math.ceil(columns / 32)
        self.odd_rows = n % 8 != 0  # of c
        self.values = rows * columns
        self.bytes = 2.0 * batch * (m * k + k * n + m * n)

    @staticmethod
    def _by_pairs(x: Operand, along_k: bool, batch: int) -> bool:
        align = math.gcd(x.align, 2 * x.outer * x.inner) if batch > 1 else x.align
        return along_k and align >= 4

    def predict(self, c: Constants) -> float:
        """Microseconds."""
        per_us = self.given.sm_ghz * c["kStreamClock"] * 1e3
        reads_a = 0 if self.a_by_pairs else c["kOnceReadA"]
        products = self.steps * (reads_a + self.halves * c[self.reads_b])
        tile = self.k * c["kOnceDepth"]
        store = c["kOnceStore"] + (c["kOnceOddStore"] if self.odd_rows else 0)
        tile += self.resident * (self.kilobytes * c["kOnceKb"] + products + store * self.values)
        work = self.rounds * tile / per_us
        memory = self.bytes / (self.given.dram * c["kStreamDram"])
        return _both(work, memory) + c["kOnceStartUs"]


AnyWay = Way | StreamWay | ShallowWay | OnceWay


def way(shape: Shape, kernel: str, splits: int, given: Fixed) -> AnyWay:
    """How a production kernel of the Hopper path runs a problem."""
    if kernel == STREAM:
        return StreamWay(shape, splits, given)
    if kernel == SHALLOW:
        return ShallowWay(shape, given)
    return OnceWay(shape, given) if kernel == ONCE else Way(shape, kernel, splits, given)


def read_constants() -> Constants:
    """Of the tiles, and of the kernels for few rows or columns."""
    return read_namespace(COST, "hopper") | read_namespace(STREAM_COST, "streams")
