"""The calls that tests/sanitize.py makes under compute-sanitizer: small, and through every path."""

from dataclasses import dataclass, fields

LAYOUTS = ("nn", "nt", "tn", "tt")


@dataclass
class Call:
    """A product of small matrices, a letter of `layout` each: n as written, t transposed."""

    m: int
    n: int
    k: int
    layout: str = "nn"
    pad: int = 0  # elements at the end of each stored row of a and b
    offset: int = 0  # elements between the start of the storage and the first element
    step: int = 1  # elements from one to the next within a row of a
    batch: tuple = ()
    bias: bool = False
    activation: str = "none"
    wide: bool = False  # out_dtype=torch.float32
    out: str = "rows"  # or "columns", or "padded" rows
    only: str | tuple = ""  # what the names of the kernels to run it by start with; empty: all
    studies: bool = False  # the studies' kernels run it too
    clusters: bool = False  # and those that differ from another one in their clusters only

    def __str__(self):
        special = [f.name for f in fields(self)[3:-3] if getattr(self, f.name) != f.default]
        options = [f"{name}={getattr(self, name)}" for name in special]
        return " ".join([f"{self.m}x{self.n}x{self.k}", *options])


# The production kernels of the Hopper path, by their tiles.
HOPPER_ROWS = (16, 32, 48, 64, 96, 112, 128, 144, 160, 176, 192, 208)
HOPPER_TILES = tuple(f"sm90_{rows}x" for rows in HOPPER_ROWS)
# The kernels for few rows or columns, and for shallow K.
HOPPER_STREAMS = ("sm90_stream", "sm90_shallow", "sm90_once")
# One block an SM, each of which takes tiles of up to 128x256 until there are none left.
PERSISTENT = ("sm90_v6", "sm90_v8", "sm90_v10", "sm90_v11", *HOPPER_TILES)


def hopper_tile_calls():
    """For the production kernels: what they do beside the steps, in rows of whole 16 bytes."""
    return [
        # Rows of the output at odd addresses; a tile and some more, of boxes whole and cut off.
        Call(130, 261, 200, "nt", bias=True, only=HOPPER_TILES),
        Call(264, 323, 196, "nt", pad=4, out="padded", only=HOPPER_TILES, clusters=True),
        # As many tiles as above, a contiguous along M, and rows that TMA can't write.
        Call(200, 17801, 72, "tt", only=HOPPER_TILES),
        # b contiguous along N: blocks of 64 columns, where tiles are no multiples of these.
        Call(40, 424, 72, only=HOPPER_TILES, clusters=True),
        # Columns of the output in pieces of 16 bytes.
        Call(136, 72, 40, "nt", out="columns", only=HOPPER_TILES),
        # K in parts, blocks of a cluster; ragged, in float32, and of a batch.
        Call(16, 24, 1024, "tt", bias=True, activation="silu", only=HOPPER_TILES),
        Call(16, 24, 640, "tt", only=HOPPER_TILES),
        Call(16, 24, 2048, "tt", only=HOPPER_TILES, clusters=True),
        Call(16, 24, 8192, "tt", only=HOPPER_TILES),
        Call(61, 47, 1021, "nt", pad=3, wide=True, only=HOPPER_TILES, clusters=True),
        Call(40, 24, 1536, "nt", batch=(2,), out="padded", only=HOPPER_TILES),
        Call(136, 72, 72, "tn", batch=(3,), only=HOPPER_TILES, clusters=True),
    ]


def hopper_stream_calls():
    """For these: what begins at any address, and many tiles a block."""
    return [
        *(Call(7, 203, 101, layout, pad=3, offset=1, only=HOPPER_STREAMS) for layout in LAYOUTS),
        *(Call(65, 9, 77, layout, pad=1, wide=True, only=HOPPER_STREAMS) for layout in LAYOUTS),
        *(Call(3, 300, 40, "nt", pad=pad, only=HOPPER_STREAMS) for pad in (0, 2, 4)),
        Call(2, 70001, 13, "nt", only=HOPPER_STREAMS),
        Call(2, 70001, 13, "tn", bias=True, only=HOPPER_STREAMS),
        Call(70001, 5, 8, "nt", activation="silu", only=HOPPER_STREAMS),
        Call(5, 70, 64, "nt", batch=(40,), only=HOPPER_STREAMS),
        # K in parts, blocks of a cluster, and more of it than is staged at once.
        Call(5, 60, 4001, "nt", pad=1, only=HOPPER_STREAMS[0]),
        Call(16, 40, 9001, "tn", pad=2, only=HOPPER_STREAMS[0]),
        # Pieces that end within K, and beyond the operand's memory.
        Call(3, 300, 3, "nt", only=HOPPER_STREAMS[0]),
        Call(3, 300, 42, "tn", only=HOPPER_STREAMS[0]),
        # Columns of the output in pieces of 16 bytes, strides both ways, several of a batch.
        Call(136, 72, 128, "nt", out="columns", only=HOPPER_STREAMS[2]),
        Call(70, 66, 33, step=2, batch=(2, 3), only=HOPPER_STREAMS[2]),
        # More of K than is staged at once.
        *(Call(70, 85, 401, x, pad=1, offset=1, only=HOPPER_STREAMS[2]) for x in ("nt", "tn")),
    ]


def hopper_calls():
    """For what takes b stored [N, K] in rows of whole 16 bytes."""
    return [
        Call(67, 69, 71, "nt", pad=1, bias=True, activation="gelu", studies=True),
        # More k-tiles than stages, edges on all sides.
        Call(200, 264, 520, "nt", out="padded", studies=True),
        # 140 tiles, on 132 SMs.
        Call(130, 17800, 72, "nt", only=PERSISTENT, studies=True, clusters=True),
        Call(136, 72, 0, "nt", pad=8, bias=True),
        Call(136, 72, 1, "nt", pad=7, wide=True),
        Call(1, 1, 8, "nt"),
        *hopper_tile_calls(),
    ]


def calls_for(tool):
    """Small enough for the tool; the first ones go through every kernel."""
    every = LAYOUTS
    aligned = [Call(136, 72, 72, layout, studies=True) for layout in every] + hopper_calls()
    aligned += hopper_stream_calls()
    ragged = [Call(67, 69, 71, layout, bias=True, activation="gelu") for layout in every]
    split_k = [Call(16, 24, 2048), Call(17, 23, 2051, "nt")]
    # The smallest that "auto" repacks, on a large GPU.
    repacked = [Call(800, 800, 511, layout, offset=1, only="auto") for layout in ("nt", "tn")]
    padded = [Call(130, 136, 40, out="padded")]
    if tool == "initcheck":
        return aligned + ragged + split_k + repacked + padded
    few = aligned + ragged + split_k + padded
    few += [Call(64, 64, 64, offset=offset) for offset in (1, 2, 4)]
    few += [Call(40, 24, 72, batch=(3,), wide=True), Call(5, 3, 0, bias=True)]
    if tool == "racecheck":
        return few
    more = [Call(257, 130, 96, layout, pad=pad) for layout in every for pad in (1, 2, 4, 8)]
    more += [Call(300, 200, 264, "tn", bias=True, activation="silu", wide=True)]
    more += [Call(1, 1, 1), Call(1, 515, 130, "nt"), Call(515, 1, 130, "tn"), Call(9, 9, 7, step=2)]
    more += [Call(33, 40, 24, "tt", batch=(2, 3), out="columns"), Call(65, 33, 17, out="columns")]
    more += [Call(24, 16, 4096, "tt", wide=True), Call(511, 513, 255, offset=1, pad=1)]
    return few + repacked + more
