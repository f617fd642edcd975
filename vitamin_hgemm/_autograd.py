"""Derivatives of the product: the autograd kernel of vitamin::_hgemm_grad.

vitamin::hgemm goes there when grad mode is on. Both gradients of a product are products again, of
transposed views, and they are taken on vitamin::hgemm itself, so that they can be differentiated
once more.
"""

import torch
from torch._functorch.autograd_function import enable_single_level_autograd_function
from torch.autograd import forward_ad

from ._errors import keeping_errors
from ._numbers import kernel_of

_hgemm = torch.ops.vitamin.hgemm.default
_hgemm_in_graph = torch.ops.vitamin._hgemm.default
_hgemm_out = torch.ops.vitamin.hgemm.out

# Kernels that take whatever strides a gradient comes with. The gradients of a call to another one
# are left to "auto".
_ANY_STRIDES = ("auto", "sm80")


def _is_transposed(x):
    return x.dim() >= 2 and x.stride(-1) != 1 and x.stride(-2) == 1


def _product(x, y, kernel, *, transposed, out_dtype=None):
    """x @ y, stored transposed if `transposed`: a gradient takes its operand's memory layout."""
    if transposed:
        return _hgemm(y.mT, x.mT, kernel=kernel, out_dtype=out_dtype).mT
    return _hgemm(x, y, kernel=kernel, out_dtype=out_dtype)


def _product_summed_to(x, y, shape, kernel, *, transposed):
    """x @ y summed over the batch dimensions that `shape` lacks or has as 1, rounded once."""
    batch = torch.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    if batch == shape[:-2]:
        return _product(x, y, kernel, transposed=transposed)
    parts = _product(x, y, kernel, transposed=transposed, out_dtype=torch.float32)
    return parts.sum_to_size(shape).to(x.dtype)


def _weight_grad(a, grad, shape, kernel, *, transposed):
    """The gradient of b: a.mT @ grad. One product if b is a single matrix, however many a are."""
    if len(shape) == 2 and a.dim() > 2:
        a, grad = a.flatten(0, -2), grad.flatten(0, -2)
    return _product_summed_to(a.mT, grad, shape, kernel, transposed=transposed)


def _activation_grad(activation, grad, pre_activation):
    if activation == "silu" and torch.is_grad_enabled():
        # silu_backward has no derivative.
        sigmoid = torch.sigmoid(pre_activation)
        return grad * sigmoid * (1 + pre_activation * (1 - sigmoid))
    if activation == "silu":
        return torch.ops.aten.silu_backward(grad, pre_activation)
    approximate = "tanh" if activation == "gelu_tanh" else "none"
    return torch.ops.aten.gelu_backward(grad, pre_activation, approximate=approximate)


def _forward(*args):
    with torch._C._AutoDispatchBelowAutograd():
        if torch._C._are_functorch_transforms_active():
            # The levels of torch.func below this one differentiate too.
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                return _hgemm_in_graph(*args)
        return _hgemm_in_graph(*args)


class _Hgemm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, bias, activation, kernel, out_dtype):
        out = _forward(a, b, bias, activation, kernel, out_dtype)
        needs_a, needs_b = ctx.needs_input_grad[:2]
        recompute = activation not in ("none", "relu")
        ctx.save_for_backward(
            a if needs_b or recompute else None,
            b if needs_a or recompute else None,
            bias if recompute else None,
            out if activation == "relu" else None,
        )
        if forward_ad._current_level >= 0:
            ctx.save_for_forward(a, b, bias, out)
        ctx.activation, ctx.out_dtype = activation, out_dtype
        ctx.kernel = kernel if kernel in _ANY_STRIDES else "auto"
        ctx.dtype = a.dtype
        ctx.a_shape, ctx.a_transposed = a.shape, _is_transposed(a)
        ctx.b_shape, ctx.b_transposed = b.shape, _is_transposed(b)
        return out

    @staticmethod
    def backward(ctx, grad):
        a, b, bias, out = ctx.saved_tensors
        needs_a, needs_b, needs_bias = ctx.needs_input_grad[:3]
        if ctx.activation == "relu":
            grad = torch.ops.aten.threshold_backward(grad, out, 0)
        elif ctx.activation != "none":
            z = _hgemm(a, b, bias=bias, kernel=ctx.kernel, out_dtype=torch.float32)
            grad = _activation_grad(ctx.activation, grad.float(), z)

        a_shape, b_shape = ctx.a_shape, ctx.b_shape
        if len(b_shape) == 1:
            grad, b_shape = grad.unsqueeze(-1), (*b_shape, 1)
            b = None if b is None else b.unsqueeze(-1)
        if len(a_shape) == 1:
            grad, a_shape = grad.unsqueeze(-2), (1, *a_shape)
            a = None if a is None else a.unsqueeze(0)

        grad_a = grad_b = grad_bias = None
        if needs_bias:
            rows = tuple(range(grad.dim() - 1))
            grad_bias = grad.sum(rows, dtype=torch.float32).to(ctx.dtype)
        grad = grad.to(ctx.dtype)
        if needs_a:
            grad_a = _product_summed_to(
                grad, b.mT, a_shape, ctx.kernel, transposed=ctx.a_transposed
            ).reshape(ctx.a_shape)
        if needs_b:
            grad_b = _weight_grad(
                a, grad, b_shape, ctx.kernel, transposed=ctx.b_transposed
            ).reshape(ctx.b_shape)
        return grad_a, grad_b, grad_bias, None, None, None

    @staticmethod
    def jvp(ctx, *tangents):
        """The derivative along the tangents, summed in float32 and rounded once."""
        primals = [None if x is None else forward_ad.unpack_dual(x)[0] for x in ctx.saved_tensors]
        # Torch calls this with forward mode off, at the levels of torch.func below this one too.
        with forward_ad._set_fwd_grad_enabled(True):
            return _tangent(ctx, *primals, *tangents[:3])


def _tangent(ctx, a, b, bias, out, a_tangent, b_tangent, bias_tangent):
    options = dict(kernel=ctx.kernel, out_dtype=torch.float32)
    terms = []
    if a_tangent is not None:
        terms.append(_hgemm(a_tangent, b, **options))
    if b_tangent is not None:
        terms.append(_hgemm(a, b_tangent, **options))
    if bias_tangent is not None:
        terms.append(bias_tangent.float() if b.dim() > 1 else bias_tangent[0].float())
    tangent = sum(terms).expand(out.shape)
    if ctx.activation == "relu":
        tangent = torch.ops.aten.threshold_backward(tangent, out.float(), 0)
    elif ctx.activation != "none":
        z = _hgemm(a, b, bias=bias, **options)
        tangent = _activation_grad(ctx.activation, tangent, z)
    return tangent.to(out.dtype)


# Function.apply itself demands of every Function that meets torch.func a form whose calls take
# twice as long; this kernel only ever runs at one level of torch.func, which needs no such form.
_apply = super(torch.autograd.Function, _Hgemm).apply


@keeping_errors
def _autograd_kernel(a, b, bias=None, activation="none", kernel="auto", out_dtype=None):
    if forward_ad._current_level < 0 and not torch._C._any_requires_grad(a, b, bias=bias):
        return _forward(a, b, bias, activation, kernel, out_dtype)
    if torch._C._are_functorch_transforms_active():
        with enable_single_level_autograd_function():
            return _apply(a, b, bias, activation, kernel, out_dtype)
    return _apply(a, b, bias, activation, kernel, out_dtype)


def _has_tangent(x):
    return x is not None and forward_ad.unpack_dual(x).tangent is not None


@keeping_errors
def _out_kernel(a, b, bias=None, activation="none", kernel="auto", out_dtype=None, *, out):
    if torch._C._any_requires_grad(a, b, bias=bias, out=out):
        raise RuntimeError(
            "hgemm(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    if forward_ad._current_level >= 0 and any(map(_has_tangent, (a, b, bias, out))):
        raise NotImplementedError(
            "hgemm(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments has a tangent (forward mode)."
        )
    with torch._C._AutoDispatchBelowAutograd():
        return _hgemm_out(
            a, b, bias=bias, activation=activation, kernel=kernel, out_dtype=out_dtype, out=out
        )


def register(library: torch.library.Library) -> None:
    for name in ("_hgemm_no_grad", "_hgemm_no_grad.out"):
        library.impl(name, torch.library.fallthrough_kernel, "Autograd")
    for name, kernel in (("_hgemm_grad", _autograd_kernel), ("_hgemm_grad.out", _out_kernel)):
        library.impl(name, kernel_of(name, kernel), "Autograd")
