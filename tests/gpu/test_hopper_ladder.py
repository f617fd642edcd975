"""What a ring of stages, a cluster or a tile scheduler can get wrong, in each step and study."""

import math
import random

import pytest
import torch
from calls import (
    HOPPER_ANY_K,
    HOPPER_STEPS,
    HOPPER_STUDIES,
    Failures,
    assert_repeats_bits,
    need_memory,
    padded,
    padded_pairs,
)
from reference import ACTIVATIONS, INT_OF, Guarded, assert_close, operand, within_nan
from soak import soak_apart
from test_graphs import Captured

# One tile and a little, many k-tiles, more tiles than SMs, no full k-tile.
SHAPES = [(130, 264, 72), (300, 200, 1000), (2056, 2312, 200), (64, 72, 8)]

hgemm = torch.ops.vitamin.hgemm
every_kernel = pytest.mark.parametrize("name", (*HOPPER_STEPS, *HOPPER_STUDIES))


@pytest.fixture(autouse=True)
def hopper(device):
    if torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("GPU test: the CUDA device is not sm_90")


@pytest.mark.parametrize("step", HOPPER_STEPS)
def test_ten_thousand_launches_do_not_hang(step, seed):
    """Of the step and of its variants."""
    version = step.split("_")[1]
    names = [n for n in (*HOPPER_STEPS, *HOPPER_STUDIES) if n.split("_")[1] == version]
    soak_apart(seed, 10_000, names)


@every_kernel
def test_a_thousand_repeats_have_the_same_bits(device, dtype, name):
    for m, n, k in SHAPES:
        a, b = padded_pairs(m, n, k, dtype, device)["nt"]
        first = hgemm(a, b, kernel=name)
        assert_close(first, a, b, what=name)
        assert_repeats_bits(first, a, b, name, f"{name} {(m, n, k)}")


@every_kernel
def test_nothing_around_the_views_is_read_or_written(device, dtype, name):
    with Failures() as failures:
        for m, n, k in [(1, 1, 8), (63, 72, 40), (128, 256, 64), (130, 264, 520), (257, 513, 333)]:
            a_base, a = within_nan(m, k, dtype, device, "n")
            b_base, b = within_nan(k, n, dtype, device, "t")
            bits = [base.view(INT_OF[dtype]).clone() for base in (a_base, b_base)]
            for pad in (-n % 8, 8 - n % 8, 5):
                guarded = Guarded((m, n), dtype, device, pad=pad)
                failures.check(name, a, b, out=guarded.view, must=True)
                guarded.assert_around_untouched(f"{name} {(m, n, k)}, pad {pad}")
            for base, before in zip((a_base, b_base), bits, strict=True):
                assert torch.equal(base.view(INT_OF[dtype]), before), f"{name} wrote an operand"


@every_kernel
def test_outputs_of_any_alignment_and_strides(device, dtype, name):
    """Rows at odd addresses, column-major, strided both ways, in either type, with an epilogue."""
    with Failures() as failures:
        for m, n, k in [(130, 136, 72), (65, 129, 200), (3, 7, 40), (257, 300, 0)]:
            a, b = padded_pairs(m, n, k, dtype, device)["nt"]
            for kind in (dtype, torch.float32):
                places = [{"pad": pad, "offset": 4} for pad in (0, 1, 4)]
                places += [{"pad": -n % 8, "offset": offset} for offset in (8, 16 - kind.itemsize)]
                places += [{"strides": s} for s in ((1, m), (1, m + 3), (2 * n, 2))]
                for place in places:
                    guarded = Guarded((m, n), kind, device, **place)
                    options = {
                        "bias": random.choice((None, torch.randn(n, dtype=dtype, device=device))),
                        "activation": random.choice(list(ACTIVATIONS)),
                        "out_dtype": None if kind == dtype else kind,
                    }
                    failures.check(name, a, b, out=guarded.view, must=True, **options)
                    guarded.assert_around_untouched(f"{name} {place} {guarded.describe()}")


def test_operands_over_2_31_elements(device, dtype):
    """As a whole, from one row to the next, and more row tiles than a grid axis takes."""
    need_memory(24)
    rows = 2**20 + 8
    base = torch.empty(rows * 2056, dtype=dtype, device=device).uniform_(-1, 1)
    wide, far = base.view(rows, 2056), base.as_strided((2, 64), (2**31 + 64, 1))
    tall = operand(8388353, 8, dtype, device)
    pairs = [
        (wide, operand(2056, 8, dtype, device, layout="t")),
        (operand(8, 2056, dtype, device), wide.t()),
        (wide[-130:], operand(2056, 72, dtype, device, layout="t")),
        (far, operand(64, 72, dtype, device, layout="t")),
        (operand(72, 64, dtype, device), far.t()),
        (tall, operand(8, 8, dtype, device, layout="t")),
        (operand(8, 8, dtype, device), tall.t()),
    ]
    with Failures() as failures:
        for name in (*HOPPER_STEPS, *HOPPER_ANY_K):
            for a, b in pairs:
                failures.check(name, a, b, must=True)


def test_over_2_31_outputs(device, dtype):
    need_memory(40)
    m, n, k = 65536 + 8, 32768 + 24, 8
    a, b = padded(m, k, dtype, device), padded(k, n, dtype, device, "t")
    with Failures() as failures:
        for name in HOPPER_STEPS:
            failures.check(name, a, b, must=True)


@every_kernel
def test_several_streams_at_once(device, dtype, name):
    """Launches that follow each other on eight streams, and run side by side where they can."""
    work = []
    for i in range(8):
        stream = torch.cuda.Stream()
        for m, n, k in SHAPES:
            a, b = padded_pairs(m + i, n + i, k + 8 * i, dtype, device)["nt"]
            out = torch.empty(m + i, n + i, dtype=dtype, device=device)
            work.append((stream, a, b, out))
    torch.cuda.synchronize()
    for _ in range(5):
        for stream, a, b, out in work:
            with torch.cuda.stream(stream):
                out.fill_(math.nan)
                hgemm.out(a, b, kernel=name, out=out)
    torch.cuda.synchronize()
    for _, a, b, out in work:
        assert_close(out, a, b, what=name)


@every_kernel
def test_graphs_replay_after_other_shapes(device, dtype, name):
    """A captured launch has its tensor maps with it: later ones leave them alone."""
    captured = [Captured(*shape, dtype, device, name) for shape in SHAPES]
    for m, n, k in [(64, 64, 64), (1000, 1000, 1000), (8, 8, 8), (129, 257, 65)]:
        a, b = padded_pairs(m, n, k, dtype, device)["nt"]
        assert_close(hgemm(a, b, kernel=name), a, b, what=name)
        for each in captured:
            each.replay_and_check(f"{name} after {(m, n, k)}")


@every_kernel
def test_refuses_what_it_is_not_made_for(device, dtype, name):
    """Other layouts and unaligned rows: the reason has the operand, and nothing is written."""
    a, b = padded_pairs(64, 80, 72, dtype, device)["nt"]
    columns = operand(64, 72, dtype, device, layout="t")
    for bad_a, bad_b, reason in [
        (a, operand(72, 80, dtype, device), "b is row-major"),
        (columns, operand(72, 80, dtype, device), "[ab] is (row|column)-major"),
        (columns, b, "a is column-major"),
        (operand(64, 72, dtype, device, pad=1), b, "the rows of a are not 16-byte aligned"),
        (operand(64, 72, dtype, device, offset=8), b, "the rows of a are not 16-byte aligned"),
        (a, operand(72, 80, dtype, device, layout="t", pad=4), "the rows of b are not 16-byte"),
        (a, operand(72, 80, dtype, device, layout="t", offset=2), "the rows of b are not 16-byte"),
    ]:
        out = Guarded((64, 80), dtype, device)
        with pytest.raises(RuntimeError, match=f"kernel '{name}' can't run .*: {reason}"):
            hgemm.out(bad_a, bad_b, kernel=name, out=out.view)
        out.assert_untouched(f"{name}: {reason}")
