"""The checks themselves: what has to fail them does."""

import math

import pytest
import torch
from reference import ACTIVATIONS, ROUNDING, Guarded, assert_close, judge, nan_filled_empty, operand


@pytest.fixture
def product(dtype):
    a = operand(37, 200, dtype, "cpu", layout="t", pad=3, offset=6)
    b = operand(200, 53, dtype, "cpu", batch=(2, 3), pad=1, offset=2)
    return a, b, torch.randn(53, dtype=dtype)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("narrow", [True, False])
def test_one_rounding_passes_and_one_wrong_element_fails(product, activation, narrow):
    a, b, bias = product
    exact = ACTIVATIONS[activation][0](a.double() @ b.double() + bias.double())
    out = exact.to(a.dtype if narrow else torch.float32)
    assert judge(out, a, b, bias, activation)
    value = out[1, 2, 30, 7].item()
    for wrong in (value + math.copysign(0.1 * abs(value) + 0.3, value), math.nan, math.inf):
        changed = out.clone()
        changed[1, 2, 30, 7] = wrong
        verdict = judge(changed, a, b, bias, activation)
        assert verdict.wrong == 1 and verdict.where == (1, 2, 30, 7)
        with pytest.raises(AssertionError, match=r"^this: 1 of 11766 .* \[1, 2, 30, 7\]"):
            assert_close(changed, a, b, bias, activation, what="this")


def test_a_second_rounding_fails(product):
    """Halves of K rounded before they are added, and the bias added after the rounding."""
    a, b, bias = product
    half = a.shape[1] // 2
    parts = [(a[:, s].float() @ b[..., s, :].float()) for s in (slice(half), slice(half, None))]
    assert judge((parts[0] + parts[1]).to(a.dtype), a, b)
    assert not judge(parts[0].to(a.dtype) + parts[1].to(a.dtype), a, b)
    large = bias + 100
    assert not judge((parts[0] + parts[1]).to(a.dtype) - large, a, b, -large)


def test_float32_outputs_have_to_be_unrounded(product):
    a, b, _ = product
    exact = (a.double() @ b.double()).float()
    assert judge(exact, a, b)
    assert not judge(exact.to(a.dtype).float(), a, b)


def test_infinity_and_nan_have_to_match(dtype):
    a = torch.tensor([[math.inf, 0, -math.inf], [1, 2, 3]], dtype=dtype)
    b = torch.tensor([[1, 0], [1, 0], [-1, 0]], dtype=dtype)
    right = torch.tensor([[math.inf, math.nan], [0, 0]], dtype=dtype)
    assert judge(right, a, b)
    for wrong in (-math.inf, math.nan, 65504.0):
        changed = right.clone()
        changed[0, 0] = wrong
        assert judge(changed, a, b).wrong == 1


def test_overflow_may_only_be_infinity_of_the_right_sign():
    a = torch.full((1, 16), 200.0, dtype=torch.float16)
    for value, right in [(math.inf, True), (-math.inf, False), (65504.0, False), (0.0, False)]:
        assert bool(judge(torch.full((1, 1), value, dtype=torch.float16), a, a.t())) == right


@pytest.mark.parametrize(
    "shape", [((5,), (5,)), ((5,), (2, 5, 3)), ((2, 4, 5), (5,)), ((0, 5), (5, 3))]
)
def test_shapes_of_matmul(dtype, shape):
    a, b = (torch.randn(s, dtype=dtype) for s in shape)
    out = (a.double() @ b.double()).to(dtype)
    assert judge(out, a, b)
    if out.numel():
        assert not judge(out + 1, a, b)


def test_operand_is_where_it_was_asked_to_be(dtype):
    x = operand(7, 9, dtype, "cpu", layout="t", batch=(2,), pad=4, offset=14)
    assert x.shape == (2, 7, 9) and x.stride() == (9 * 11, 1, 11) and x.data_ptr() % 16 == 14
    assert x.isfinite().all()
    assert x.as_strided((2 * 9, 11), (11, 1))[:, 7:].isnan().all()


@pytest.mark.parametrize("kind", ROUNDING)
def test_guard_sees_a_write_beside_out(kind):
    for strides, offset in [(None, 4), ((1, 12), 12), ((40, 2), 0)]:
        guarded = Guarded((10, 20), kind, "cpu", strides=strides, pad=3, offset=offset)
        assert guarded.view.data_ptr() % 16 == offset and guarded.view.isnan().all()
        guarded.assert_untouched("new")
        guarded.view.fill_(1)
        guarded.assert_around_untouched("filled")
        with pytest.raises(AssertionError, match="filled: wrote 200 elements"):
            guarded.assert_untouched("filled")
        torch.as_strided(guarded.view, (1,), (1,), guarded.view.storage_offset() - 1).fill_(1)
        with pytest.raises(AssertionError, match=r"outside of out.*at -1 elements"):
            guarded.assert_around_untouched("filled")


def test_nan_filled_empty(dtype):
    with nan_filled_empty():
        assert torch.empty(9, dtype=dtype).isnan().all()
        assert torch.empty(9, dtype=torch.uint8).eq(255).all()
    assert not torch.are_deterministic_algorithms_enabled()
