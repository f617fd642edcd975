"""The shapes, strides and offsets that the op takes, and what it returns for them."""

import math

import pytest
import torch
from reference import assert_close, operand

import vitamin_hgemm

SHAPES = [
    # a, b, result
    ([7], [7], []),
    ([1], [1], []),
    ([7], [7, 5], [5]),
    ([6, 7], [7], [6]),
    ([6, 7], [7, 5], [6, 5]),
    ([1, 7], [7, 1], [1, 1]),
    ([6, 1], [1, 5], [6, 5]),
    ([7], [3, 7, 5], [3, 5]),
    ([3, 6, 7], [7], [3, 6]),
    ([3, 6, 7], [7, 5], [3, 6, 5]),
    ([6, 7], [3, 7, 5], [3, 6, 5]),
    ([3, 6, 7], [3, 7, 5], [3, 6, 5]),
    ([1, 6, 7], [3, 7, 5], [3, 6, 5]),
    ([3, 6, 7], [1, 7, 5], [3, 6, 5]),
    ([2, 1, 6, 7], [3, 7, 5], [2, 3, 6, 5]),
    ([2, 1, 1, 7], [1, 3, 7, 5], [2, 3, 1, 5]),
    ([4, 1, 3, 1, 6, 7], [2, 1, 5, 7, 8], [4, 2, 3, 5, 6, 8]),
    ([2, 2, 2, 2, 2, 2, 3, 4], [4, 5], [2, 2, 2, 2, 2, 2, 3, 5]),
    ([33, 129], [129, 65], [33, 65]),
    ([128, 256], [256, 64], [128, 64]),
]

EMPTY = [
    ([0], [0], []),
    ([0, 7], [7, 5], [0, 5]),
    ([6, 7], [7, 0], [6, 0]),
    ([6, 0], [0, 5], [6, 5]),
    ([0, 0], [0, 0], [0, 0]),
    ([0], [0, 5], [5]),
    ([6, 0], [0], [6]),
    ([0, 6, 7], [0, 7, 5], [0, 6, 5]),
    ([0, 6, 7], [7, 5], [0, 6, 5]),
    ([6, 7], [0, 7, 5], [0, 6, 5]),
    ([1, 6, 7], [0, 7, 5], [0, 6, 5]),
    ([3, 6, 0], [3, 0, 5], [3, 6, 5]),
    ([3, 0, 7], [3, 7, 0], [3, 0, 0]),
    ([3, 1, 6, 0], [2, 0, 5], [3, 2, 6, 5]),
]


def ids(case):
    return "x".join(map(str, case)) or "scalar" if isinstance(case, list) else None


@pytest.mark.parametrize("a_shape, b_shape, shape", SHAPES, ids=ids)
def test_result_of_shape(a_shape, b_shape, shape, dtype, any_device):
    a = torch.randn(a_shape, dtype=dtype, device=any_device)
    b = torch.randn(b_shape, dtype=dtype, device=any_device)
    out = vitamin_hgemm.hgemm(a, b)
    assert list(out.shape) == shape == list(torch.matmul(a, b).shape)
    assert out.dtype == dtype and out.device == a.device
    assert out.is_contiguous()
    assert_close(out, a, b, what=f"{a_shape} @ {b_shape}")


@pytest.mark.parametrize("a_shape, b_shape, shape", EMPTY, ids=ids)
@pytest.mark.parametrize("activation", ["none", "silu"])
def test_empty_operands(a_shape, b_shape, shape, activation, dtype, any_device):
    a = torch.randn(a_shape, dtype=dtype, device=any_device)
    b = torch.randn(b_shape, dtype=dtype, device=any_device)
    out = torch.full(shape, math.nan, dtype=dtype, device=any_device)
    vitamin_hgemm.hgemm(a, b, activation=activation, out=out)
    assert torch.equal(out, torch.zeros_like(out))
    assert torch.equal(vitamin_hgemm.hgemm(a, b, activation=activation), out)


@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "gelu_tanh", "silu"])
def test_no_k_gives_activation_of_bias(batch, activation, dtype, any_device):
    a = torch.randn(*batch, 6, 0, dtype=dtype, device=any_device)
    b = torch.randn(*batch, 0, 5, dtype=dtype, device=any_device)
    bias = torch.randn(5, dtype=dtype, device=any_device)
    out = vitamin_hgemm.hgemm(a, b, bias=bias, activation=activation)
    assert_close(out, a, b, bias, activation)


@pytest.mark.parametrize("a_layout", ["n", "t"])
@pytest.mark.parametrize("b_layout", ["n", "t"])
@pytest.mark.parametrize("pad", [0, 1, 3, 8])
@pytest.mark.parametrize("offset", [0, 2, 6, 8])
def test_layouts_pitches_and_offsets(a_layout, b_layout, pad, offset, dtype, any_device):
    at = dict(pad=pad, offset=offset)
    a = operand(19, 35, dtype, any_device, layout=a_layout, **at)
    b = operand(35, 23, dtype, any_device, layout=b_layout, **at)
    assert_close(vitamin_hgemm.hgemm(a, b), a, b)


STRIDED = {
    "every other row": lambda x: x[..., ::2, :],
    "every other column": lambda x: x[..., ::2],
    "every third of both": lambda x: x[..., ::3, ::3],
    "transposed, every other column": lambda x: x.mT[..., ::2],
    "one row for all": lambda x: x[..., :1, :].expand(*x.shape[:-2], 24, x.shape[-1]),
    "one column for all": lambda x: x[..., :1].expand(*x.shape[:-1], 24),
    "one element for all": lambda x: x[..., :1, :1].expand(*x.shape[:-2], 24, 24),
    "overlapping windows": lambda x: x.as_strided((24, 24), (1, 1)),
    "rows behind each other": lambda x: x.as_strided((24, 24), (25, 3)),
}


@pytest.mark.parametrize("which", ["a", "b", "both"])
@pytest.mark.parametrize("view", STRIDED.values(), ids=STRIDED)
def test_strided_operands(view, which, dtype, any_device):
    strided = view(torch.randn(48, 48, dtype=dtype, device=any_device))
    if which == "a":
        a, b = strided, torch.randn(strided.shape[1], 9, dtype=dtype, device=any_device)
    elif which == "b":
        a, b = torch.randn(9, strided.shape[0], dtype=dtype, device=any_device), strided
    else:
        a, b = strided, strided.mT
    assert_close(vitamin_hgemm.hgemm(a, b), a, b)


def test_operands_of_permuted_batches(dtype, any_device):
    a = torch.randn(5, 11, 3, 2, 7, dtype=dtype, device=any_device).permute(3, 2, 0, 1, 4)
    b = torch.randn(7, 2, 13, 5, 3, dtype=dtype, device=any_device).permute(1, 4, 3, 0, 2)
    assert a.shape[:3] == b.shape[:3] == (2, 3, 5)
    assert_close(vitamin_hgemm.hgemm(a, b), a, b)


def test_padded_rows_with_an_expanded_batch(dtype, any_device):
    a = torch.randn(4, 11, 7, dtype=dtype, device=any_device)[:, ::2]
    b = torch.randn(1, 7, 13, dtype=dtype, device=any_device).expand(4, 7, 13)
    assert_close(vitamin_hgemm.hgemm(a, b), a, b)


def test_operands_that_are_one_tensor(dtype, any_device):
    a = torch.randn(17, 17, dtype=dtype, device=any_device)
    assert_close(vitamin_hgemm.hgemm(a, a), a, a)
    assert_close(vitamin_hgemm.hgemm(a, a.mT, bias=a[0]), a, a.mT, a[0])


def test_operands_stay_as_they_are(dtype, any_device):
    a = operand(12, 20, dtype, any_device, layout="t", pad=3)
    b = operand(20, 12, dtype, any_device, pad=1)
    a_before, b_before = a.clone(), b.clone()
    vitamin_hgemm.hgemm(a, b, activation="relu")
    assert torch.equal(a, a_before) and torch.equal(b, b_before)


def test_same_bits_again(dtype, any_device):
    a = torch.randn(37, 515, dtype=dtype, device=any_device)
    b = torch.randn(515, 41, dtype=dtype, device=any_device)
    first = vitamin_hgemm.hgemm(a, b)
    for _ in range(5):
        assert torch.equal(vitamin_hgemm.hgemm(a, b), first)


def test_op_and_function_agree(dtype, any_device):
    a = torch.randn(6, 7, dtype=dtype, device=any_device)
    b = torch.randn(7, 5, dtype=dtype, device=any_device)
    options = dict(bias=b[0], activation="gelu", out_dtype=torch.float32)
    out = torch.ops.vitamin.hgemm(a, b, **options)
    assert torch.equal(out, vitamin_hgemm.hgemm(a, b, **options))
