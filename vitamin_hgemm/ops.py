"""vitamin_hgemm.hgemm, and all that torch needs to know of torch.ops.vitamin."""

import torch

from . import _autograd, _errors, _fake, _transforms
from ._fake import ACTIVATIONS, DTYPES

__all__ = ["ACTIVATIONS", "DTYPES", "hgemm"]

# First of all, since it changes the hash by which torch keeps what is registered for an op.
for _packet in (torch.ops.vitamin.hgemm, torch.ops.vitamin._hgemm):
    _errors.restore_errors_of(_packet)

_library = torch.library.Library("vitamin", "IMPL")
for _part in (_fake, _autograd, _transforms):
    _part.register(_library)

_hgemm = torch.ops.vitamin.hgemm.default
_hgemm_out = torch.ops.vitamin.hgemm.out


def hgemm(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    bias: torch.Tensor | None = None,
    activation: str = "none",
    kernel: str = "auto",
    out_dtype: torch.dtype | None = None,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """activation(a @ b + bias) in half precision, accumulated in float32 and rounded once.

    The same as torch.ops.vitamin.hgemm, which it calls.

    Args:
        a: [..., M, K], or [K] for one row. torch.float16 or torch.bfloat16, any strides: row- and
            column-major matrices are read in place, one with neither stride 1 is copied first.
        b: [..., K, N], or [K] for one column. a's dtype and device. A weight stored [N, K] is
            passed as `weight.mT`, with no copy. Batch dimensions broadcast as in torch.matmul.
        bias: [N], a's dtype, added to every row before the activation.
        activation: "none", "relu", "gelu" (by the error function), "gelu_tanh" or "silu".
        kernel: "auto" chooses by shape, alignment and device (`plan` tells what and why). Else the
            name of a kernel or of a family, as `kernels` lists them. On the CPU only "auto".
        out_dtype: None for a's dtype, or torch.float32 for the accumulator after bias and
            activation, unrounded.
        out: where to write the result: its shape, dtype and device, any strides without overlap.
            It must share no memory with a, b or bias. torch.compile takes only a contiguous one.

    Returns:
        `out`, or a new row-major tensor: [..., M, N], without M if a is [K] and without N if b is.
        K = 0 gives activation(bias), or activation(0) with no bias.

    Raises:
        RuntimeError: an argument is unusable, or `kernel` can't run this problem on this device.
            The text names the argument, what came and what is wanted; nothing has been written.

    Numerics: each element is off by at most one rounding to the output's type plus the rounding
    noise of a float32 sum; partial sums are never rounded to half precision. NaN and infinity
    propagate as in torch. Equal inputs give equal bits on the same device and version.

    Gradients: the gradients of a and b are products on the same op, of transposed views, and can
    be differentiated again. Where the forward call named a kernel that doesn't take every layout,
    they use "auto". They are computed from the incoming gradient times the activation's derivative,
    rounded once to a's dtype (so also with out_dtype=torch.float32), and returned in a's dtype, in
    the memory layout of the operand. Sums over broadcast dimensions and the gradient of bias are
    taken in float32 and rounded once. The derivative of relu comes from the output's sign; the
    other activations keep no intermediate and compute a @ b + bias once more. `out` can't be
    combined with operands that require a gradient or have a tangent. Forward-mode derivatives work
    too and nest, though not under torch.no_grad.
    """
    if out is None:
        return _hgemm(a, b, bias=bias, activation=activation, kernel=kernel, out_dtype=out_dtype)
    return _hgemm_out(
        a, b, bias=bias, activation=activation, kernel=kernel, out_dtype=out_dtype, out=out
    )
