"""The ops on fake tensors: the op library's checks, as far as they need no data, and the result."""

import torch

from ._errors import keeping_errors
from ._numbers import ACTIVATIONS, kernel_of

DTYPES = (torch.float16, torch.bfloat16)
FUNCTIONAL_OPS = ("hgemm", "_hgemm", "_hgemm_no_grad", "_hgemm_grad")
OUT_OPS = ("hgemm.out", "_hgemm_no_grad.out", "_hgemm_grad.out")


def _wanted(condition, text):
    torch._check(condition, lambda: f"hgemm: {text}")


def _check_operand(name, x, a):
    _wanted(
        x.layout == torch.strided,
        f"{name} has layout {x.layout}; wanted a dense tensor (torch.strided)",
    )
    _wanted(x.dtype in DTYPES, f"{name} is {x.dtype}; wanted torch.float16 or torch.bfloat16")
    _wanted(x.dtype == a.dtype, f"{name} is {x.dtype} and a is {a.dtype}; wanted the same dtype")
    _check_device(name, x, a)


def _check_device(name, x, a):
    _wanted(
        x.device == a.device,
        f"{name} is on {x.device} and a is on {a.device}; wanted the same device",
    )


def _is_one(size):
    """Whether a size is 1. One that only the run will tell is taken for another."""
    if isinstance(size, int):
        return size == 1
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    return guard_or_false(size == 1)


def _shapes_text(a, b):
    return f"a has shape {list(a.shape)} and b has shape {list(b.shape)}; wanted"


def _batch_shape(a, b):
    """The broadcast shape of the batch dimensions."""
    a_batch, b_batch = tuple(a.shape[:-2]), tuple(b.shape[:-2])
    dims = max(len(a_batch), len(b_batch))
    a_batch = (1,) * (dims - len(a_batch)) + a_batch
    b_batch = (1,) * (dims - len(b_batch)) + b_batch
    batch = []
    for x, y in zip(a_batch, b_batch, strict=True):
        if not _is_one(x) and not _is_one(y):
            text = f"batch dimensions that broadcast, but {x} meets {y}"
            _wanted(x == y, f"{_shapes_text(a, b)} {text}")
        batch.append(y if _is_one(x) else x)
    return batch


def _result_shape(a, b):
    for name, x in (("a", a), ("b", b)):
        _wanted(1 <= x.dim() < 64, f"{name} has {x.dim()} dimensions; wanted 1 to 63")
    which, k = ("only", b.shape[0]) if b.dim() == 1 else ("second to last", b.shape[-2])
    text = f"a's last dimension ({a.shape[-1]}) equal to b's {which} one ({k})"
    _wanted(a.shape[-1] == k, f"{_shapes_text(a, b)} {text}")
    rows = [] if a.dim() == 1 else [a.shape[-2]]
    columns = [] if b.dim() == 1 else [b.shape[-1]]
    return _batch_shape(a, b) + rows + columns


def check_bias_shape(shape, n):
    _wanted(
        len(shape) == 1 and shape[0] == n,
        f"bias has shape {list(shape)}; wanted [{n}], one value for each column of the result",
    )


def _check(a, b, bias, activation, out_dtype):
    """Raises what the op library would; returns the shape and dtype of the result."""
    _check_operand("a", a, a)
    _check_operand("b", b, a)
    shape = _result_shape(a, b)
    if bias is not None:
        _check_operand("bias", bias, a)
        n = 1 if b.dim() == 1 else b.shape[-1]
        check_bias_shape(bias.shape, n)
    _wanted(
        activation in ACTIVATIONS,
        f"activation is '{activation}'; wanted none, relu, gelu, gelu_tanh or silu",
    )
    _wanted(
        out_dtype in (None, torch.float32),
        f"out_dtype is {out_dtype}; wanted None or torch.float32",
    )
    return shape, out_dtype or a.dtype


def check_out(a, b, bias, activation, out_dtype, out):
    """Raises what the op library would for a call with out=, except for overlap."""
    shape, dtype = _check(a, b, bias, activation, out_dtype)
    _wanted(
        out.layout == torch.strided,
        f"out has layout {out.layout}; wanted a dense tensor (torch.strided)",
    )
    reason = "a's dtype" if out_dtype is None else "out_dtype"
    _wanted(out.dtype == dtype, f"out is {out.dtype}; wanted {dtype} ({reason})")
    _check_device("out", out, a)
    text = f"out has shape {list(out.shape)}; wanted {shape}"
    _wanted(out.dim() == len(shape), text)
    for size, wanted in zip(out.shape, shape, strict=True):
        _wanted(size == wanted, text)


@keeping_errors
def _hgemm(a, b, bias=None, activation="none", kernel="auto", out_dtype=None):
    shape, dtype = _check(a, b, bias, activation, out_dtype)
    return a.new_empty(shape, dtype=dtype)


@keeping_errors
def _hgemm_out(a, b, bias=None, activation="none", kernel="auto", out_dtype=None, *, out):
    check_out(a, b, bias, activation, out_dtype, out)
    return out


def register(library: torch.library.Library) -> None:
    for name in FUNCTIONAL_OPS:
        torch.library.register_fake(f"vitamin::{name}", kernel_of(name, _hgemm), lib=library)
    for name in OUT_OPS:
        torch.library.register_fake(f"vitamin::{name}", kernel_of(name, _hgemm_out), lib=library)
