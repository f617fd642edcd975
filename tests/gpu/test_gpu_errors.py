"""Bad input on a GPU: a RuntimeError that says what is wrong, and nothing is written."""

import pytest
import torch
from calls import choosers, kernel_names, kernels_here, layout_of, table
from reference import Guarded, assert_close, operand

hgemm = torch.ops.vitamin.hgemm


def refuses(pattern, a, b, **options):
    """Both forms raise; an output that was given stays as it is, and the next call works."""
    if "out" in options:
        guarded = options.pop("out")
        with pytest.raises(RuntimeError, match=pattern):
            hgemm.out(a, b, out=guarded.view, **options)
        guarded.assert_untouched(pattern)
    else:
        with pytest.raises(RuntimeError, match=pattern):
            hgemm(a, b, **options)
    good = torch.randn(40, 40, dtype=torch.float16, device="cuda")
    assert_close(hgemm(good, good), good, good)


def guard(dtype, device, shape=(64, 80)):
    return Guarded(shape, dtype, device)


@pytest.fixture
def pair(device, dtype):
    return operand(64, 72, dtype, device), operand(72, 80, dtype, device)


def test_mixed_devices(device, dtype, pair):
    a, b = pair
    bias = torch.randn(80, dtype=dtype)
    refuses(r"b is on cpu and a is on cuda:0; wanted the same device", a, b.cpu())
    refuses(r"b is on cuda:0 and a is on cpu", a.cpu(), b)
    refuses(r"bias is on cpu and a is on cuda:0", a, b, bias=bias)
    refuses(r"out is on cpu and a is on cuda:0", a, b, out=Guarded((64, 80), dtype, "cpu"))
    refuses(r"out is on cuda:0 and a is on cpu", a.cpu(), b.cpu(), out=guard(dtype, device))


def test_dtypes(device, dtype, pair):
    a, b = pair
    other = torch.bfloat16 if dtype == torch.float16 else torch.float16
    refuses(r"b is torch\.\w+ and a is torch\.\w+", a, b.to(other))
    refuses(r"a is torch.float32; wanted torch.float16 or torch.bfloat16", a.float(), b.float())
    refuses(r"bias is torch.float32", a, b, bias=torch.ones(80, device=device))
    refuses(r"out is torch.float32", a, b, out=guard(torch.float32, device))
    refuses(r"out is torch\.", a, b, out=guard(dtype, device), out_dtype=torch.float32)
    refuses(r"out_dtype is torch.float64", a, b, out_dtype=torch.float64)


def test_shapes(device, dtype, pair):
    a, b = pair
    bias = torch.ones(81, dtype=dtype, device=device)
    refuses(r"a has shape \[64, 72\] and b has shape \[64, 72\]", a, a, out=guard(dtype, device))
    refuses(r"bias has shape \[81\]; wanted \[80\]", a, b, bias=bias, out=guard(dtype, device))
    refuses(r"out has shape \[80, 64\]", a, b, out=guard(dtype, device, (80, 64)))
    refuses(r"a has shape .* b has shape", a.expand(2, 64, 72), b.expand(3, 72, 80))


def test_names(device, dtype, pair):
    a, b = pair
    out = guard(dtype, device)
    refuses(r"activation is 'tanh'; wanted none, relu", a, b, activation="tanh", out=out)
    refuses(r"kernel is 'sm70'; wanted one of auto, .*sm80", a, b, kernel="sm70", out=out)


def test_out_overlapping(device, dtype):
    """An input, or itself."""
    x = torch.randn(64, 64, dtype=dtype, device=device)
    y = torch.randn(64, 64, dtype=dtype, device=device)
    before = x.clone()
    for out, a, b in [(x, x, y), (x, y, x), (x.t(), x, y), (x[:, :63], y, x[:, 1:])]:
        with pytest.raises(RuntimeError, match=r"out shares memory with [ab]"):
            hgemm.out(a, b, out=out)
    with pytest.raises(RuntimeError, match="out shares memory with bias"):
        hgemm.out(y, y, bias=x[0], out=x)
    with pytest.raises(RuntimeError, match="out has strides"):
        hgemm.out(y, y, out=x[:1].expand(64, 64))
    assert torch.equal(x, before)


def test_a_named_kernel_says_why_it_refuses(device, dtype):
    """The ladder: one layout, rows of whole 16 bytes. The text has the kernel and the reason."""
    ladder = [name for name, entry in table().items() if entry["family"] == "ladder"]
    for name in set(ladder) & set(kernels_here()):
        of_a, of_b = layout_of(name)
        a = operand(64, 72, dtype, device, layout=of_a)
        b = operand(72, 80, dtype, device, layout=of_b)
        other_b = operand(72, 80, dtype, device, layout="t" if of_b == "n" else "n")
        ragged_b = operand(72, 81, dtype, device, layout=of_b, pad=1)
        for bad_a, bad_b, reason in [
            (a, other_b, "b is (row|column)-major"),
            (operand(64, 72, dtype, device, layout="t"), b, "a is column-major"),
            (a, ragged_b, "rows of b are not 16-byte aligned"),
            (operand(64, 72, dtype, device, offset=2), b, "rows of a are not 16-byte aligned"),
            (operand(64, 72, dtype, device, pad=1), b, "rows of a are not 16-byte aligned"),
        ]:
            out = guard(dtype, device, (64, bad_b.shape[1]))
            refuses(f"kernel '{name}' can't run .*{reason}", bad_a, bad_b, kernel=name, out=out)


def test_sparse_and_quantised(device, dtype, pair):
    a, b = pair
    refuses(r"a has layout torch.sparse_coo", a.to_sparse(), b)
    refuses(r"b has layout torch.sparse_csr", a, b.to_sparse_csr())


def test_kernels_for_other_devices(device, dtype):
    """A tile that does not fit, or a step for another GPU, is refused by name, and never chosen."""
    a = operand(64, 64, dtype, device)
    runs = kernels_here()
    assert set(choosers()) <= set(runs)
    for name in kernel_names():
        b = operand(64, 64, dtype, device, layout=layout_of(name)[1])
        if name in runs:
            hgemm(a, b, kernel=name)
        else:
            reason = f"{name}.*(shared memory|compute capability)"
            refuses(reason, a, b, kernel=name, out=guard(dtype, device, (64, 64)))
