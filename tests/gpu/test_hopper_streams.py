"""The kernels for few rows or columns: operands at any address, many tiles a block, more of K than
is staged at once, and what they refuse."""

import itertools
import random

import pytest
import torch
from calls import HOPPER_SHALLOW, HOPPER_STREAM, LAYOUTS, Failures, assert_repeats_bits
from reference import ACTIVATIONS, Guarded, assert_close, operand
from test_hopper_kernels import crooked

hgemm = torch.ops.vitamin.hgemm
both = pytest.mark.parametrize("name", (HOPPER_STREAM, HOPPER_SHALLOW))

THIN = (1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 31, 32, 33, 40, 70)
SHALLOW = (0, 1, 2, 3, 7, 8, 9, 13, 16, 31, 32, 33, 60, 63, 64, 65, 100, 127, 128)
DEEP = (255, 517, 1030, 2047, 2049, 2060, 4099, 5000, 9001)


@pytest.fixture(autouse=True)
def hopper(device):
    if torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("GPU test: the CUDA device is not sm_90")


def any_operand(rows, cols, layout, dtype, device):
    pad, offset = random.choice((0, 0, 1, 2, 3, 4, 8)), random.choice((0, 0, 0, 2, 4, 8))
    return operand(rows, cols, dtype, device, layout=layout, pad=pad, offset=offset)


@both
def test_any_problem(device, dtype, name):
    """Random extents, pitches, addresses, layouts, outputs and epilogues."""
    depths = SHALLOW if name == HOPPER_SHALLOW else SHALLOW + DEEP
    with Failures() as failures:
        for _ in range(400):
            sides = [random.choice(THIN), int(2 ** random.uniform(0, 13))]
            random.shuffle(sides)
            (m, n), k, layout = sides, random.choice(depths), random.choice(LAYOUTS)
            a = any_operand(m, k, layout[0], dtype, device)
            b = any_operand(k, n, layout[1], dtype, device)
            kind = random.choice((dtype, torch.float32))
            places = [{}, {"pad": 3, "offset": 4}, {"strides": (1, m)}, {"strides": (1, m + 3)}]
            out = Guarded((m, n), kind, device, **random.choice(places))
            bias = torch.randn(n, dtype=dtype, device=device)
            options = {"bias": random.choice((None, bias))}
            options |= {"activation": random.choice(list(ACTIVATIONS))}
            options |= {} if kind == dtype else {"out_dtype": kind}
            failures.check(name, a, b, out=out.view, must=True, what=layout, **options)
            out.assert_around_untouched(f"{name} {layout} {(m, n, k)}")


@both
@pytest.mark.parametrize("layout", LAYOUTS)
def test_operands_within_nan(device, dtype, name, layout):
    """Rows of every remainder of 16 bytes, and NaN before, behind and between them."""
    depths = (9, 61, 128) if name == HOPPER_SHALLOW else (9, 200, 1031)
    with Failures() as failures:
        for (m, n), k in itertools.product([(7, 261), (300, 15), (33, 72), (2, 3)], depths):
            for start, pad in itertools.product(range(8), (0, 1, 2, 4)):
                wide = crooked(m, k, dtype, device, layout[0], start, pad)
                other = [random.randrange(8) for _ in range(2)]
                thin = crooked(k, n, dtype, device, layout[1], *other)
                failures.check(name, wide, thin, must=True)


@both
def test_many_tiles_a_block(device, dtype, name):
    """Blocks go through the tiles in turn, copies of the next ones under way."""
    with Failures() as failures:
        for m, n, k in [(2, 300_001, 13), (300_001, 7, 24), (20, 90_003, 40), (90_003, 12, 100)]:
            for layout in LAYOUTS:
                a = operand(m, k, dtype, device, layout=layout[0])
                b = operand(k, n, dtype, device, layout=layout[1])
                failures.check(name, a, b, must=True, what=layout)


@both
def test_batches(device, dtype, name):
    """Matrices that follow each other in a block, each with its thin operand or all with one."""
    with Failures() as failures:
        for layout in LAYOUTS:
            for m, n, k in [(1, 4096, 128), (65, 3, 40), (9, 100, 77)]:
                a = operand(m, k, dtype, device, layout=layout[0], batch=(70,))
                b = operand(k, n, dtype, device, layout=layout[1], batch=(70,))
                failures.check(name, a, b, must=True)
                failures.check(name, a[:1].expand(70, m, k), b, must=True)
                failures.check(name, a, b[:1].expand(70, k, n), must=True)
            a = operand(5, 90, dtype, device, layout=layout[0], batch=(3, 4))[:, :3]
            b = operand(90, 200, dtype, device, layout=layout[1], batch=(3, 4))[:, :3]
            failures.check(name, a, b, must=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_more_of_k_than_is_staged_at_once(device, dtype, layout):
    with Failures() as failures:
        for m, n, k in [(8, 700, 20_000), (300, 31, 9001), (16, 16, 30_011), (40, 7000, 5003)]:
            a = operand(m, k, dtype, device, layout=layout[0])
            b = operand(k, n, dtype, device, layout=layout[1])
            failures.check(HOPPER_STREAM, a, b, must=True)


@both
def test_the_same_bits(device, dtype, name):
    for m, n, k in [(3, 1001, 117), (500, 11, 64), (16, 24, 101)]:
        a, b = operand(m, k, dtype, device), operand(k, n, dtype, device, layout="t")
        assert_repeats_bits(hgemm(a, b, kernel=name), a, b, name, f"{name} {(m, n, k)}")


def test_refusals(device, dtype):
    a, b = operand(4, 129, dtype, device), operand(129, 300, dtype, device)
    stepped = torch.randn(900, 40, dtype=dtype, device=device)[::3].t()[::2]
    far = torch.randn(300, 4000, dtype=dtype, device=device)[:, :64].t()
    for x, y, names, reason in [
        (a, b, [HOPPER_SHALLOW], "K is above 128"),
        (a[:, :20], stepped, [HOPPER_STREAM, HOPPER_SHALLOW], "neither stride of the larger"),
        (a[:, :64], far, [HOPPER_SHALLOW], "rows of the larger operand lie too far apart"),
    ]:
        for name in names:
            out = Guarded((4, 300), dtype, device)
            with pytest.raises(RuntimeError, match=f"kernel '{name}' can't run .*: {reason}"):
                hgemm.out(x, y, kernel=name, out=out.view)
            out.assert_untouched(reason)
        assert_close(hgemm(x, y, kernel="sm90"), x, y, what=reason)
