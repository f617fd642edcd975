"""The kernel for K up to 1024 with a block for every tile: each depth, operands of every alignment,
batches of any strides, and what it refuses."""

import random

import pytest
import torch
from calls import HOPPER_ONCE, LAYOUTS, MOST_K, Failures, assert_repeats_bits
from reference import Guarded, assert_close, operand
from test_hopper_kernels import any_epilogue

ALIGNMENTS = (2, 4, 8, 16)  # bytes
SIDES = (1, 2, 7, 16, 40, 47, 48, 63, 64, 65, 72, 100, 127, 128, 129, 136, 200, 261)

hgemm = torch.ops.vitamin.hgemm


@pytest.fixture(autouse=True)
def hopper(device):
    if torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("GPU test: the CUDA device is not sm_90")


def aligned(rows, cols, dtype, device, layout, align):
    """An operand whose rows begin at multiples of `align` bytes, and of no more of them."""
    pad = -(cols if layout == "n" else rows) % (align // 2)
    return operand(rows, cols, dtype, device, layout=layout, pad=pad, offset=align % 16)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_depth(device, dtype, layout):
    """K that ends within what is copied at once, and within what is multiplied."""
    with Failures() as failures:
        for k in (*range(129), *random.sample(range(129, MOST_K[HOPPER_ONCE]), 60), 1024):
            for align in ALIGNMENTS:
                m, n = random.choices(SIDES, k=2)
                a = aligned(m, k, dtype, device, layout[0], align)
                b = aligned(k, n, dtype, device, layout[1], random.choice(ALIGNMENTS))
                failures.check(HOPPER_ONCE, a, b, must=True, what=layout)


def test_any_problem(device, dtype):
    """Tiny and larger ones, outputs of either type that lie in any way, and epilogues."""
    with Failures() as failures:
        for _ in range(800):
            m, n = (random.choice((random.randint(1, 20), random.choice(SIDES))) for _ in "mn")
            k, layout = random.randint(0, random.choice((128, 600))), random.choice(LAYOUTS)
            a = aligned(m, k, dtype, device, layout[0], random.choice(ALIGNMENTS))
            b = aligned(k, n, dtype, device, layout[1], random.choice(ALIGNMENTS))
            kind = random.choice((dtype, dtype, torch.float32))
            places = [{}, {"pad": -n % 8}, {"pad": 3, "offset": 4}, {"pad": 8, "offset": 8}]
            places += [{"strides": s} for s in ((1, m), (1, m + -m % 8), (1, m + 3), (2 * n, 2))]
            out = Guarded((m, n), kind, device, **random.choice(places))
            options = {"out_dtype": None if kind == dtype else kind}
            options |= any_epilogue(n, dtype, device)
            failures.check(HOPPER_ONCE, a, b, out=out.view, must=True, what=layout, **options)
            out.assert_around_untouched(f"{layout} {(m, n, k)} {out.describe()}")


def test_batches_of_any_strides(device, dtype):
    """Permuted, stepped, broadcast, and exchanged with the rows; matrices strided both ways."""
    x = torch.randn(3, 4, 5, 2, 40, 72, dtype=dtype, device=device)
    y = torch.randn(3, 4, 5, 2, 72, 65, dtype=dtype, device=device)
    order = (2, 0, 3, 1, 4, 5)
    with Failures() as failures:
        for a, b in [
            (x, y),
            (x.permute(order), y.permute(order)),
            (x[:, ::2, 1:], y[:, 1::2, :-1]),
            (x[:1].expand_as(x), y),
            (x[:, :1, :, :1].expand_as(x), y[:1, :, :1].expand_as(y)),
            (x[0, 0], y),
            (x, y[1, 2, 3, 1]),
            (x.transpose(0, -2), y[0]),
            (x[..., ::2, ::3], y[..., ::3, 1::2]),
            (y.mT[..., ::5, :], x.mT),
        ]:
            failures.check(HOPPER_ONCE, a, b, must=True)
            batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            shape = (*batch, a.shape[-2], b.shape[-1])
            out = torch.empty(*reversed(shape), dtype=dtype, device=device)
            out = out.permute(*reversed(range(len(shape))))
            failures.check(
                HOPPER_ONCE, a, b, out=out, must=True, **any_epilogue(shape[-1], dtype, device)
            )


def test_the_same_bits(device, dtype):
    for m, n, k in [(3, 1001, 117), (500, 72, 64), (16, 24, 101), (200, 133, 777)]:
        a, b = operand(m, k, dtype, device), operand(k, n, dtype, device, layout="t")
        first = hgemm(a, b, kernel=HOPPER_ONCE)
        assert_repeats_bits(first, a, b, HOPPER_ONCE, f"{(m, n, k)}")


def test_refuses_deeper_k(device, dtype):
    a, b = operand(70, 1025, dtype, device), operand(1025, 300, dtype, device)
    out = Guarded((70, 300), dtype, device)
    with pytest.raises(RuntimeError, match=f"kernel '{HOPPER_ONCE}' can't run .*: K is above 1024"):
        hgemm.out(a, b, kernel=HOPPER_ONCE, out=out.view)
    out.assert_untouched()
    assert_close(hgemm(a, b, kernel="sm90"), a, b)
