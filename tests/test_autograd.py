"""First and second derivatives against float64, and what the backward pass does to get them."""

import gc
import math
import weakref

import pytest
import torch
from calls import kernels_here, layout_of
from reference import ACTIVATIONS
from torch.utils._python_dispatch import TorchDispatchMode

import vitamin_hgemm

SHAPES = [
    ([7], [7]),
    ([7], [7, 5]),
    ([6, 7], [7]),
    ([6, 7], [7, 5]),
    ([1, 7], [7, 1]),
    ([6, 1], [1, 5]),
    ([7], [3, 7, 5]),
    ([3, 6, 7], [7]),
    ([3, 6, 7], [7, 5]),
    ([2, 3, 6, 7], [7, 5]),
    ([6, 7], [3, 7, 5]),
    ([3, 6, 7], [3, 7, 5]),
    ([1, 6, 7], [3, 7, 5]),
    ([3, 6, 7], [1, 7, 5]),
    ([2, 1, 6, 7], [3, 7, 5]),
]
EMPTY = [
    ([0], [0]),
    ([0, 7], [7, 5]),
    ([6, 0], [0, 5]),
    ([6, 7], [7, 0]),
    ([0, 6, 7], [7, 5]),
    ([3, 6, 0], [3, 0, 5]),
    ([0, 6, 7], [0, 7, 5]),
    ([3, 6, 0], [0, 5]),
]


def double_leaf(x):
    return None if x is None else x.detach().double().requires_grad_()


def exact(a, b, bias, activation):
    """The function in float64, by torch's own operators."""
    z = torch.matmul(a, b)
    if bias is not None:
        z = z + (bias[0] if b.dim() == 1 else bias)
    return ACTIVATIONS[activation][0](z)


def close(got, want, dtype, steps=1, scale=0.1):
    """Within `steps` roundings of the largest value, or of `scale` if that is larger."""
    assert got.shape == want.shape
    if want.numel():
        tolerance = 2 * steps * torch.finfo(dtype).eps
        error = (got.double() - want).abs().max() / want.abs().max().clamp(min=scale)
        assert error <= tolerance, f"error {error:.2e}, allowed {tolerance:.2e}"


def inputs(a_shape, b_shape, dtype, device, bias=True):
    a = torch.randn(a_shape, device=device).to(dtype).requires_grad_()
    b = torch.randn(b_shape, device=device).to(dtype).requires_grad_()
    n = b_shape[-1] if len(b_shape) > 1 else 1
    return a, b, torch.randn(n, device=device).to(dtype).requires_grad_() if bias else None


def check_first_derivatives(a, b, bias, activation, out_dtype=None):
    dtype, leaves = a.dtype, [x for x in (a, b, bias) if x is not None]
    out = vitamin_hgemm.hgemm(a, b, bias=bias, activation=activation, out_dtype=out_dtype)
    grad = torch.randn_like(out)
    got = torch.autograd.grad(out, leaves, grad)
    doubles = [double_leaf(x) for x in (a, b, bias)]
    want = torch.autograd.grad(
        exact(*doubles, activation), [x for x in doubles if x is not None], grad.double()
    )
    for x, g, w in zip(leaves, got, want, strict=True):
        assert g.dtype == x.dtype and g.device == x.device
        close(g, w, dtype, steps=2)


@pytest.mark.parametrize("a_shape, b_shape", SHAPES + EMPTY, ids=str)
@pytest.mark.parametrize("activation", ["none", "gelu"])
def test_shapes(a_shape, b_shape, activation, dtype, any_device):
    check_first_derivatives(*inputs(a_shape, b_shape, dtype, any_device), activation)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["half", "fp32"])
def test_epilogues(activation, bias, out_dtype, dtype, any_device):
    a, b, bias = inputs([29, 65], [65, 31], dtype, any_device, bias)
    check_first_derivatives(a, b, bias, activation, out_dtype)


@pytest.mark.parametrize("a_layout", ["n", "t"])
@pytest.mark.parametrize("b_layout", ["n", "t"])
@pytest.mark.parametrize("batch", [(), (3,)], ids=["matrix", "batch"])
def test_layouts(a_layout, b_layout, batch, dtype, any_device):
    a, b, bias = inputs([*batch, 24, 24], [24, 24], dtype, any_device)
    a = a.detach().mT.requires_grad_() if a_layout == "t" else a
    b = b.detach().mT.requires_grad_() if b_layout == "t" else b
    check_first_derivatives(a, b, bias, "silu")


@pytest.mark.parametrize("view", [lambda x: x.sum(), lambda x: x.mT.square().sum()])
def test_incoming_gradients_that_are_strided(view, dtype, any_device):
    a, b, _ = inputs([12, 20], [20, 8], dtype, any_device)
    got = torch.autograd.grad(view(vitamin_hgemm.hgemm(a, b)), (a, b))
    doubles = double_leaf(a), double_leaf(b)
    want = torch.autograd.grad(view(torch.matmul(*doubles)), doubles)
    for g, w in zip(got, want, strict=True):
        close(g, w, dtype, steps=2)


@pytest.mark.parametrize("needs", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 1)], ids=str)
@pytest.mark.parametrize("activation", ["none", "relu", "silu"])
def test_only_what_needs_a_gradient(needs, activation, dtype, any_device):
    leaves = inputs([3, 6, 7], [7, 5], dtype, any_device)
    for x, needed in zip(leaves, needs, strict=True):
        x.requires_grad_(bool(needed))
    a, b, bias = leaves
    vitamin_hgemm.hgemm(a, b, bias=bias, activation=activation).sum().backward()
    assert [x.grad is not None for x in leaves] == [bool(needed) for needed in needs]


class Recorder(TorchDispatchMode):
    """Every operator that is called within it, with its arguments."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))

    def of(self, name):
        return [(args, kwargs) for func, args, kwargs in self.calls if name in func.name()]


@pytest.mark.parametrize("b_layout", ["n", "t"])
def test_backward_is_two_products_and_no_copy(b_layout, any_device):
    """Both products take views of what was saved; gradients come in the operands' layouts."""
    a = torch.randn(4, 8, 16, dtype=torch.bfloat16, device=any_device, requires_grad=True)
    b = torch.randn(16, 24, dtype=torch.bfloat16, device=any_device, requires_grad=True)
    b = b.detach().mT.contiguous().mT.requires_grad_() if b_layout == "t" else b
    out = vitamin_hgemm.hgemm(a, b)
    grad = torch.randn_like(out)
    with Recorder() as recorder:
        grad_a, grad_b = torch.autograd.grad(out, (a, b), grad)
    products = recorder.of("vitamin::")
    assert len(products) == 2
    known = {x.untyped_storage().data_ptr() for x in (a, b, grad)}
    for args, kwargs in products:
        assert {x.untyped_storage().data_ptr() for x in args[:2]} <= known
        assert kwargs.get("out_dtype") is None
    assert not [name for name in ("clone", "copy", "contiguous") if recorder.of(f"aten::{name}")]
    assert grad_a.stride() == a.stride() and grad_b.stride() == b.stride()
    assert len([x for x in products if x[0][0].dim() == 2]) >= 1, "the weight's product is folded"


def test_broadcast_sums_are_rounded_once(any_device):
    """1 + 2⁻⁹ would round to 1 on its own; added to -1 first, its small part survives."""
    small = 2.0**-9
    a = torch.tensor([[[1.0], [small]], [[-1.0], [0.0]]], device=any_device).bfloat16()
    b = torch.ones(1, 1, 1, dtype=torch.bfloat16, device=any_device, requires_grad=True)
    (grad,) = torch.autograd.grad(vitamin_hgemm.hgemm(a, b).sum(), b)
    assert grad.item() == small
    bias = torch.zeros(1, dtype=torch.bfloat16, device=any_device, requires_grad=True)
    out = vitamin_hgemm.hgemm(a, b.detach(), bias=bias, out_dtype=torch.float32)
    incoming = torch.tensor([[[1 + small], [0.0]], [[-1.0], [0.0]]], device=any_device)
    (grad,) = torch.autograd.grad(out, bias, incoming)
    assert grad.item() == small


@pytest.mark.gpu
def test_kernels_that_take_few_layouts_differentiate(device):
    """The gradients' products are in other layouts, here with strides of 0, and left to auto."""
    for name in kernels_here():
        a, b, bias = inputs([64, 72], [72, 80], torch.float16, device)
        if layout_of(name) == "nt":
            b = b.detach().mT.contiguous().mT.requires_grad_()
        out = vitamin_hgemm.hgemm(a, b, bias=bias, activation="gelu", kernel=name)
        got = torch.autograd.grad(out.sum(), (a, b, bias))
        auto = vitamin_hgemm.hgemm(a, b, bias=bias, activation="gelu")
        want = torch.autograd.grad(auto.sum(), (a, b, bias))
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-2, atol=1e-2, msg=name)


def test_fp32_gradient_is_rounded_once(dtype, any_device):
    a = torch.ones(1, 1, dtype=dtype, device=any_device, requires_grad=True)
    out = vitamin_hgemm.hgemm(a, torch.ones_like(a), out_dtype=torch.float32)
    value = 1 + torch.finfo(dtype).eps * 0.75
    (grad,) = torch.autograd.grad(out, a, torch.full_like(out, value))
    assert grad.item() == 1 + torch.finfo(dtype).eps


def test_relu_has_no_gradient_at_zero(dtype, any_device):
    a = torch.tensor([[-1.0], [0.0], [2.0]], dtype=dtype, device=any_device, requires_grad=True)
    b = torch.ones(1, 1, dtype=dtype, device=any_device)
    (grad,) = torch.autograd.grad(vitamin_hgemm.hgemm(a, b, activation="relu").sum(), a)
    assert grad.flatten().tolist() == [0, 0, 1]


def second_derivatives(function, leaves, direction, probes):
    out = function(*leaves)
    first = torch.autograd.grad(out, leaves, direction.to(out.dtype), create_graph=True)
    pairs = zip(first, probes, strict=True)
    total = sum((g * probe.to(g.dtype)).sum(dtype=torch.float64) for g, probe in pairs)
    return torch.autograd.grad(total, (*leaves, direction), allow_unused=True)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(
    "a_shape, b_shape",
    [([6, 7], [7, 5]), ([7], [7]), ([3, 6, 7], [7, 5]), ([2, 1, 6, 7], [3, 7, 5])],
    ids=str,
)
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["half", "fp32"])
def test_second_derivatives(activation, a_shape, b_shape, out_dtype, any_device):
    """The gradient of a random projection of the gradients, in fp16 against float64."""
    dtype = torch.float16
    leaves = inputs(a_shape, b_shape, dtype, any_device)

    def function(a, b, bias):
        return vitamin_hgemm.hgemm(a, b, bias=bias, activation=activation, out_dtype=out_dtype)

    direction = torch.randn_like(function(*leaves).detach()).requires_grad_()
    probes = [torch.randn_like(x).detach() for x in leaves]
    got = second_derivatives(function, leaves, direction, probes)
    want = second_derivatives(
        lambda a, b, bias: exact(a, b, bias, activation),
        [double_leaf(x) for x in leaves],
        double_leaf(direction),
        probes,
    )
    # Sums of values of about 1 that are rounded: they may cancel out, their noise doesn't.
    scale = max(1.0, *(w.abs().max().item() for w in want if w is not None))
    for g, w in zip(got, want, strict=True):
        if w is None or g is None:
            assert g is None or not g.any()
            assert w is None or not w.any()
        else:
            close(g, w, dtype, steps=8, scale=scale)


def test_third_derivatives(any_device):
    a = torch.randn(3, 4, dtype=torch.float16, device=any_device, requires_grad=True)
    b = torch.randn(4, 5, dtype=torch.float16, device=any_device)

    def thrice(function, x):
        y = function(x).sum(dtype=torch.float64)
        for _ in range(2):
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            y = (g * g).sum(dtype=torch.float64)
        return torch.autograd.grad(y, x)[0]

    got = thrice(lambda x: vitamin_hgemm.hgemm(x, b, activation="silu"), a)
    want = thrice(lambda x: exact(x, b.double(), None, "silu"), double_leaf(a))
    close(got, want, torch.float16, steps=32)


def test_saved_output_that_was_changed_is_refused(any_device):
    a = torch.randn(4, 4, dtype=torch.bfloat16, device=any_device, requires_grad=True)
    out = vitamin_hgemm.hgemm(a, a, activation="relu")
    out.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_results_in_inference_and_no_grad_need_no_gradient(any_device):
    a = torch.randn(4, 4, dtype=torch.bfloat16, device=any_device, requires_grad=True)
    with torch.no_grad():
        assert not vitamin_hgemm.hgemm(a, a).requires_grad
    with torch.inference_mode():
        assert vitamin_hgemm.hgemm(a, a).is_inference()
    assert not vitamin_hgemm.hgemm(a.detach(), a.detach()).requires_grad
    assert vitamin_hgemm.hgemm(a, a).requires_grad


def test_checkpointing(any_device):
    a = torch.randn(8, 8, dtype=torch.bfloat16, device=any_device, requires_grad=True)

    def block(x):
        return vitamin_hgemm.hgemm(vitamin_hgemm.hgemm(x, a, activation="gelu"), a)

    (plain,) = torch.autograd.grad(block(a).sum(), a)
    checkpointed = torch.utils.checkpoint.checkpoint(block, a, use_reentrant=False)
    assert torch.equal(torch.autograd.grad(checkpointed.sum(), a)[0], plain)


class Interrupting(TorchDispatchMode):
    """Raises, as a mode or a signal may, in the middle of every operator."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        raise self.error


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), ValueError("é"), RuntimeError(), KeyError(1)]
)
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("needs_grad", [False, True])
def test_foreign_exceptions_come_through_as_they_are(error, mode, needs_grad, any_device):
    a = torch.randn(4, 4, dtype=torch.bfloat16, device=any_device, requires_grad=needs_grad)
    with mode(), pytest.raises(type(error)) as caught, Interrupting(error):
        vitamin_hgemm.hgemm(a, a)
    assert caught.value is error
    assert vitamin_hgemm.hgemm(a, a).shape == (4, 4)


def test_errors_hold_no_tensors(any_device):
    a = torch.randn(4, 4, dtype=torch.bfloat16, device=any_device, requires_grad=True)
    for context in (torch.enable_grad, torch.inference_mode):
        probe = torch.randn(4, 4, dtype=torch.bfloat16, device=any_device)
        gone = weakref.ref(probe)
        with context(), pytest.raises(KeyboardInterrupt), Interrupting(KeyboardInterrupt()):
            vitamin_hgemm.hgemm(a, probe)
        with context(), pytest.raises(RuntimeError):
            vitamin_hgemm.hgemm(a, probe[:3])
        del probe
        gc.collect()
        assert gone() is None


def test_descent_reaches_a_target(any_device):
    weight = torch.zeros(16, 8, dtype=torch.bfloat16, device=any_device, requires_grad=True)
    x = torch.randn(64, 16, dtype=torch.bfloat16, device=any_device)
    target = torch.randn(16, 8, dtype=torch.bfloat16, device=any_device)
    y = vitamin_hgemm.hgemm(x, target, out_dtype=torch.float32)
    losses = []
    for _ in range(60):
        loss = (vitamin_hgemm.hgemm(x, weight, out_dtype=torch.float32) - y).square().mean()
        (grad,) = torch.autograd.grad(loss, weight)
        losses.append(loss.item())
        with torch.no_grad():
            weight -= 2 * grad
    assert math.isfinite(losses[-1]) and losses[-1] < 0.01 * losses[0]
