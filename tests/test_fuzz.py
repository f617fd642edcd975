"""Hypothesis over shapes, strides, offsets, batches, epilogues and kernels; outputs guarded."""

import hypothesis
import hypothesis.strategies as st
import torch
from calls import call, choosers, duty, kernel_names, refused
from reference import ACTIVATIONS, Guarded, judge

EXAMPLES = 150

extents = st.one_of(
    st.integers(1, 20),
    st.integers(1, 300),
    st.sampled_from([0, 1, 2, 8, 64, 127, 128, 129, 256]),
)
# How a matrix lies in memory: steps along rows and columns, or a view that repeats elements.
storages = st.one_of(
    st.tuples(st.sampled_from(["rows", "columns"]), st.integers(0, 9), st.integers(1, 3)),
    st.sampled_from([("one row", 0, 1), ("one column", 0, 1), ("windows", 0, 1)]),
)
batches = st.lists(st.integers(1, 3), max_size=3)


def strides_of(storage, batch, rows, cols):
    """Strides and the number of elements that the storage needs."""
    kind, pad, step = storage
    if kind == "rows":
        row, col = cols * step + pad, step
    elif kind == "columns":
        row, col = step, rows * step + pad
    else:
        row, col = {"one row": (0, 1), "one column": (1, 0), "windows": (1, 1)}[kind]
    matrix = 1 + max(rows - 1, 0) * row + max(cols - 1, 0) * col
    strides, size = [row, col], matrix
    for extent in reversed(batch):
        strides.insert(0, size)
        size *= extent
    return strides, size


@st.composite
def matrices(draw, rows, cols, batch, dtype, device):
    """A normally distributed [*batch, rows, cols] view."""
    strides, size = strides_of(draw(storages), batch, rows, cols)
    offset = draw(st.integers(0, 8))
    return (
        torch.randn(size + offset, device=device)
        .to(dtype)
        .as_strided((*batch, rows, cols), strides, offset)
    )


def part_of(draw, batch):
    """A batch shape that broadcasts to `batch`."""
    kept = batch[draw(st.integers(0, len(batch))) :]
    return [draw(st.sampled_from([extent, 1])) for extent in kept]


@st.composite
def products(draw, device):
    """Arguments of hgemm.out, its output guarded."""
    torch.manual_seed(draw(st.integers(0, 2**31)))
    dtype = draw(st.sampled_from([torch.float16, torch.bfloat16]))
    m, n, k = draw(extents), draw(extents), draw(extents)
    batch = draw(batches)
    a = draw(matrices(m, k, part_of(draw, batch), dtype, device))
    b = draw(matrices(k, n, part_of(draw, batch), dtype, device))
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    options = {"activation": draw(st.sampled_from(sorted(ACTIVATIONS)))}
    if draw(st.booleans()):
        options["bias"] = torch.randn(2 * n, device=device).to(dtype)[:: draw(st.integers(1, 2))]
        options["bias"] = options["bias"][-n:] if n else options["bias"][:0]
    if draw(st.booleans()):
        options["out_dtype"] = torch.float32
    kind = options.get("out_dtype", dtype)
    storage = draw(st.tuples(st.sampled_from(["rows", "columns"]), st.integers(0, 9), st.just(1)))
    strides, _ = strides_of(storage, batch, m, n)
    offset = draw(st.integers(0, 7)) * kind.itemsize % 16
    out = Guarded((*batch, m, n), kind, device, strides=strides, offset=offset)
    return draw(st.sampled_from(kernel_names(device))), a, b, out, options


@hypothesis.settings(max_examples=EXAMPLES)
@hypothesis.given(data=st.data())
def test_any_product(any_device, data):
    name, a, b, guarded, options = data.draw(products(any_device))
    out = guarded.view
    what = f"{name} {a.shape}/{a.stride()} @ {b.shape}/{b.stride()} into {guarded.describe()}"
    plain = "bias" not in options and options["activation"] == "none"
    try:
        call(name, a, b, out, **options)
    except RuntimeError as error:
        assert name not in choosers(any_device) and refused(error, name), f"{what}: {error}"
        usual = plain and a.dim() == b.dim() == 2 and out.stride(-1) == 1
        assert not (usual and duty(name, a, b)), f"{what}: {error}"
        guarded.assert_untouched(what)
        return
    verdict = judge(out, a, b, options.get("bias"), options["activation"])
    assert verdict, f"{what}: {verdict}"
    guarded.assert_around_untouched(what)
