"""autocast, vmap, torch.func and the FLOP counter."""

import itertools

import pytest
import torch
from reference import ACTIVATIONS, assert_close
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

import vitamin_hgemm

hgemm = vitamin_hgemm.hgemm


@pytest.mark.parametrize("api", [hgemm, torch.ops.vitamin.hgemm], ids=["function", "op"])
def test_autocast(api, dtype, any_device):
    a, b = torch.randn(6, 7, device=any_device), torch.randn(7, 5, device=any_device)
    bias = torch.randn(5, device=any_device)
    half_bias = bias.half()
    with torch.autocast(any_device.type, dtype=dtype):
        out = api(a, b, bias=bias, activation="relu")
        mixed = api(a.to(dtype), b, bias=half_bias)
        wide = api(a, b, out_dtype=torch.float32)
    a, b, bias = a.to(dtype), b.to(dtype), bias.to(dtype)
    assert out.dtype == dtype
    assert_close(out, a, b, bias, "relu")
    assert_close(mixed, a, b, half_bias.to(dtype))
    assert wide.dtype == torch.float32
    assert_close(wide, a, b)


def test_autocast_that_is_off(any_device):
    a = torch.randn(6, 6, device=any_device)
    with (
        torch.autocast(any_device.type, dtype=torch.bfloat16),
        torch.autocast(any_device.type, enabled=False),
        pytest.raises(RuntimeError, match=r"a is torch\.float32"),
    ):
        hgemm(a, a)


@pytest.mark.parametrize("bad", [torch.float64, torch.int64], ids=str)
def test_autocast_leaves_what_torch_leaves(bad, any_device):
    a = torch.ones(6, 6, device=any_device, dtype=bad)
    with (
        torch.autocast(any_device.type, dtype=torch.bfloat16),
        pytest.raises(RuntimeError, match=f"a is {bad}"),
    ):
        hgemm(a, a)


def test_gradients_through_autocast(dtype, any_device):
    a = torch.randn(6, 7, device=any_device, requires_grad=True)
    b = torch.randn(7, 5, device=any_device, requires_grad=True)
    with torch.autocast(any_device.type, dtype=dtype):
        loss = hgemm(a, b).float().sum()
    grad_a, grad_b = torch.autograd.grad(loss, (a, b))
    assert grad_a.dtype == grad_b.dtype == torch.float32
    ones = torch.ones(6, 5, device=any_device)
    torch.testing.assert_close(grad_a, ones @ b.mT, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(grad_b, a.mT @ ones, rtol=2e-2, atol=2e-2)


SHAPES = [
    ([7], [7]),
    ([7], [7, 5]),
    ([6, 7], [7]),
    ([6, 7], [7, 5]),
    ([3, 6, 7], [7, 5]),
    ([6, 7], [3, 7, 5]),
    ([2, 1, 6, 7], [3, 7, 5]),
    ([7], [3, 7, 5]),
    ([3, 6, 7], [7]),
]


def each_of_batch(function, tensors, in_dims, size):
    """What vmap must give: one call for each index, stacked."""
    outs = []
    for i in range(size):
        picked = [
            x if x is None or d is None else x.select(d, i)
            for x, d in zip(tensors, in_dims, strict=True)
        ]
        outs.append(function(*picked))
    return torch.stack(outs)


@pytest.mark.parametrize("a_shape, b_shape", SHAPES, ids=str)
@pytest.mark.parametrize("a_dim, b_dim, bias_dim", list(itertools.product((None, 0, 1), repeat=3)))
def test_vmap(a_shape, b_shape, a_dim, b_dim, bias_dim, any_device):
    if a_dim is b_dim is bias_dim is None:
        return
    n = b_shape[-1] if len(b_shape) > 1 else 1
    in_dims, tensors = (a_dim, b_dim, bias_dim), []
    for shape, dim in zip((a_shape, b_shape, [n]), in_dims, strict=True):
        shape = list(shape)
        if dim is not None:
            shape.insert(dim, 4)
        tensors.append(torch.randn(shape, device=any_device).to(torch.float16))

    def function(a, b, bias):
        return hgemm(a, b, bias=bias, activation="silu")

    got = torch.vmap(function, in_dims)(*tensors)
    want = each_of_batch(function, tensors, in_dims, 4)
    torch.testing.assert_close(got, want, rtol=2**-10, atol=2e-4)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["half", "fp32"])
def test_vmap_over_biases_keeps_the_one_rounding(activation, out_dtype, dtype, any_device):
    a = torch.randn(6, 70, dtype=dtype, device=any_device)
    b = torch.randn(70, 5, dtype=dtype, device=any_device)
    biases = torch.randn(3, 5, dtype=dtype, device=any_device)
    out = torch.vmap(
        lambda bias: hgemm(a, b, bias=bias, activation=activation, out_dtype=out_dtype)
    )(biases)
    assert out.dtype == (out_dtype or dtype)
    for got, bias in zip(out, biases, strict=True):
        assert_close(got, a, b, bias, activation)


def test_nested_vmap(any_device):
    a = torch.randn(2, 3, 6, 7, device=any_device).bfloat16()
    b = torch.randn(3, 2, 7, 5, device=any_device).bfloat16()
    out = torch.vmap(torch.vmap(hgemm), in_dims=(0, 1))(a, b)
    assert_close(out, a, b.transpose(0, 1))


def test_errors_under_vmap(any_device):
    a = torch.randn(4, 6, 7, device=any_device).bfloat16()
    with pytest.raises(RuntimeError, match="wanted a's last dimension"):
        torch.vmap(hgemm)(a, a)
    biases = torch.randn(4, 5, device=any_device).bfloat16()
    with pytest.raises(RuntimeError, match=r"bias has shape \[5\]; wanted \[6\]"):
        torch.vmap(lambda a, bias: hgemm(a, a.mT, bias=bias))(a, biases)


def loss(weight, x, bias):
    return hgemm(x, weight, bias=bias, activation="gelu").float().square().sum()


def test_per_sample_gradients(any_device):
    weight = torch.randn(7, 5, device=any_device).half()
    bias = torch.randn(5, device=any_device).half()
    x = torch.randn(4, 6, 7, device=any_device).half()
    got = torch.vmap(torch.func.grad(loss, argnums=(0, 2)), in_dims=(None, 0, None))(
        weight, x, bias
    )
    for i in range(4):
        leaves = weight.clone().requires_grad_(), bias.clone().requires_grad_()
        want = torch.autograd.grad(loss(leaves[0], x[i], leaves[1]), leaves)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g[i], w, rtol=2e-3, atol=2e-2)


def test_functional_gradients(any_device):
    weight = torch.randn(7, 5, device=any_device).half().requires_grad_()
    x, bias = torch.randn(6, 7, device=any_device).half(), torch.randn(5, device=any_device).half()
    (want,) = torch.autograd.grad(loss(weight, x, bias), weight)
    assert torch.equal(torch.func.grad(loss)(weight.detach(), x, bias), want)
    out, pullback = torch.func.vjp(lambda w: hgemm(x, w), weight.detach())
    assert_close(out, x, weight.detach())
    (grad,) = pullback(torch.ones_like(out))
    assert_close(grad, x.mT, torch.ones_like(out))


def test_functional_gradient_of_a_gradient(any_device):
    weight = torch.randn(7, 5, device=any_device).half() / 4
    x, bias = torch.randn(6, 7, device=any_device).half(), torch.randn(5, device=any_device).half()

    def norm(weight):
        return torch.func.grad(loss)(weight, x, bias).double().square().sum()

    leaf = weight.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(leaf, x, bias), leaf, create_graph=True)
    (want,) = torch.autograd.grad(first.double().square().sum(), leaf)
    assert torch.equal(torch.func.grad(norm)(weight), want)


def test_jacobian(any_device):
    a = torch.randn(3, 4, device=any_device).half()
    b = torch.randn(4, 2, device=any_device).half()
    jacobian = torch.func.jacrev(lambda a: hgemm(a, b))(a)
    want = torch.einsum("ij,kl->iljk", torch.eye(3, device=any_device), b.float())
    assert torch.equal(jacobian.float(), want)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("a_shape, b_shape", SHAPES, ids=str)
def test_flops_are_those_of_matmul(mode, a_shape, b_shape, any_device):
    a = torch.randn(a_shape, device=any_device).bfloat16().requires_grad_()
    b = torch.randn(b_shape, device=any_device).bfloat16()
    terms = torch.matmul(a.detach().float(), b.float()).numel() * a_shape[-1]
    with mode(), FlopCounterMode(display=False) as counter:
        hgemm(a, b, activation="relu")
    assert counter.get_total_flops() == 2 * terms


def test_flops_of_out_and_of_the_backward_pass(any_device):
    a = torch.randn(6, 7, device=any_device).bfloat16().requires_grad_()
    b = torch.randn(7, 5, device=any_device).bfloat16().requires_grad_()
    with FlopCounterMode(display=False) as counter:
        hgemm(a, b).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 6 * 7 * 5
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        hgemm(a, b, out=torch.empty(6, 5, device=any_device, dtype=torch.bfloat16))
    assert counter.get_total_flops() == 2 * 6 * 7 * 5


def test_functionalised_out(any_device):
    a = torch.randn(6, 7, device=any_device).bfloat16()
    b = torch.randn(7, 5, device=any_device).bfloat16()

    def function(a, b, out):
        hgemm(a, b, activation="relu", out=out)
        return out + 1

    out = torch.zeros(6, 5, device=any_device, dtype=torch.bfloat16)
    result = torch.func.functionalize(function)(a, b, out)
    assert_close(out, a, b, activation="relu")
    assert torch.equal(result, out + 1)
    for bad, text in [
        (out[:5], r"out has shape \[5, 5\]; wanted \[6, 5\]"),
        (out.half(), r"out is torch\.float16; wanted torch\.bfloat16"),
    ]:
        with pytest.raises(RuntimeError, match=text):
            torch.func.functionalize(function)(a, b, bad)


def exact(a, b, bias, activation):
    z = torch.matmul(a, b) + (bias[0] if b.dim() == 1 else bias)
    return ACTIVATIONS[activation][0](z)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("a_shape, b_shape", SHAPES[:5], ids=str)
def test_forward_mode(activation, a_shape, b_shape, any_device):
    n = b_shape[-1] if len(b_shape) > 1 else 1
    values = [torch.randn(s, device=any_device).half() for s in (a_shape, b_shape, [n])]
    tangents = [torch.randn_like(x) for x in values]

    def function(a, b, bias):
        return hgemm(a, b, bias=bias, activation=activation)

    want = torch.func.jvp(
        lambda *x: exact(*x, activation),
        tuple(x.double() for x in values),
        tuple(x.double() for x in tangents),
    )
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, t) for x, t in zip(values, tangents, strict=True)]
        dual = forward_ad.unpack_dual(function(*duals))
        part = forward_ad.unpack_dual(function(values[0], duals[1], values[2])).tangent
    assert part is not None
    for got in (dual, torch.func.jvp(function, tuple(values), tuple(tangents))):
        for g, w in zip(got, want, strict=True):
            assert g.dtype == torch.float16
            torch.testing.assert_close(g.double(), w, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_over_reverse(activation, any_device):
    a, b = torch.randn(3, 4, device=any_device).half(), torch.randn(4, 5, device=any_device).half()
    bias = torch.randn(5, device=any_device).half() + 1

    def hessian(function, a, b, bias):
        def energy(a):
            return function(a, b, bias).double().square().sum()

        return torch.func.jacfwd(torch.func.grad(energy))(a)

    got = hessian(lambda *x: hgemm(x[0], x[1], bias=x[2], activation=activation), a, b, bias)
    want = hessian(lambda *x: exact(*x, activation), a.double(), b.double(), bias.double())
    scale = want.abs().max().item()
    torch.testing.assert_close(got.double(), want, rtol=5e-3, atol=5e-3 * scale)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward_over_forward(activation, any_device):
    a, b = torch.randn(3, 4, device=any_device).half(), torch.randn(4, 5, device=any_device).half()
    bias = torch.randn(5, device=any_device).half() + 1

    def second_derivatives(function, *values):
        def energy(*x):
            return function(*x).double().square().sum()

        inner = torch.func.jacfwd(energy, argnums=(0, 1, 2))
        rows = torch.func.jacfwd(inner, argnums=(0, 1, 2))(*values)
        return [block for row in rows for block in row]

    got = second_derivatives(
        lambda *x: hgemm(x[0], x[1], bias=x[2], activation=activation), a, b, bias
    )
    want = second_derivatives(
        lambda *x: exact(*x, activation), a.double(), b.double(), bias.double()
    )
    for g, w in zip(got, want, strict=True):
        scale = w.abs().max().item()
        assert scale > 0
        torch.testing.assert_close(g.double(), w, rtol=5e-3, atol=5e-3 * scale)


def test_third_forward_derivative(any_device):
    a, b = torch.randn(3, 4, device=any_device).half(), torch.randn(4, 5, device=any_device).half()

    def third(function, x):
        def along_ones(function):
            return lambda x: torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]

        return along_ones(along_ones(along_ones(function)))(x)

    got = third(lambda x: hgemm(x, b, activation="silu", out_dtype=torch.float32), a)
    want = third(lambda x: torch.nn.functional.silu(x @ b.double()), a.double())
    torch.testing.assert_close(got.double(), want, rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("which", ["a", "b", "bias", "out"])
def test_out_refuses_tangents(which, any_device):
    x = torch.randn(4, 4, device=any_device).half()
    options = dict(a=x, b=x.clone(), bias=x[0].clone(), out=torch.empty_like(x))
    untouched = options["out"].fill_(7).clone()

    def call(value):
        arguments = options | {which: value}
        hgemm(arguments.pop("a"), arguments.pop("b"), **arguments)
        return value

    value, refused = options[which], pytest.raises(NotImplementedError, match="has a tangent")
    with forward_ad.dual_level():
        with refused:
            call(forward_ad.make_dual(value, torch.ones_like(value)))
        assert torch.equal(options["out"], untouched)
        call(value)
    options["out"].fill_(7)
    with refused:
        torch.func.jvp(call, (value,), (torch.ones_like(value),))
    assert torch.equal(options["out"], untouched)
