"""The bound that a result must keep, and how far from it a result is."""

from __future__ import annotations

import math

import torch

_CHUNK_ELEMENTS = 1 << 28  # of the reference; bounds the memory that a check takes


def bound(ref: torch.Tensor, magnitude: torch.Tensor, k: int, dtype: torch.dtype) -> torch.Tensor:
    """Largest allowed |out - ref|, elementwise: one rounding to dtype plus fp32 accumulation.

    ref: a·b in fp32; magnitude: |a|·|b| in fp32; k: length of the inner dimension.
    """
    info = torch.finfo(dtype)
    rounding = 1.01 * info.eps / 2 * ref.abs() + info.smallest_normal * info.eps / 2
    return rounding + 16 * math.sqrt(max(k, 1)) * 2.0**-24 * magnitude


def _worst(out: torch.Tensor, ref: torch.Tensor, limit: torch.Tensor) -> float:
    # NaN must count as wrong, and infinities that agree as right.
    error = torch.where(out == ref, 0.0, (out - ref).abs())
    ratio = (error / limit).nan_to_num(nan=math.inf, posinf=math.inf)
    return ratio.max().item() if ratio.numel() else 0.0


@torch.no_grad()
def errors(a: torch.Tensor, b: torch.Tensor, outs: list[torch.Tensor]) -> list[float]:
    """Largest error of each out over its bound; at most 1 is right, inf where an element is NaN.

    a: [..., m, k], b: [..., k, n], each out: [..., m, n], all of one 16-bit type on one device.
    The reference is an fp32 product of the exact fp32 operands, on that device.
    """
    m, k = a.shape[-2:]
    row_elements = max(1, outs[0].numel() // max(1, m))
    step = max(1, _CHUNK_ELEMENTS // row_elements)
    b32 = b.float()
    b_abs = b32.abs()
    worst = [0.0] * len(outs)
    for start in range(0, m, step):
        rows = slice(start, start + step)
        a32 = a[..., rows, :].float()
        ref = a32 @ b32
        limit = bound(ref, a32.abs() @ b_abs, k, a.dtype)
        for i, out in enumerate(outs):
            worst[i] = max(worst[i], _worst(out[..., rows, :].float(), ref, limit))
    return worst
