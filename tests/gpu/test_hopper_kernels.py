"""What the production kernels of the Hopper path can get wrong: edges of tiles and of clusters, the
output at any address, tiles that follow each other in a block, parts of a split K, batches."""

import itertools
import math
import random
import threading

import pytest
import torch
from calls import (
    CLUSTER_OF,
    HOPPER_ANY_K,
    HOPPER_CLUSTERS,
    HOPPER_ONCE,
    HOPPER_SPLIT,
    HOPPER_STREAM,
    HOPPER_SWAPPED,
    HOPPER_TILES,
    LAYOUTS,
    Failures,
    assert_repeats_bits,
    choose,
    most_k,
    most_parts,
    need_memory,
    padded,
    table,
)
from reference import ACTIVATIONS, INT_OF, Guarded, assert_close, operand, within_nan
from soak import soak_apart
from test_graphs import Captured

from vitamin_hgemm import tuning
from vitamin_hgemm._overrides import Way

DEPTHS = (1, 8, 63, 64, 65, 130, 192, 257, 513, 700)  # from a part of a k-tile to more than a ring

hgemm = torch.ops.vitamin.hgemm
every_tile = pytest.mark.parametrize("name", HOPPER_TILES)
every_kernel = pytest.mark.parametrize("name", (*HOPPER_ANY_K, HOPPER_ONCE))
every_split = pytest.mark.parametrize("name", (*HOPPER_SPLIT, HOPPER_STREAM))


@pytest.fixture(autouse=True)
def hopper(device):
    if torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("GPU test: the CUDA device is not sm_90")


def pair(m, n, k, dtype, device, layout=None, **options):
    """a and b, padded(), in the given layout or in any."""
    layout = layout or random.choice(LAYOUTS)
    a = padded(m, k, dtype, device, layout[0], **options)
    return a, padded(k, n, dtype, device, layout[1], **options)


def any_epilogue(n, dtype, device):
    bias = torch.randn(n, dtype=dtype, device=device)
    return {"bias": random.choice((None, bias)), "activation": random.choice(list(ACTIVATIONS))}


def test_thousands_of_launches_do_not_hang(seed):
    soak_apart(seed, 2_000, HOPPER_ANY_K)


def edges_of(name):
    """Extents at the ends of tiles: of half a tile of the kernel, one and two, and of others."""
    own = {side * i // 2 for side in table()[name]["tile"][:2] for i in (1, 2, 4)}
    ends = own | {16, 32, 64, 128, 192, 256}
    return sorted({end + d for end in ends for d in (-1, 0, 1)} | {1, 2, 9, 300})


@every_kernel
@pytest.mark.parametrize("layout", LAYOUTS)
def test_edges_of_tiles(device, dtype, name, layout):
    """Every edge as rows and as columns, with other extents that are new in each run."""
    edges = edges_of(name)
    shapes = [(edge, random.choice(edges)) for edge in edges]
    shapes += [(random.choice(edges), edge) for edge in edges]
    shapes += [(random.randint(1, 300), random.randint(1, 300)) for _ in range(8)]
    with Failures() as failures:
        for m, n in shapes:
            k = most_k(name, random.choice(DEPTHS))
            failures.check(name, *pair(m, n, k, dtype, device, layout), must=True)


def ends_within(name):
    """Rows and columns of c that end beside each block of a cluster, and within the next one."""
    sides = zip(table()[name]["tile"][:2], CLUSTER_OF.get(name, (1, 1)), strict=True)
    return [
        [max(2, tile * i + d) for i in range(1, blocks + 2) for d in (-8, -1, 0, 1, 8)]
        for tile, blocks in sides
    ]


@pytest.mark.parametrize("name", HOPPER_CLUSTERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_clusters_that_c_ends_within(device, dtype, name, layout):
    """Blocks without a tile of c have their share of the others'."""
    rows, columns = ends_within(name)
    shapes = [(m, random.choice(columns)) for m in rows]
    shapes += [(random.choice(rows), n) for n in columns]
    with Failures() as failures:
        for m, n in shapes:
            k, batch = random.choice(DEPTHS), random.choice(((), (), (3,)))
            a, b = pair(m, n, k, dtype, device, layout, batch=batch)
            options = {"out_dtype": random.choice((None, torch.float32))}
            options |= any_epilogue(n, dtype, device)
            failures.check(name, a, b, must=True, **options)


@every_kernel
def test_rows_of_the_output_at_any_address(device, dtype, name):
    """Bases at every alignment, pitches of every remainder, and columns that end within 8."""
    with Failures() as failures:
        for m, n in [(130, 261), (257, 136), (65, 61), (5, 7)]:
            a, b = pair(m, n, most_k(name, 200), dtype, device)
            for offset in range(0, 16, 2):
                for pad in random.sample(range(8), 2):
                    guarded = Guarded((m, n), dtype, device, pad=pad, offset=offset)
                    options = any_epilogue(n, dtype, device)
                    failures.check(name, a, b, out=guarded.view, must=True, **options)
                    guarded.assert_around_untouched(f"{name} at {offset} bytes, pad {pad}")


@every_kernel
def test_output_in_pieces_of_16_bytes_and_not(device, dtype, name):
    """Of rows or of columns; an extent, a pitch, a base or a batch may leave a remainder."""
    shapes = [(136, 264), (72, 40), (8, 16), (133, 264), (136, 261)]
    with Failures() as failures:
        for (m, n), batch in itertools.product(shapes, ((), (3,))):
            k = most_k(name, random.choice((72, 1032)))
            a, b = pair(m, n, k, dtype, device, batch=batch)
            by_rows = [(m * (n + pad), n + pad, 1) for pad in (0, 8, 4)]
            by_columns = [(n * (m + pad), 1, m + pad) for pad in (0, 8, 4)]
            for apart, *strides in by_rows + by_columns:
                kind = random.choice((dtype, dtype, torch.float32))
                strides = [apart + random.choice((0, 8, 4))] * len(batch) + strides
                offset = random.choice((0, 0, 8))
                out = Guarded((*batch, m, n), kind, device, strides=strides, offset=offset)
                options = {"out_dtype": None if kind == dtype else kind}
                options |= any_epilogue(n, dtype, device)
                failures.check(name, a, b, out=out.view, must=True, **options)
                out.assert_around_untouched(f"{name} {out.describe()}")


@every_kernel
def test_tiles_that_follow_each_other(device, dtype, name):
    """Many tiles a block, of few k-tiles: one is on its way out while the next is multiplied."""
    need_memory(12)
    with Failures() as failures:
        for batch, m, n, k in [
            ((96,), 1024, 1024, 64),
            ((), 4100, 5003, 64),
            ((), 4100, 4104, 130),
            ((), 2056, 8200, 320),
            ((7,), 1000, 1003, 200),
        ]:
            a, b = pair(m, n, most_k(name, k), dtype, device, batch=batch)
            failures.check(name, a, b, must=True)


@pytest.fixture
def choices():
    """The test's end is that of its choices."""
    yield
    tuning.clear()


def pitch_of(inner):
    """Elements from one row to the next, whole pieces of 16 bytes."""
    return -(-inner // 8) * 8


def pair_in_parts(name, parts, m, n, dtype, device, layout, **options):
    """a and b that "auto" has the kernel multiply in so many parts of K, of 2 k-tiles or more."""
    k = random.randint(128 * parts - 63, 128 * parts + 600)
    inner = (k if layout[0] == "n" else m, n if layout[1] == "n" else k)
    pitches = dict(zip(("lda", "ldb"), map(pitch_of, inner), strict=True))
    problem = {"m": m, "n": n, "k": k, "dtype": dtype, "layout": layout} | pitches | options
    choose(problem, Way(name, parts), device)
    pads = [pitch - i for pitch, i in zip(pitches.values(), inner, strict=True)]
    a = operand(m, k, dtype, device, layout=layout[0], pad=pads[0])
    return a, operand(k, n, dtype, device, layout=layout[1], pad=pads[1])


@every_split
@pytest.mark.usefixtures("choices")
def test_parts_of_k(device, dtype, name):
    """Every number of parts, of blocks that share tiles too, and of those without one: any layout,
    epilogue and type, rows of any remainder, batches."""
    rows, columns = ends_within(name)
    with Failures() as failures:
        for parts, layout in itertools.product(range(2, most_parts(name) + 1), LAYOUTS):
            m, n = random.choice(rows), random.choice(columns)
            pad, kind = random.choice((0, -n % 8, 1, 2, 4)), random.choice((dtype, torch.float32))
            options = {"out_dtype": None if kind == dtype else kind}
            a, b = pair_in_parts(name, parts, m, n, dtype, device, layout, ldc=n + pad, **options)
            out = Guarded((m, n), kind, device, pad=pad)
            options |= any_epilogue(n, dtype, device)
            what = f"by {name} in {parts} parts"
            failures.check("auto", a, b, out=out.view, must=True, what=what, **options)
            out.assert_around_untouched(what)
        for m, n, k in [(60, 40, 4099), (100, 200, 2051)]:
            a, b = pair(m, n, k, dtype, device, batch=(3,))
            failures.check(name, a, b, must=True)


@every_split
@pytest.mark.usefixtures("choices")
def test_parts_of_k_have_the_same_bits(device, dtype, name):
    m, n = (side[-1] for side in ends_within(name))
    for parts in range(2, most_parts(name) + 1):
        a, b = pair_in_parts(name, parts, m, n, dtype, device, "nt")
        what = f"{name} {tuple(a.shape)} @ {tuple(b.shape)} in {parts} parts"
        assert_repeats_bits(hgemm(a, b), a, b, "auto", what)


@every_kernel
@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_of_one_stride(device, dtype, name, layout):
    """Matrices of their own, one a for all, one b for all, and outputs that lie apart."""
    with Failures() as failures:
        for m, n, k in [(130, 136, 72), (33, 65, most_k(name, 200)), (1, 8, 64), (70, 270, 0)]:
            a, b = pair(m, n, k, dtype, device, layout, batch=(6,))
            failures.check(name, a, b, must=True)
            failures.check(name, a[0], b, must=True)
            # Every other matrix of a: rows that don't fold into one taller matrix. Single columns
            # would, with neither stride 1.
            if m > 1 or layout[0] == "n":
                failures.check(name, a[::2], b[0], must=True)
            failures.check(name, a[:1].expand(6, m, k), b, must=True)
            for strides in [(m * n + 5, n, 1), (n, 6 * n, 1), (1, 6 * n, 6)]:
                guarded = Guarded((6, m, n), dtype, device, strides=strides, offset=2)
                failures.check(name, a, b, out=guarded.view, must=True)
                guarded.assert_around_untouched(f"{name} {guarded.describe()}")


def crooked(rows, cols, dtype, device, layout, start, pad):
    """A view `start` elements into rows of NaN that are `pad` elements longer, and more NaN."""
    outer, inner = (rows, cols) if layout == "n" else (cols, rows)
    base = torch.full((outer + 4, start + inner + pad), math.nan, dtype=dtype, device=device)
    view = base[2 : 2 + outer, start : start + inner].normal_()
    return view if layout == "n" else view.t()


@pytest.mark.parametrize("name", (HOPPER_STREAM, HOPPER_ONCE))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_of_any_alignment(device, dtype, name, layout):
    """Bases and pitches of every remainder, an operand each, and NaN beside every row."""
    shapes = [(130, 261, 200), (65, 61, 641), (15, 72, 127), (1, 300, 333), (200, 7, 9)]
    with Failures() as failures:
        for m, n, k in ((m, n, most_k(name, k)) for m, n, k in shapes):
            for start, pad in itertools.product((0, 1, 2, 4), (0, 1, 2, 4, 8)):
                a = crooked(m, k, dtype, device, layout[0], start, pad)
                b = crooked(
                    k, n, dtype, device, layout[1], random.randrange(8), random.randrange(8)
                )
                failures.check(name, a, b, must=True)
            stepped = torch.randn(m, 3 * k, dtype=dtype, device=device)[:, ::3]
            failures.check(name, stepped, b)
            failures.check(name, b.t(), stepped.t())


@every_kernel
def test_few_rows_or_columns(device, dtype, name):
    """Few rows where operands are swapped, so that the bias runs along the rows of what is
    multiplied, as n does; else few columns."""
    few = (*range(1, 65), *random.sample(range(65, 450), 16))
    with Failures() as failures:
        for m, kind in itertools.product(few, (dtype, torch.float32)):
            n, k = random.randint(1, 700), most_k(name, random.randint(1, 900))
            if name not in (*HOPPER_SWAPPED, HOPPER_STREAM):
                m, n = n, m
            a, b = pair(m, n, k, dtype, device)
            places = [{}, {"pad": 3, "offset": 4}, {"strides": (1, m)}, {"strides": (1, m + 3)}]
            guarded = Guarded((m, n), kind, device, **random.choice(places))
            options = {"out_dtype": None if kind == dtype else kind}
            options |= any_epilogue(n, dtype, device)
            failures.check(name, a, b, out=guarded.view, must=True, **options)
            guarded.assert_around_untouched(f"{name} {guarded.describe()}")


def test_a_thread_whose_first_cuda_call_it_is(device, dtype):
    """A new thread has no context; tensor maps need one, and nothing else would bind it."""
    a, b = pair(130, 72, 200, dtype, device)
    out = torch.empty(130, 72, dtype=dtype, device=device)
    hgemm.out(a, b, kernel="sm90", out=out)
    torch.cuda.synchronize()
    out.fill_(math.nan)
    torch.cuda.synchronize()
    failed = []

    def call():
        try:
            hgemm.out(a, b, kernel="sm90", out=out)
        except RuntimeError as error:
            failed.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert not failed, failed[0]
    assert_close(out, a, b)


def test_eight_streams_at_once(device, dtype):
    """Launches of every kernel that follow each other, and run side by side where they can."""
    work = []
    for i, name in itertools.product(range(8), (*HOPPER_ANY_K, HOPPER_ONCE)):
        stream = torch.cuda.Stream()
        for m, n, k in [(130, 264, 72), (300, 203, 1000), (2056, 2312, 200), (61, 96, 4100)]:
            a, b = pair(m + i, n + i, most_k(name, k + i), dtype, device)
            work.append((stream, name, a, b, torch.empty(m + i, n + i, dtype=dtype, device=device)))
    torch.cuda.synchronize()
    for _ in range(3):
        for stream, name, a, b, out in work:
            with torch.cuda.stream(stream):
                out.fill_(math.nan)
                hgemm.out(a, b, kernel=name, out=out)
    torch.cuda.synchronize()
    for _, name, a, b, out in work:
        assert_close(out, a, b, what=f"{name} {tuple(a.shape)} @ {tuple(b.shape)}")


@every_kernel
def test_graphs_replay_after_other_shapes(device, dtype, name):
    """A captured launch has its tensor maps with it: later ones leave them alone."""
    shapes = [(136, 264, 72), (300, 200, 1000), (2056, 2312, 200), (61, 96, 4104)]
    captured = [Captured(m, n, most_k(name, k), dtype, device, name) for m, n, k in shapes]
    for m, n, k in [(64, 64, 64), (1000, 1003, 1000), (8, 8, 8), (100, 40, 8200)]:
        a, b = pair(m, n, most_k(name, k), dtype, device)
        assert_close(hgemm(a, b, kernel=name), a, b, what=name)
        for each in captured:
            each.replay_and_check(f"{name} after {(m, n, k)}")


def test_over_2_31_outputs(device, dtype):
    """Rows that TMA writes, rows that it can't, those of tiles that are no boxes, few rows of many
    columns, and a block for every tile."""
    need_memory(40)
    with Failures() as failures:
        for name, m, n in [
            ("sm90_128x192x64_2x1", 65536 + 8, 32768 + 24),
            ("sm90_128x256x64", 65536 + 8, 32768 + 25),
            ("sm90_128x208x64_2x1", 65536 + 8, 32768 + 26),
            ("sm90_208x128x64_1x2", 65536 + 9, 32768 + 27),
            ("sm90_64x128x64", 33, 2**26 + 7),
            ("sm90_128x128x64_4x2", 65536 + 10, 32768 + 32),
            ("sm90_192x160x64_1x2", 65536 + 11, 32768 + 40),
            (HOPPER_ONCE, 65536 + 12, 32768 + 48),
        ]:
            failures.check(name, *pair(m, n, 8, dtype, device, "nt"), must=True)


@every_tile
def test_refuses_what_it_is_not_made_for(device, dtype, name):
    """Unaligned rows, no contiguous index, batches of two strides: the family takes them all."""
    a, b = pair(64, 80, 72, dtype, device, "nn")
    stepped = torch.randn(64, 144, dtype=dtype, device=device)[:, ::2]
    apart = [torch.randn(2, 6, *x.shape, dtype=dtype, device=device)[:, :5] for x in (a, b)]
    cases = [
        (operand(64, 72, dtype, device, pad=1), b, "the rows of a are not 16-byte aligned"),
        (operand(64, 72, dtype, device, offset=8), b, "the rows of a are not 16-byte aligned"),
        (a, operand(72, 80, dtype, device, layout="t", pad=4), "the rows of b are not 16-byte"),
        (a, operand(72, 80, dtype, device, offset=2), "the rows of b are not 16-byte aligned"),
        (stepped, b, "neither stride of a is 1"),
        (a, stepped.t()[:, :60], "neither stride of b is 1"),
        (*apart, "the batch has more than one stride"),
    ]
    for bad_a, bad_b, reason in cases:
        shape = (*torch.broadcast_shapes(bad_a.shape[:-2], bad_b.shape[:-2]), 64, bad_b.shape[-1])
        out = Guarded(shape, dtype, device)
        with pytest.raises(RuntimeError, match=f"kernel '{name}' can't run .*: {reason}"):
            hgemm.out(bad_a, bad_b, kernel=name, out=out.view)
        out.assert_untouched(f"{name}: {reason}")
        assert_close(hgemm(bad_a, bad_b, kernel="sm90"), bad_a, bad_b, what=reason)


@every_kernel
def test_what_lies_around_the_operands_is_not_read(device, dtype, name):
    """NaN on all sides of them; and neither is written."""
    with Failures() as failures:
        shapes = [(63, 72, 40), (257, 513, most_k(name, 333))]
        for layout, (m, n, k) in itertools.product(LAYOUTS, shapes):
            a_base, a = within_nan(m, k, dtype, device, layout[0])
            b_base, b = within_nan(k, n, dtype, device, layout[1])
            bits = [base.view(INT_OF[dtype]).clone() for base in (a_base, b_base)]
            failures.check(name, a, b, must=True)
            for base, before in zip((a_base, b_base), bits, strict=True):
                assert torch.equal(base.view(INT_OF[dtype]), before), f"{name} wrote an operand"
