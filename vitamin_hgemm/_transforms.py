"""What torch.autocast, torch.vmap, tracing of out= and the FLOP counter do with the ops."""

import math

import torch
import torch.nn.functional as F
from torch._functorch.autograd_function import custom_function_call_vmap_helper
from torch._functorch.pyfunctorch import retrieve_current_functorch_interpreter
from torch._subclasses.functional_tensor import CppFunctionalizeAPI
from torch.utils.flop_counter import register_flop_formula

from . import _fake
from ._errors import keeping_errors
from ._numbers import kernel_of

_ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


def _autocast_kernel(device_type):
    key = getattr(torch._C.DispatchKey, f"Autocast{device_type.upper()}")
    below = torch._C.DispatchKeySet(key)
    hgemm = torch.ops.vitamin.hgemm.default

    def cast(x, dtype):
        eligible = (
            x is not None
            and x.device.type == device_type
            and x.is_floating_point()
            and x.dtype != torch.float64
        )
        return x.to(dtype) if eligible else x

    def autocast_kernel(a, b, *, bias=None, activation="none", kernel="auto", out_dtype=None):
        dtype = torch.get_autocast_dtype(device_type)
        with torch._C._ExcludeDispatchKeyGuard(below):
            return hgemm(
                cast(a, dtype),
                cast(b, dtype),
                bias=cast(bias, dtype),
                activation=activation,
                kernel=kernel,
                out_dtype=out_dtype,
            )

    return autocast_kernel


def _batch_first(x, dims):
    """x with `dims` dimensions behind its first, the new ones of size 1."""
    return x.reshape(x.shape[0], *[1] * (dims + 1 - x.dim()), *x.shape[1:])


def _vmap_rule(info, in_dims, a, b, bias, activation, kernel, out_dtype):
    """One product with a batch dimension more, whichever of its operands have it."""
    a_dim, b_dim, bias_dim = in_dims[:3]
    hgemm = torch.ops.vitamin._hgemm.default
    if b_dim is None and bias_dim is None and b.dim() <= 2:
        a = a.movedim(a_dim, 0)
        return hgemm(a, b, bias, activation, kernel, out_dtype), 0

    a_is_vector = a.dim() - (a_dim is not None) == 1
    b_is_vector = b.dim() - (b_dim is not None) == 1
    a = a if a_dim is None else a.movedim(a_dim, 0)
    b = b if b_dim is None else b.movedim(b_dim, 0)
    a = a.unsqueeze(-2) if a_is_vector else a
    b = b.unsqueeze(-1) if b_is_vector else b
    dims = max(a.dim() - (a_dim is not None), b.dim() - (b_dim is not None))
    a = a if a_dim is None else _batch_first(a, dims)
    b = b if b_dim is None else _batch_first(b, dims)
    if bias_dim is None:
        out = hgemm(a, b, bias, activation, kernel, out_dtype)
    else:
        # The op adds one bias to all of a batch, so a batch of them is added here, in float32
        # as the op does.
        bias = bias.movedim(bias_dim, 0)
        _fake.check_bias_shape(bias.shape[1:], b.shape[-1])
        out = hgemm(a, b, None, "none", kernel, torch.float32)
        out = out + _batch_first(bias, dims).float()
        out = _ACTIVATIONS[activation](out).to(out_dtype or a.dtype)
    out = out.squeeze(-1) if b_is_vector else out
    out = out.squeeze(-1 if b_is_vector else -2) if a_is_vector else out
    return out, 0


def _vmap_kernel(a, b, bias=None, activation="none", kernel="auto", out_dtype=None):
    return custom_function_call_vmap_helper(
        retrieve_current_functorch_interpreter(),
        _vmap_rule,
        torch.ops.vitamin._hgemm.default,
        a,
        b,
        bias,
        activation,
        kernel,
        out_dtype,
    )


def _below(api, a, b, bias, activation, kernel, out_dtype):
    """The product as a node of the graph that is being traced."""
    a, b, bias = api.unwrap_tensors((a, b, bias))
    with api.redispatch_to_next(), torch._C._AutoDispatchBelowAutograd():
        return torch.ops.vitamin._hgemm.default(a, b, bias, activation, kernel, out_dtype)


@keeping_errors
def _functionalized(a, b, bias=None, activation="none", kernel="auto", out_dtype=None):
    api = CppFunctionalizeAPI()
    return api.wrap_tensors(_below(api, a, b, bias, activation, kernel, out_dtype))


@keeping_errors
def _functionalized_out(a, b, bias=None, activation="none", kernel="auto", out_dtype=None, *, out):
    """out= in a traced graph: a functional product, then a write of it to out."""
    _fake.check_out(a, b, bias, activation, out_dtype, out)
    api = CppFunctionalizeAPI()
    api.replace(out, _below(api, a, b, bias, activation, kernel, out_dtype))
    api.commit_update(out)
    api.sync(out)
    return out


def _flops(a_shape, b_shape, *_, out_shape, **__):
    return 2 * math.prod(out_shape) * a_shape[-1]


def register(library: torch.library.Library) -> None:
    for device_type in ("cuda", "cpu"):
        library.impl("hgemm", _autocast_kernel(device_type), f"Autocast{device_type.upper()}")
    for name in _fake.OUT_OPS:
        library.impl(name, kernel_of(name, _functionalized_out), "Functionalize")
    for name in _fake.FUNCTIONAL_OPS:
        library.impl(name, kernel_of(name, _functionalized), "Functionalize")
        library.impl(name, kernel_of(name, _vmap_kernel), "FuncTorchBatched")
        register_flop_formula(getattr(torch.ops.vitamin, name))(_flops)
