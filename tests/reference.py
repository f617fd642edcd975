"""What a result is checked against, and the operands and outputs of awkward shape in memory.

The bound, elementwise: |out - ref| ≤ 1.01·u·|ref| + L·16·√K·2⁻²⁴·(|a|·|b| + |bias|), where u is
half a unit in the last place of the output type and L the Lipschitz constant of the activation.
"""

import itertools
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F

ACTIVATIONS = {
    "none": (lambda x: x, 1.0),
    "relu": (torch.relu, 1.0),
    "gelu": (F.gelu, 1.13),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), 1.13),
    "silu": (F.silu, 1.1),
}

# Half a unit in the last place of 1, the smallest error that subnormals make unavoidable, and
# the least magnitude that rounds to infinity.
ROUNDING = {
    torch.float16: (2.0**-11, 2.0**-24, 65520.0),
    torch.bfloat16: (2.0**-8, 1e-30, 2.0**128 * (1 - 2.0**-9)),
    torch.float32: (2.0**-24, 1e-30, 2.0**128 * (1 - 2.0**-25)),
}

INT_OF = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32}

# Products of at most so many multiply-adds are checked in float64, the others in float32.
FLOAT64_WORK = {"cpu": 2**27, "cuda": 2**35}
BLOCK = {"cpu": 2**22, "cuda": 2**26}


@dataclass
class Verdict:
    """The comparison of one output with the reference. True if every element is in bounds."""

    elements: int = 0
    wrong: int = 0
    ratio: float = 0.0  # worst |out - ref| / bound
    where: tuple = ()
    got: float = 0.0
    want: float = 0.0

    def __bool__(self):
        return self.wrong == 0

    def __str__(self):
        return (
            f"{self.wrong} of {self.elements} elements out of bounds; worst at {list(self.where)}: "
            f"got {self.got:.6g}, want {self.want:.6g}, {self.ratio:.3g} times the bound"
        )


def _slices(shape, limit):
    """Tuples of slices that cover `shape` exactly once, each of at most `limit` elements."""
    *batch, m, n = shape
    steps = [max(1, size) for size in batch] + [min(m, 2**20) or 1, min(n, 2**20) or 1]
    for d in range(len(shape)):
        while steps[d] > 1 and (
            math.prod(steps) > limit or (d < len(batch) and math.prod(steps[:-2]) > 2**15)
        ):
            steps[d] = (steps[d] + 1) // 2
    starts = [range(0, size, step) for size, step in zip(shape, steps, strict=True)]
    for start in itertools.product(*starts):
        yield tuple(slice(i, i + step) for i, step in zip(start, steps, strict=True))


def _product(a, b, wide, limit):
    """a @ b and |a| @ |b| in dtype `wide`, along K in steps of at most `limit` elements."""
    k = a.shape[-1]
    step = max(1, limit // max(1, a[..., :1].numel(), b[..., :1, :].numel()))
    ref = mag = torch.zeros((*a.shape[:-1], b.shape[-1]), dtype=wide, device=a.device)
    for i in range(0, k, step):
        x, y = a[..., i : i + step].to(wide), b[..., i : i + step, :].to(wide)
        ref = ref + x @ y
        mag = mag + x.abs() @ y.abs()
    return ref, mag


def judge(out, a, b, bias=None, activation="none"):
    """Compares `out` with activation(a @ b + bias), shapes as in torch.matmul."""
    if a.dim() == 1:
        a, out = a[None], out.unsqueeze(-1 if b.dim() == 1 else -2)
    if b.dim() == 1:
        b, out = b[:, None], out.unsqueeze(-1)
    k = a.shape[-1]
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    assert out.shape == (*batch, a.shape[-2], b.shape[-1]), (out.shape, a.shape, b.shape)
    a, b = a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])

    kind = out.device.type
    wide = torch.float64 if out.numel() * k <= FLOAT64_WORK[kind] else torch.float32
    function, lipschitz = ACTIVATIONS[activation]
    rounding, floor, overflow = ROUNDING[out.dtype]
    verdict = Verdict(elements=out.numel())
    for index in _slices(out.shape, BLOCK[kind]):
        *batches, rows, cols = index
        x, mag = _product(a[(*batches, rows)], b[(*batches, slice(None), cols)], wide, BLOCK[kind])
        if bias is not None:
            x, mag = x + bias[cols].to(wide), mag + bias[cols].to(wide).abs()
        ref, got = function(x), out[index].to(wide)
        slack = lipschitz * 16 * math.sqrt(max(k, 1)) * 2.0**-24 * mag
        bound = 1.01 * rounding * ref.abs() + slack + floor
        error = (got - ref).abs()
        overflows = got.isinf() & (got.sign() == ref.sign()) & (ref.abs() + bound >= overflow)
        same = (got == ref) | (got.isnan() & ref.isnan()) | overflows
        ratio = (error / bound).nan_to_num(nan=math.inf, posinf=math.inf)
        ratio = ratio.masked_fill(~x.isfinite(), math.inf).masked_fill(same, 0)
        wrong = int((ratio > 1).sum())
        verdict.wrong += wrong
        worst = ratio.max().item()
        if worst > verdict.ratio or (wrong and not verdict.where):
            at = tuple(int(i) for i in torch.unravel_index(ratio.argmax(), ratio.shape))
            verdict.ratio = worst
            verdict.where = tuple(s.start + i for s, i in zip(index, at, strict=True))
            verdict.got, verdict.want = got[at].item(), ref[at].item()
    return verdict


def assert_close(out, a, b, bias=None, activation="none", what=""):
    """Raises AssertionError, with `what` and the worst element, unless judge() is satisfied."""
    verdict = judge(out, a, b, bias, activation)
    assert verdict, f"{what}: {verdict}"


def _allocate(elements, offset, dtype, device):
    """`elements` uninitialised elements whose first is `offset` bytes past a 16-byte boundary."""
    size = dtype.itemsize
    assert offset % size == 0, f"an offset of {offset} bytes is no multiple of {dtype}"
    base = torch.empty(elements + 16, dtype=dtype, device=device)
    return base, (offset - base.data_ptr()) % 16 // size


def operand(rows, cols, dtype, device, *, layout="n", batch=(), pad=0, offset=0, values=None):
    """A [*batch, rows, cols] view in a storage whose every other element is NaN.

    layout "n" is stored as written, "t" transposed. Stored rows are `pad` elements longer than
    what they hold. The first element is `offset` bytes past a 16-byte boundary. Elements are
    `values`, a tensor that broadcasts to the shape, or normally distributed.
    """
    outer, inner = (rows, cols) if layout == "n" else (cols, rows)
    pitch = inner + pad
    base, start = _allocate(math.prod(batch) * outer * pitch, offset, dtype, device)
    base.fill_(math.nan)
    stored = base[start : start + math.prod(batch) * outer * pitch].view(*batch, outer, pitch)
    view = stored[..., :inner]
    view = view if layout == "n" else view.transpose(-1, -2)
    if values is None:
        view.normal_()
    else:
        view.copy_(values)
    return view


def within_nan(rows, cols, dtype, device, layout):
    """A buffer of NaN, more than a tile larger on each side than the view that is returned too."""
    outer, inner = (rows, cols) if layout == "n" else (cols, rows)
    pitch = -(-inner // 8) * 8 + 2 * 264
    base = torch.full((outer + 2 * 264, pitch), math.nan, dtype=dtype, device=device)
    view = base[264 : 264 + outer, 264 : 264 + inner].normal_()
    return base, view if layout == "n" else view.t()


class Guarded:
    """An output that is a view of a larger buffer, in which every element is a different NaN.

    `view` has the given shape, and the given strides or rows padded by `pad` elements. Its first
    element is `offset` bytes past a 16-byte boundary, with `MARGIN` elements before and after.
    """

    MARGIN = 256

    def __init__(self, shape, dtype, device, *, strides=None, pad=0, offset=0):
        if strides is None:
            strides, size = [1] * len(shape), 1
            for d in reversed(range(len(shape))):
                strides[d] = size
                size *= max(shape[d], 1) + (pad if d == len(shape) - 1 else 0)
        extent = 1 + sum(max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True))
        self._buffer, start = _allocate(extent + 2 * self.MARGIN, offset, dtype, device)
        self._bits = self._buffer.view(INT_OF[dtype])
        infinity = torch.tensor(math.inf, dtype=dtype).view(INT_OF[dtype]).item()
        bits_free = {torch.float16: 10, torch.bfloat16: 7, torch.float32: 23}[dtype]
        self._bits.random_(1, 2**bits_free).add_(infinity)
        self._before = self._bits.clone()
        self.view = self._buffer.as_strided(shape, strides, start + self.MARGIN)
        self._around = torch.ones_like(self._buffer, dtype=torch.bool)
        self._around.as_strided(shape, strides, start + self.MARGIN).fill_(False)
        self._start = start + self.MARGIN

    def assert_around_untouched(self, what=""):
        """Raises AssertionError if an element around the view has changed."""
        changed = ((self._bits != self._before) & self._around).nonzero().flatten() - self._start
        assert not changed.numel(), (
            f"{what}: wrote {changed.numel()} elements outside of out, which is {self.describe()}; "
            f"first at {changed[0].item()} elements from its start"
        )

    def assert_untouched(self, what=""):
        """Raises AssertionError if any element, in the view or around it, has changed."""
        changed = int((self._bits != self._before).sum())
        assert not changed, f"{what}: wrote {changed} elements into {self.describe()}"

    def describe(self):
        return f"{tuple(self.view.shape)} with strides {self.view.stride()}"


class nan_filled_empty:
    """Within it, torch.empty and its kin come filled with NaN (integers: with their maximum)."""

    def __enter__(self):
        self._before = torch.are_deterministic_algorithms_enabled()
        torch.use_deterministic_algorithms(True, warn_only=True)

    def __exit__(self, *_):
        torch.use_deterministic_algorithms(self._before)
