"""Operands and outputs of any alignment, row pitch and stride; nothing around them is touched."""

import itertools
import random

import pytest
import torch
from calls import LAYOUTS, Failures, kernel_names, layout_of, padded_pairs
from reference import Guarded, operand

OFFSETS = range(0, 16, 2)
PADS = (0, 1, 2, 4, 8)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_alignment_of_the_operands(device, dtype, layout):
    """Each base offset with each row pitch for both operands, and some for one of them alone."""
    m, n, k = 136, 72, 104
    places = [{"offset": offset, "pad": pad} for offset in OFFSETS for pad in PADS]
    pairs = [(place, place) for place in places]
    pairs += [(place, {}) for place in random.sample(places, 8)]
    pairs += [({}, place) for place in random.sample(places, 8)]
    with Failures() as failures:
        for a_at, b_at in pairs:
            a = operand(m, k, dtype, device, layout=layout[0], **a_at)
            b = operand(k, n, dtype, device, layout=layout[1], **b_at)
            for name in kernel_names():
                failures.check(name, a, b)


@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["same", "fp32"])
def test_every_alignment_of_the_output(device, dtype, out_dtype):
    """Offsets of the base and padded rows, in a buffer of which every byte is then checked."""
    kind = out_dtype or dtype
    with Failures() as failures:
        for m, n in [(130, 136), (65, 129), (3, 7), (1, 33), (33, 1)]:
            pairs = padded_pairs(m, n, 64, dtype, device)
            for offset in range(0, 16, kind.itemsize):
                for pad, name in itertools.product((0, 1, 3, 8), kernel_names()):
                    guarded = Guarded((m, n), kind, device, pad=pad, offset=offset)
                    a, b = pairs[layout_of(name)]
                    failures.check(name, a, b, out=guarded.view, out_dtype=out_dtype)
                    guarded.assert_around_untouched(f"{name} at {offset} bytes, pad {pad}")


@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["same", "fp32"])
def test_outputs_of_any_strides(device, dtype, out_dtype):
    """Transposed, strided in both directions, batch innermost: written in place."""
    kind = out_dtype or dtype
    with Failures() as failures:
        for m, n, k in [(130, 136, 72), (65, 33, 40), (2, 9, 3), (40, 24, 5000)]:
            for batch, strides in [
                ((), (1, m)),
                ((), (1, m + 3)),
                ((), (2 * n, 2)),
                ((), (3, 3 * m + 1)),
                ((3,), (1, 3 * n, 3)),
                ((3,), (m * n + 5, 1, m)),
                ((3,), (n, 3 * n, 1)),
            ]:
                pairs = padded_pairs(m, n, k, dtype, device, batch=batch)
                for name in kernel_names():
                    a, b = pairs[layout_of(name)]
                    guarded = Guarded((*batch, m, n), kind, device, strides=strides, offset=4)
                    failures.check(name, a, b, out=guarded.view, out_dtype=out_dtype)
                    guarded.assert_around_untouched(f"{name} {guarded.describe()}")


def views(rows, cols, dtype, device):
    """A [rows, cols] matrix in every unusual way of lying in memory."""

    def new(*shape):
        return torch.randn(*shape, dtype=dtype, device=device)

    yield "steps of 2", new(rows, 2 * cols)[:, ::2]
    yield "steps of 3 and 2", new(3 * rows, 2 * cols)[::3, 1::2]
    yield "transposed steps", new(2 * cols, 3 * rows)[::2, ::3].t()
    yield "one row, expanded", new(1, cols).expand(rows, cols)
    yield "one column, expanded", new(rows, 1).expand(rows, cols)
    yield "one element, expanded", new(1, 1).expand(rows, cols)
    yield "overlapping rows", new(rows + cols).as_strided((rows, cols), (1, 1))
    yield "rows that overlap by half", new(rows * cols).as_strided((rows, cols), (cols // 2, 1))
    yield "middle of a larger one", new(rows + 9, cols + 9)[3 : 3 + rows, 5 : 5 + cols]


def test_operands_of_any_strides(device, dtype):
    with Failures() as failures:
        for m, n, k in [(130, 136, 72), (33, 65, 40), (6, 10, 4)]:
            for (a_kind, a), (b_kind, b) in itertools.product(
                views(m, k, dtype, device), views(k, n, dtype, device)
            ):
                failures.check_all(a, b, what=f"{a_kind} x {b_kind}")


def test_operands_may_share_memory(device, dtype):
    x = torch.randn(140, 140, dtype=dtype, device=device)
    with Failures() as failures:
        for name in kernel_names():
            failures.check(name, x, x)
            failures.check(name, x, x.t())
            failures.check(name, x[:64, :72], x[3:75, 5:69])


def test_inputs_are_not_written(device, dtype):
    """The operands, their padding and the bias are the same bits afterwards."""
    with Failures() as failures:
        for m, n, k in [(64, 64, 64), (65, 67, 69), (16, 24, 9000)]:
            offset = random.choice(OFFSETS)
            a = Guarded((m, k), dtype, device, offset=offset, pad=3)
            b = Guarded((k, n), dtype, device, strides=(1, k + 1), offset=offset)
            bias = Guarded((n,), dtype, device)
            out = torch.empty(m, n, dtype=dtype, device=device)
            for name in kernel_names():
                failures.check(name, a.view, b.view, out=out, bias=bias.view)
                for what, guarded in [("a", a), ("b", b), ("bias", bias)]:
                    guarded.assert_untouched(f"{name}: {what}")
