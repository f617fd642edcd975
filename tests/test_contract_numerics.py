"""Bias, activations and the one rounding; NaN, infinity and exact integers."""

import math

import pytest
import torch
from reference import ACTIVATIONS, assert_close, judge

import vitamin_hgemm


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("with_bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["half", "fp32"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=["matrix", "batch"])
def test_epilogue(activation, with_bias, out_dtype, batch, dtype, any_device):
    a = torch.randn(*batch, 29, 67, dtype=dtype, device=any_device)
    b = torch.randn(*batch, 67, 31, dtype=dtype, device=any_device)
    bias = torch.randn(31, dtype=dtype, device=any_device) if with_bias else None
    out = vitamin_hgemm.hgemm(a, b, bias=bias, activation=activation, out_dtype=out_dtype)
    assert out.dtype == (out_dtype or dtype)
    assert_close(out, a, b, bias, activation)


@pytest.mark.parametrize("b_shape", [(67,), (67, 31)])
@pytest.mark.parametrize("a_shape", [(67,), (29, 67)])
def test_epilogue_of_vectors(a_shape, b_shape, dtype, any_device):
    a = torch.randn(a_shape, dtype=dtype, device=any_device)
    b = torch.randn(b_shape, dtype=dtype, device=any_device)
    bias = torch.randn(b_shape[1:] or 1, dtype=dtype, device=any_device)
    out = vitamin_hgemm.hgemm(a, b, bias=bias, activation="gelu")
    assert_close(out, a, b, bias, "gelu")


@pytest.mark.parametrize("stride", [0, 2, 5])
def test_bias_of_any_stride(stride, dtype, any_device):
    a = torch.randn(8, 16, dtype=dtype, device=any_device)
    b = torch.randn(16, 12, dtype=dtype, device=any_device)
    bias = torch.randn(80, dtype=dtype, device=any_device).as_strided((12,), (stride,), 3)
    assert_close(vitamin_hgemm.hgemm(a, b, bias=bias), a, b, bias)


def test_bias_is_added_before_the_rounding(dtype, any_device):
    """The product alone would round to a value that differs by far more than the sum's rounding."""
    a = torch.full((1, 2), 1.0, dtype=dtype, device=any_device)
    b = torch.tensor([[1024.0], [0.25]], dtype=dtype, device=any_device)
    bias = torch.tensor([-1024.0], dtype=dtype, device=any_device)
    assert vitamin_hgemm.hgemm(a, b, bias=bias).item() == 0.25


def test_accumulates_in_fp32(dtype, any_device):
    """Half-precision partial sums would stop growing at 2048 (fp16) or 256 (bf16)."""
    a = torch.ones(1, 5000, dtype=dtype, device=any_device)
    assert vitamin_hgemm.hgemm(a, a.mT, out_dtype=torch.float32).item() == 5000


def test_fp32_result_is_not_rounded(dtype, any_device):
    a = torch.randn(16, 64, dtype=dtype, device=any_device)
    b = torch.randn(64, 16, dtype=dtype, device=any_device)
    wide = vitamin_hgemm.hgemm(a, b, out_dtype=torch.float32)
    assert not torch.equal(wide, wide.to(dtype).float())
    assert torch.equal(wide.to(dtype), vitamin_hgemm.hgemm(a, b))


def test_integers_are_exact(dtype, any_device):
    a = torch.randint(-3, 4, (8, 2048), device=any_device).to(dtype)
    b = torch.randint(-3, 4, (2048, 24), device=any_device).to(dtype)
    exact = (a.double() @ b.double()).to(dtype)
    assert torch.equal(vitamin_hgemm.hgemm(a, b), exact)


def test_infinity_times_padding_is_no_nan(dtype, any_device):
    a = torch.tensor([[math.inf, 0.0, -math.inf]], dtype=dtype, device=any_device)
    b = torch.tensor([[0.7891], [0.2041], [-0.1982]], dtype=dtype, device=any_device)
    assert vitamin_hgemm.hgemm(a, b).item() == math.inf
    assert vitamin_hgemm.hgemm(a[0], b[:, 0]).item() == math.inf


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_propagate(value, activation, dtype, any_device):
    a = torch.randn(9, 17, dtype=dtype, device=any_device)
    b = torch.randn(17, 11, dtype=dtype, device=any_device)
    a[4, 5] = value
    out = vitamin_hgemm.hgemm(a, b, activation=activation)
    z = value * b[5].float()
    if activation in ("none", "relu") or math.isnan(value):
        want = ACTIVATIONS[activation][0](z).to(dtype)
        assert torch.equal(out[4].nan_to_num(nan=7), want.nan_to_num(nan=7))
    else:
        # torch's own activations disagree on whether infinity gives its limit or NaN.
        assert not out[4][z > 0].isfinite().any()
        assert (out[4][z < 0].isnan() | (out[4][z < 0] == 0)).all()
    rest = [0, 1, 2, 3, 5, 6, 7, 8]
    assert_close(out[rest], a[rest], b, activation=activation)


def test_nan_in_bias(dtype, any_device):
    a = torch.randn(9, 17, dtype=dtype, device=any_device)
    bias = torch.zeros(9, dtype=dtype, device=any_device)
    bias[3] = math.nan
    out = vitamin_hgemm.hgemm(a, a.mT, bias=bias)
    assert out[:, 3].isnan().all() and out.isnan().sum() == 9


def test_overflow_of_fp16_is_infinity(any_device):
    a = torch.full((1, 64), 256.0, dtype=torch.float16, device=any_device)
    assert vitamin_hgemm.hgemm(a, a.mT).item() == math.inf
    assert vitamin_hgemm.hgemm(a, a.mT, out_dtype=torch.float32).item() == 2.0**22


def test_subnormals_survive(dtype, any_device):
    tiny = 2.0**-20 if dtype == torch.float16 else 2.0**-130
    a = torch.full((4, 8), tiny, dtype=dtype, device=any_device)
    b = torch.eye(8, dtype=dtype, device=any_device)
    assert torch.equal(vitamin_hgemm.hgemm(a, b), a)


def test_the_bound_can_fail(dtype, any_device):
    a = torch.randn(16, 64, dtype=dtype, device=any_device)
    b = torch.randn(64, 16, dtype=dtype, device=any_device)
    out = vitamin_hgemm.hgemm(a, b)
    # The largest: beside it the noise that a float32 sum may have is nothing.
    out.view(-1)[out.abs().argmax()] *= 1 + 3 * torch.finfo(dtype).eps
    assert not judge(out, a, b)
