"""out=: any strided view is written in place, and nothing around it."""

import itertools

import pytest
import torch
from reference import Guarded, assert_close, nan_filled_empty, operand

import vitamin_hgemm

STRIDES = {
    "row-major": (29, 1),
    "padded rows": (37, 1),
    "column-major": (1, 21),
    "padded columns": (1, 32),
    "every other element": (70, 2),
    "columns apart": (3, 70),
}


@pytest.mark.parametrize("strides", STRIDES.values(), ids=STRIDES)
@pytest.mark.parametrize("offset", [0, 2, 6, 14])
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["half", "fp32"])
def test_matrix(strides, offset, out_dtype, dtype, any_device):
    if out_dtype is not None:
        offset *= 2
    a = operand(21, 40, dtype, any_device)
    b = operand(40, 29, dtype, any_device, layout="t")
    bias = torch.randn(29, dtype=dtype, device=any_device)
    out = Guarded((21, 29), out_dtype or dtype, any_device, strides=strides, offset=offset)
    result = vitamin_hgemm.hgemm(
        a, b, bias=bias, activation="silu", out_dtype=out_dtype, out=out.view
    )
    assert result is out.view
    assert_close(out.view, a, b, bias, "silu")
    out.assert_around_untouched()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))), ids=str)
def test_batched_in_any_order_of_dimensions(order, dtype, any_device):
    shape, strides, pitch = (2, 3, 5, 7), [0] * 4, 1
    for d in reversed(order):
        strides[d] = pitch
        pitch = pitch * shape[d] + 3
    a = torch.randn(2, 1, 5, 11, dtype=dtype, device=any_device)
    b = torch.randn(3, 11, 7, dtype=dtype, device=any_device)
    out = Guarded(shape, dtype, any_device, strides=strides)
    torch.ops.vitamin.hgemm.out(a, b, out=out.view)
    assert_close(out.view, a, b)
    out.assert_around_untouched()


@pytest.mark.parametrize(
    "a_shape, b_shape, shape, strides",
    [
        ([7], [7], (), ()),
        ([7], [7, 5], (5,), (3,)),
        ([6, 7], [7], (6,), (1,)),
        ([6, 7], [7], (6,), (5,)),
        ([3, 6, 7], [7], (3, 6), (1, 4)),
        ([7], [3, 7, 5], (3, 5), (1, 3)),
        ([1, 7], [7, 5], (1, 5), (1, 1)),
        ([6, 7], [7, 1], (6, 1), (1, 1)),
        ([6, 7], [7, 1], (6, 1), (2, 999)),
    ],
    ids=str,
)
def test_vectors_and_single_rows(a_shape, b_shape, shape, strides, dtype, any_device):
    a = torch.randn(a_shape, dtype=dtype, device=any_device)
    b = torch.randn(b_shape, dtype=dtype, device=any_device)
    out = Guarded(shape, dtype, any_device, strides=strides)
    vitamin_hgemm.hgemm(a, b, out=out.view)
    assert_close(out.view, a, b)
    out.assert_around_untouched()


def test_empty_out_writes_nothing(dtype, any_device):
    a = torch.randn(3, 4, dtype=dtype, device=any_device)
    b = torch.randn(4, 0, dtype=dtype, device=any_device)
    out = Guarded((3, 0), dtype, any_device)
    vitamin_hgemm.hgemm(a, b, out=out.view)
    out.assert_untouched()


def test_interleaved_with_an_input(dtype, any_device):
    """out and a take turns in one buffer, without sharing an element."""
    buffer = torch.randn(16, 64, dtype=dtype, device=any_device)
    a, out = buffer[:, :32], buffer[:, 32:]
    b = torch.randn(32, 32, dtype=dtype, device=any_device)
    a_before = a.clone()
    vitamin_hgemm.hgemm(a, b, out=out)
    assert torch.equal(a, a_before)
    assert_close(out, a_before, b)


def test_memory_that_holds_nan(dtype, any_device):
    a = torch.randn(9, 33, dtype=dtype, device=any_device)
    b = torch.randn(33, 9, dtype=dtype, device=any_device)
    with nan_filled_empty():
        assert_close(vitamin_hgemm.hgemm(a, b), a, b)
        empty = vitamin_hgemm.hgemm(a[:, :0], b[:0])
    assert torch.equal(empty, torch.zeros_like(empty))


def test_version_counter_moves(any_device):
    a = torch.randn(4, 4, dtype=torch.bfloat16, device=any_device)
    out = torch.empty_like(a)
    before = out._version
    torch.ops.vitamin.hgemm.out(a, a, out=out)
    assert out._version > before
