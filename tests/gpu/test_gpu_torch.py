"""The op as a citizen of torch on the GPU: opcheck, compile, autograd, inference mode, Linear."""

import pytest
import torch
from calls import measure_memory
from reference import ACTIVATIONS, assert_close, operand

import vitamin_hgemm

hgemm = torch.ops.vitamin.hgemm


@pytest.mark.parametrize("activation", ["none", "gelu"])
def test_opcheck(device, dtype, activation):
    a = torch.randn(33, 40, dtype=dtype, device=device, requires_grad=True)
    b = torch.randn(24, 40, dtype=dtype, device=device, requires_grad=True)
    bias = torch.randn(24, dtype=dtype, device=device, requires_grad=True)
    options = {"bias": bias, "activation": activation}
    torch.library.opcheck(hgemm.default, (a, b.mT), options)
    with torch.no_grad():
        out = torch.empty(33, 24, dtype=dtype, device=device)
        torch.library.opcheck(hgemm.out, (a.detach(), b.detach().mT), {"out": out})


def reference_gradients(a, b, bias, activation, grad):
    """Gradients of activation(a @ b + bias) in float64."""
    wide = [x.detach().double().requires_grad_() for x in (a, b, bias)]
    ACTIVATIONS[activation][0](wide[0] @ wide[1] + wide[2]).backward(grad.double())
    return [x.grad for x in wide]


def assert_near(got, want, what):
    scale = want.abs().max()
    error = (got.double() - want).abs().max()
    limit = 0.02 if got.dtype == torch.bfloat16 else 0.003
    assert error <= limit * scale, f"{what}: error {error / scale:.3g} of the largest"


@pytest.mark.parametrize("shape", [(128, 72, 64), (65, 33, 31)])
def test_gradients(device, dtype, shape):
    m, n, k = shape
    for activation in ACTIVATIONS:
        a = operand(m, k, dtype, device).requires_grad_()
        b = operand(k, n, dtype, device, layout="t").requires_grad_()
        bias = torch.randn(n, dtype=dtype, device=device, requires_grad=True)
        grad = torch.randn(m, n, dtype=dtype, device=device)
        out = hgemm(a, b, bias=bias, activation=activation)
        assert_close(out.detach(), a.detach(), b.detach(), bias.detach(), activation)
        got = torch.autograd.grad(out, (a, b, bias), grad)
        want = reference_gradients(a, b, bias, activation, grad)
        for name, x, y in zip(("a", "b", "bias"), got, want, strict=True):
            assert x.dtype == dtype
            assert_near(x, y, f"{activation}, gradient of {name}")


def test_double_backward(device, dtype):
    a = operand(40, 24, dtype, device).requires_grad_()
    b = operand(24, 33, dtype, device).requires_grad_()
    grad = torch.randn(40, 33, dtype=dtype, device=device, requires_grad=True)
    first = torch.autograd.grad(hgemm(a, b), (a, b), grad, create_graph=True)
    sum(x.float().square().sum() for x in first).backward()
    wide = [x.detach().double().requires_grad_() for x in (a, b, grad)]
    first = torch.autograd.grad(wide[0] @ wide[1], wide[:2], wide[2], create_graph=True)
    sum(x.square().sum() for x in first).backward()
    for name, x, y in zip(("a", "b", "grad"), (a, b, grad), wide, strict=True):
        assert_near(x.grad, y.grad, name)


def test_backward_copies_no_operand(device, dtype):
    """The backward products read transposed views: no allocation beyond the gradients' size."""
    a = torch.randn(2048, 1024, dtype=dtype, device=device, requires_grad=True)
    b = torch.randn(512, 1024, dtype=dtype, device=device, requires_grad=True)
    out = hgemm(a, b.mT)
    grad = torch.randn_like(out)
    got, peak = measure_memory(lambda: torch.autograd.grad(out, (a, b), grad))
    gradients = sum(x.numel() * x.itemsize for x in got)
    workspace = sum(
        vitamin_hgemm.plan(*mnk, dtype=dtype, layout=layout).workspace_bytes
        for *mnk, layout in [
            (2048, 1024, 512, "nn"),
            (1024, 512, 2048, "tn"),
            (512, 1024, 2048, "tn"),
        ]
    )
    assert peak <= gradients + workspace + 2**16


@pytest.mark.parametrize("dynamic", [False, True])
def test_compile_fullgraph(device, dtype, dynamic):
    """Forward and backward, with static and with dynamic shapes."""
    weight = torch.randn(72, 64, dtype=dtype, device=device, requires_grad=True)
    bias = torch.randn(72, dtype=dtype, device=device)

    def layer(x):
        return hgemm(x, weight.mT, bias=bias, activation="silu") * 2

    compiled = torch.compile(layer, fullgraph=True, dynamic=dynamic)
    for rows in (16, 33) if dynamic else (33,):
        x = torch.randn(2, rows, 64, dtype=dtype, device=device)
        out = compiled(x)
        assert torch.equal(out, layer(x))
        (gradient,) = torch.autograd.grad(out.float().sum(), weight)
        (eager,) = torch.autograd.grad(layer(x).float().sum(), weight)
        assert_near(gradient, eager.double(), f"{rows} rows")


def test_compile_reduce_overhead(device, dtype):
    """Under torch.compile's own CUDA graphs."""
    weight = torch.randn(64, 4096, dtype=dtype, device=device)

    def layer(x):
        return hgemm(x, weight.mT)

    compiled = torch.compile(layer, fullgraph=True, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(8, 4096, dtype=dtype, device=device)
            assert_close(compiled(x).clone(), x, weight.mT)


def test_modes_give_the_same_bits(device, dtype):
    a, b = operand(65, 72, dtype, device), operand(72, 80, dtype, device)
    plain = hgemm(a, b)
    with torch.inference_mode():
        assert torch.equal(hgemm(a, b), plain)
    with torch.no_grad():
        assert torch.equal(hgemm(a, b), plain)
    assert torch.equal(hgemm(a.requires_grad_(), b), plain)
    assert torch.equal(vitamin_hgemm.hgemm(a, b), plain)


def test_refusals_keep_their_text_under_autograd(device, dtype):
    a = operand(64, 72, dtype, device).requires_grad_()
    b = operand(72, 80, dtype, device, layout="t")
    for context in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with context(), pytest.raises(RuntimeError, match="kernel 'sm80_naive' can't run"):
            hgemm(a, b, kernel="sm80_naive")


def test_replace_linears(device, dtype):
    model = torch.nn.Sequential(
        torch.nn.Linear(96, 200), torch.nn.GELU(), torch.nn.Linear(200, 33, bias=False)
    ).to(device, dtype)
    x = torch.randn(4, 7, 96, dtype=dtype, device=device)
    want = model(x)
    changed = vitamin_hgemm.replace_linears(model)
    assert len(changed) == 2
    assert_near(model(x), want.double(), "the model's output")
    model(x).float().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
