"""Every kernel, type and layout over aligned, ragged, tiny, thin, empty and large products."""

import math
import random

import pytest
import torch
from calls import (
    AMPERE_STEPS,
    FAMILIES,
    HOPPER_STEPS,
    HOPPER_STUDIES,
    LAYOUTS,
    Failures,
    choosers,
    kernel_names,
    kernels_here,
    layout_of,
    most_k,
    need_memory,
    padded_pairs,
    production,
    table,
)
from reference import operand

ALIGNED = [(128, 128, 64), (256, 128, 32), (64, 64, 64), (512, 256, 128), (136, 520, 72)]
RAGGED = [(129, 127, 65), (130, 258, 36), (255, 257, 100), (127, 64, 33), (65, 190, 300)]
THIN = [(1, 1000, 1024), (1024, 1, 1000), (3, 2000, 70), (2000, 3, 70), (1, 1, 5000)]
SHALLOW = [(500, 500, 1), (500, 500, 2), (300, 200, 7), (200, 300, 8), (300, 300, 17)]
DEEP = [(7, 9, 5000), (64, 64, 8192), (100, 130, 4100), (16, 24, 20001)]
TINY = [(1, 1, 1), (2, 3, 5), (16, 8, 16), (17, 17, 17), (8, 8, 8), (1, 17, 1), (17, 1, 17)]


def shapes():
    """The lists above and as many random shapes, new in each run."""
    tiny = [tuple(random.randint(1, 17) for _ in range(3)) for _ in range(16)]
    mixed = [tuple(int(2 ** random.uniform(0, 9.5)) for _ in range(3)) for _ in range(24)]
    return ALIGNED + RAGGED + THIN + SHALLOW + DEEP + TINY + tiny + mixed


def round_up(n):
    return -(-n // 8) * 8


def operands(m, n, k, layout, dtype, device, pad_to_8):
    """Random a and b whose stored rows are tight, or padded with NaN to a multiple of 8."""
    a_inner, b_inner = (k if layout[0] == "n" else m), (n if layout[1] == "n" else k)
    a_pad, b_pad = (round_up(i) - i if pad_to_8 else 0 for i in (a_inner, b_inner))
    a = operand(m, k, dtype, device, layout=layout[0], pad=a_pad)
    b = operand(k, n, dtype, device, layout=layout[1], pad=b_pad)
    return a, b


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_kernel(device, dtype, layout):
    """Tight and padded rows; a kernel refuses, with a reason, what it is not made for."""
    with Failures() as failures:
        for m, n, k in shapes():
            for pad_to_8 in (False, True):
                a, b = operands(m, n, k, layout, dtype, device, pad_to_8)
                for name in kernel_names():
                    failures.check(name, a, b)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_large(device, dtype, layout):
    need_memory(8)
    with Failures() as failures:
        for m, n, k in [(4096, 4096, 4096), (4104, 4000, 1032)]:
            a, b = operands(m, n, k, layout, dtype, device, pad_to_8=False)
            for name in kernel_names():
                failures.check(name, a, b)
        for m, n, k in [(4095, 4095, 4095), (8192, 8192, 1024), (8191, 515, 8191), (6, 8190, 8190)]:
            a, b = operands(m, n, k, layout, dtype, device, pad_to_8=False)
            for name in choosers():
                failures.check(name, a, b)


def test_larger_than_l2(device, dtype):
    need_memory(8)
    with Failures() as failures:
        for m, n, k, layout in [
            (8192, 8192, 8192, "nn"),
            (2048, 50257, 768, "nt"),
            (2048, 768, 50257, "nn"),
            (768, 50257, 2048, "tn"),
            (16, 128256, 4096, "nt"),
            (2, 2056986, 13, "nt"),
            (15092, 432, 5200, "tt"),
        ]:
            a, b = operands(m, n, k, layout, dtype, device, pad_to_8=False)
            failures.check("auto", a, b)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_empty(device, dtype, layout):
    """No element, or no term: K = 0 gives zeros, or the activation of the bias."""
    with Failures() as failures:
        for m, n, k in [
            (0, 5, 3),
            (5, 0, 3),
            (0, 0, 0),
            (0, 5, 0),
            (5, 0, 0),
            (5, 7, 0),
            (300, 200, 0),
        ]:
            a, b = operands(m, n, k, layout, dtype, device, pad_to_8=False)
            bias = torch.randn(n, dtype=dtype, device=device)
            for name in kernel_names():
                failures.check(name, a, b)
                failures.check(name, a, b, bias=bias, activation="gelu")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_nan_and_inf_propagate(device, dtype, layout):
    """Only where torch has them: neither lost, nor made by what pads the tiles."""
    with Failures() as failures:
        for m, n, k in [(64, 64, 64), (130, 70, 33), (5, 9, 1), (17, 40, 200), (40, 24, 5000)]:
            a, b = operands(m, n, k, layout, dtype, device, pad_to_8=True)
            for value, x in [(math.inf, a), (-math.inf, b), (math.nan, a), (math.nan, b)]:
                x[random.randrange(x.shape[0]), random.randrange(x.shape[1])] = value
            a[-1, -1] = math.inf
            b[-1, -1] = math.nan
            for name in kernel_names():
                for activation in ("none", "relu", "gelu", "gelu_tanh", "silu"):
                    failures.check(name, a, b, activation=activation)


def test_overflow_to_infinity(device):
    """Sums beyond fp16's range, not beyond fp32's, round to infinity with the right sign."""
    pairs = padded_pairs(33, 24, 40, torch.float16, device)
    for x in (x for pair in pairs.values() for x in pair):
        x.fill_(200)
    pairs["nn"][0][::2] *= -1
    with Failures() as failures:
        for name in kernel_names():
            a, b = pairs[layout_of(name)]
            out = failures.check(name, a, b)
            if out is not None:
                assert out[0].eq(-math.inf).all() and out[1].eq(math.inf).all(), name
            failures.check(name, a, b, out_dtype=torch.float32)


def test_functional_form_gives_the_same_bits(device, dtype):
    a, b = operands(130, 72, 80, "nt", dtype, device, pad_to_8=False)
    for name in choosers():
        out = torch.empty(130, 72, dtype=dtype, device=device)
        assert torch.ops.vitamin.hgemm.out(a, b, kernel=name, out=out) is out
        assert torch.equal(torch.ops.vitamin.hgemm(a, b, kernel=name), out)


def test_result_does_not_depend_on_other_rows(device, dtype):
    """A row's values are those that it has alone in the same tile: none leaks into another."""
    pairs = padded_pairs(200, 136, 264, dtype, device)
    for name in kernels_here():
        k = most_k(name, 264)
        a, b = pairs[layout_of(name)]
        if k < len(b):
            a, b = a[:, :k].contiguous(), b[:k].contiguous()
        whole = torch.ops.vitamin.hgemm(a, b, kernel=name)
        changed = a.clone()
        changed[100:] = math.nan
        part = torch.ops.vitamin.hgemm(changed, b, kernel=name)
        assert torch.equal(whole[:100], part[:100]), name
        assert part[100:].isnan().all(), name


def test_the_table_lists_what_is_tested():
    tested = {*AMPERE_STEPS, *HOPPER_STEPS, *HOPPER_STUDIES, "cublas"}
    assert {name for name, entry in table().items() if entry["family"] not in FAMILIES} == tested
    assert all(len(production(family)) >= 3 for family in FAMILIES)
    assert any(table()[name]["any_align"] for name in production("sm80"))
