"""Bias, activation and output type, fused before the one rounding, by every kernel."""

import itertools
import random

import pytest
import torch
from calls import (
    LAYOUTS,
    Failures,
    call,
    choosers,
    kernel_names,
    kernels_here,
    layout_of,
    most_k,
    padded,
    padded_pairs,
)
from reference import ACTIVATIONS, ROUNDING, operand

SHAPES = [(130, 136, 72), (64, 64, 64), (129, 127, 65), (5, 9, 3), (300, 24, 2048), (1, 515, 70)]


def biases(n, dtype, device):
    """None, contiguous, one that starts at an odd place, strided, and a single element."""
    odd = torch.randn(n + 1, dtype=dtype, device=device)[1:]
    strided = torch.randn(n, 3, dtype=dtype, device=device)[:, 1]
    single = torch.randn(1, dtype=dtype, device=device).expand(n)
    return [None, torch.randn(n, dtype=dtype, device=device), odd, strided, single]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_combination(device, dtype, layout):
    """Each activation and output type, with a bias that is drawn anew each time."""
    with Failures() as failures:
        for m, n, k in SHAPES:
            a = padded(m, k, dtype, device, layout[0])
            b = padded(k, n, dtype, device, layout[1])
            kinds = biases(n, dtype, device)
            combinations = itertools.product(kernel_names(), ACTIVATIONS, (None, torch.float32))
            for name, activation, out_dtype in combinations:
                options = {"bias": random.choice(kinds), "activation": activation}
                failures.check(name, a, b, out_dtype=out_dtype, **options)


def test_bias_is_added_before_the_rounding(device, dtype):
    """Sums whose rounding would lose what is left once the bias has cancelled the rest."""
    k, unit = 64, 2 * ROUNDING[dtype][0]
    pairs = padded_pairs(96, 40, k, dtype, device)
    for a, b in pairs.values():
        a.fill_(1)
        b.fill_(1)
        b[0] += unit
    bias = torch.full((40,), -float(k), dtype=dtype, device=device)
    assert torch.tensor(k + unit, dtype=dtype).item() == k
    for name in kernels_here():
        out = torch.full((96, 40), torch.nan, dtype=dtype, device=device)
        call(name, *pairs[layout_of(name)], out, bias=bias)
        assert out.eq(unit).all(), f"{name}: {out[0, 0]} is not {unit}"


def test_float32_output_is_not_rounded(device, dtype):
    """Sums of integers that neither 16-bit type holds come out exactly."""
    a = torch.randint(-31, 32, (130, 4096), device=device).to(dtype)
    b = torch.randint(-31, 32, (4096, 72), device=device).to(dtype)
    pairs = {"nn": (a, b), "nt": (a, b.mT.contiguous().mT)}
    for name in kernels_here():
        k = most_k(name, 4096)
        a, b = pairs[layout_of(name)]
        if k < len(b):
            a, b = a[:, :k].contiguous(), b[:k].contiguous()
        want = (a.double() @ b.double()).float()
        assert not want.eq(want.to(dtype).float()).all()
        out = torch.ops.vitamin.hgemm(a, b, kernel=name, out_dtype=torch.float32)
        assert out.dtype == torch.float32
        assert torch.equal(out, want), name


def test_half_precision_output_is_the_float32_output_rounded_once(device, dtype):
    a, b = operand(200, 3000, dtype, device), operand(3000, 136, dtype, device)
    bias = torch.randn(136, dtype=dtype, device=device)
    for name, activation in itertools.product(choosers(), ACTIVATIONS):
        options = {"kernel": name, "bias": bias, "activation": activation}
        wide = torch.ops.vitamin.hgemm(a, b, out_dtype=torch.float32, **options)
        narrow = torch.ops.vitamin.hgemm(a, b, **options)
        assert narrow.dtype == dtype
        assert torch.equal(wide.to(dtype), narrow), (name, activation)
