"""Bad input: the error names the argument, what came and what is wanted; nothing is written."""

import contextlib
import re

import pytest
import torch
from calls import FAMILIES
from reference import Guarded

import vitamin_hgemm

MODES = {
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "grad": contextlib.nullcontext,
}


@pytest.fixture(params=MODES.values(), ids=MODES)
def mode(request):
    with request.param():
        yield


def half(*shape, device, dtype=torch.bfloat16):
    return torch.randn(shape, device=device).to(dtype)


def expect(text, a, b, **options):
    """The error's text is `text`; the result, if one is passed, stays as it is."""
    wanted = f"^hgemm: {re.escape(text)}$"
    with pytest.raises(RuntimeError, match=wanted):
        torch.ops.vitamin.hgemm(a, b, **options)
    with pytest.raises(RuntimeError, match=wanted):
        vitamin_hgemm.hgemm(a, b, **options)
    if options.get("out_dtype") not in (None, torch.float32):
        return
    out = Guarded((6, 5), options.get("out_dtype") or torch.bfloat16, "cpu")
    with pytest.raises(RuntimeError, match=wanted):
        torch.ops.vitamin.hgemm.out(a, b, out=out.view, **options)
    out.assert_untouched()


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, torch.float64, torch.int8, torch.int64, torch.bool, torch.complex64,
     torch.float8_e4m3fn, torch.uint16],
    ids=str,
)  # fmt: skip
def test_unsupported_dtype(dtype, mode, any_device):
    good, bad = half(6, 6, device=any_device), torch.zeros(6, 6, device=any_device).to(dtype)
    wanted = "wanted torch.float16 or torch.bfloat16"
    expect(f"a is {dtype}; {wanted}", bad, bad)
    expect(f"a is {dtype}; {wanted}", bad, good)
    expect(f"b is {dtype}; {wanted}", good, bad)
    expect(f"bias is {dtype}; {wanted}", good, good, bias=bad[0])


def test_mixed_dtypes(mode, any_device):
    a, b = half(6, 7, device=any_device), half(7, 5, device=any_device)
    wide = torch.float16
    text = "is torch.float16 and a is torch.bfloat16; wanted the same dtype"
    expect(f"b {text}", a, b.to(wide))
    expect(f"bias {text}", a, b, bias=b[0].to(wide))


def test_inner_dimensions(mode, any_device):
    a = half(6, 7, device=any_device)
    expect(
        "a has shape [6, 7] and b has shape [8, 5]; wanted a's last dimension (7) equal to b's "
        "second to last one (8)",
        a,
        half(8, 5, device=any_device),
    )
    expect(
        "a has shape [6, 7] and b has shape [8]; wanted a's last dimension (7) equal to b's only "
        "one (8)",
        a,
        half(8, device=any_device),
    )
    expect(
        "a has shape [7] and b has shape [2, 3, 6, 5]; wanted a's last dimension (7) equal to b's "
        "second to last one (6)",
        a[0],
        half(2, 3, 6, 5, device=any_device),
    )


def test_scalars(mode, any_device):
    matrix, scalar = half(6, 7, device=any_device), half(1, device=any_device)[0]
    expect("a has 0 dimensions; wanted 1 to 63", scalar, matrix)
    expect("b has 0 dimensions; wanted 1 to 63", matrix, scalar)


def test_batches_that_do_not_broadcast(mode, any_device):
    expect(
        "a has shape [2, 3, 6, 7] and b has shape [4, 7, 5]; wanted batch dimensions that "
        "broadcast, but 3 meets 4",
        half(2, 3, 6, 7, device=any_device),
        half(4, 7, 5, device=any_device),
    )


@pytest.mark.parametrize("shape", [(6,), (1,), (0,), (), (1, 5), (6, 5)], ids=str)
def test_bias_shape(shape, mode, any_device):
    text = f"bias has shape {list(shape)}; wanted [5], one value for each column of the result"
    a, b = half(6, 7, device=any_device), half(7, 5, device=any_device)
    expect(text, a, b, bias=half(*shape, device=any_device))


def test_unknown_activation(mode, any_device):
    a, b = half(6, 7, device=any_device), half(7, 5, device=any_device)
    text = "activation is 'tanh'; wanted none, relu, gelu, gelu_tanh or silu"
    expect(text, a, b, activation="tanh")


def test_unknown_kernel(mode, any_device):
    a, b = half(6, 7, device=any_device), half(7, 5, device=any_device)
    for name in ("sm70", "", "AUTO"):
        with pytest.raises(RuntimeError, match=f"^hgemm: kernel is '{name}'; wanted one of auto, "):
            vitamin_hgemm.hgemm(a, b, kernel=name)


def test_unknown_kernel_lists_every_kernel(mode, any_device):
    a = half(6, 6, device=any_device)
    with pytest.raises(RuntimeError) as error:
        vitamin_hgemm.hgemm(a, a, kernel="fastest")
    listed = str(error.value).split("wanted one of ")[1].split(", ")
    assert {"auto", *FAMILIES, *(entry["name"] for entry in vitamin_hgemm.kernels())} == set(listed)


def test_named_kernel_on_the_cpu(mode):
    a, b = half(6, 7, device="cpu"), half(7, 5, device="cpu")
    for name in (*FAMILIES, "sm90_128x256x64"):
        text = f"kernel '{name}' needs CUDA tensors and a is on cpu; wanted kernel='auto' there"
        expect(text, a, b, kernel=name)


@pytest.mark.parametrize("out_dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_unsupported_out_dtype(out_dtype, mode, any_device):
    a, b = half(6, 7, device=any_device), half(7, 5, device=any_device)
    expect(f"out_dtype is {out_dtype}; wanted None or torch.float32", a, b, out_dtype=out_dtype)


def test_mixed_devices(mode):
    a, b = half(6, 7, device="cpu"), half(7, 5, device="meta")
    text = "is on meta and a is on cpu; wanted the same device"
    with pytest.raises(RuntimeError, match=f"b {text}"):
        vitamin_hgemm.hgemm(a, b)
    with pytest.raises(RuntimeError, match=f"bias {text}"):
        vitamin_hgemm.hgemm(a, a.mT, bias=b[0, :1].expand(6))
    with pytest.raises(RuntimeError, match=f"out {text}"):
        vitamin_hgemm.hgemm(a, a.mT, out=half(6, 6, device="meta"))


@pytest.mark.gpu
def test_mixed_cpu_and_cuda(mode, device):
    a, b = half(6, 7, device="cpu"), half(7, 5, device="cpu")
    with pytest.raises(RuntimeError, match=r"^hgemm: b is on cpu and a is on cuda:0; wanted the"):
        vitamin_hgemm.hgemm(a.to(device), b)
    with pytest.raises(RuntimeError, match=r"^hgemm: b is on cuda:0 and a is on cpu; wanted the"):
        vitamin_hgemm.hgemm(a, b.to(device))
    with pytest.raises(RuntimeError, match=r"^hgemm: bias is on cpu and a is on cuda:0; wanted"):
        vitamin_hgemm.hgemm(a.to(device), b.to(device), bias=b[0])
    with pytest.raises(RuntimeError, match=r"^hgemm: out is on cpu and a is on cuda:0; wanted the"):
        vitamin_hgemm.hgemm(a.to(device), b.to(device), out=half(6, 5, device="cpu"))


def refuse_out(text, a, b, out, **options):
    before = out.clone()
    for call in (torch.ops.vitamin.hgemm.out, vitamin_hgemm.hgemm):
        with pytest.raises(RuntimeError, match=f"^hgemm: {re.escape(text)}$"):
            call(a, b, out=out, **options)
    assert torch.equal(out, before)


def test_out_of_wrong_shape(mode, any_device):
    a, b = half(6, 7, device=any_device), half(7, 5, device=any_device)
    for shape in [(5, 6), (6, 6), (1, 6, 5), (30,), (0,)]:
        out = half(*shape, device=any_device)
        refuse_out(f"out has shape {list(shape)}; wanted [6, 5]", a, b, out)


def test_out_of_wrong_dtype(mode, any_device):
    a, b = half(6, 7, device=any_device), half(7, 5, device=any_device)
    out = half(6, 5, device=any_device)
    fp32, bf16 = torch.float32, torch.bfloat16
    refuse_out(f"out is {fp32}; wanted {bf16} (a's dtype)", a, b, out.float())
    refuse_out(f"out is {bf16}; wanted {fp32} (out_dtype)", a, b, out, out_dtype=fp32)
    refuse_out(f"out is torch.float16; wanted {bf16} (a's dtype)", a, b, out.half())


@pytest.mark.parametrize("which", ["a", "b", "bias"])
def test_out_that_overlaps_an_input(which, mode, any_device):
    buffer = half(200, device=any_device)
    inputs = {
        "a": half(6, 7, device=any_device),
        "b": half(7, 5, device=any_device),
        "bias": half(5, device=any_device),
    }
    shape = inputs[which].shape
    inputs[which] = buffer[20 : 20 + shape.numel()].view(shape)
    text = f"out shares memory with {which}; wanted an out that overlaps no input"
    for start in (20 - 29, 20, 20 + shape.numel() - 1):
        out = buffer.as_strided((6, 5), (5, 1), max(start, 0))
        before = buffer.clone()
        refuse_out(text, inputs["a"], inputs["b"], out, bias=inputs["bias"])
        assert torch.equal(buffer, before)


def test_out_that_is_an_input(mode, any_device):
    a = half(6, 6, device=any_device)
    text = "out shares memory with a; wanted an out that overlaps no input"
    refuse_out(text, a, half(6, 6, device=any_device), a)
    refuse_out(text, a, half(6, 6, device=any_device), a.mT)


@pytest.mark.parametrize("strides", [(0, 1), (1, 1), (5, 0), (2, 1)], ids=str)
def test_out_that_overlaps_itself(strides, mode, any_device):
    out = half(64, device=any_device).as_strided((6, 5), strides)
    text = (
        f"out has strides {list(strides)}, by which its elements overlap each other; wanted one "
        "address for each element"
    )
    refuse_out(text, half(6, 7, device=any_device), half(7, 5, device=any_device), out)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc], ids=str)
def test_sparse_tensors(layout, mode, any_device):
    dense = half(6, 6, device=any_device)
    sparse = dense.float().to_sparse(layout=layout).to(torch.bfloat16)
    wanted = rf"has layout {layout}; wanted a dense tensor \(torch\.strided\)$"
    with pytest.raises(RuntimeError, match=f"^hgemm: a {wanted}"):
        vitamin_hgemm.hgemm(sparse, dense)
    with pytest.raises(RuntimeError, match=f"^hgemm: b {wanted}"):
        vitamin_hgemm.hgemm(dense, sparse)


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_quantised_tensors(mode):
    dense = half(6, 6, device="cpu")
    quantised = torch.quantize_per_tensor(dense.float(), 0.1, 0, torch.qint8)
    for operands in ((quantised, dense), (dense, quantised)):
        with pytest.raises(RuntimeError, match=r"is torch\.qint8 \(quantised\); wanted torch\.fl"):
            vitamin_hgemm.hgemm(*operands)


def test_operands_that_are_none(mode, any_device):
    a = half(6, 6, device=any_device)
    expect("a is None; wanted a tensor", None, a)
    expect("b is None; wanted a tensor", a, None)


@pytest.mark.parametrize("bad", [3, 1.5, [[1.0]], "a"], ids=repr)
def test_operands_that_are_no_tensors(bad, mode):
    a = half(6, 6, device="cpu")
    for name, operands in {"a": (bad, a), "b": (a, bad)}.items():
        with pytest.raises((RuntimeError, TypeError), match=f"'{name}'"):
            vitamin_hgemm.hgemm(*operands)


@pytest.mark.parametrize("requires_grad", ["a", "b", "bias", "out"])
def test_out_with_gradients(requires_grad, any_device):
    tensors = {
        "a": half(6, 7, device=any_device),
        "b": half(7, 5, device=any_device),
        "bias": half(5, device=any_device),
        "out": half(6, 5, device=any_device),
    }
    before = tensors["out"].clone()
    tensors[requires_grad].requires_grad_()
    a, b = tensors.pop("a"), tensors.pop("b")
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        vitamin_hgemm.hgemm(a, b, **tensors)
    with pytest.raises(RuntimeError):
        torch.ops.vitamin.hgemm.out(a, b, **tensors)
    assert torch.equal(tensors["out"], before)
    with torch.no_grad():
        vitamin_hgemm.hgemm(a, b, **tensors)
        assert torch.equal(tensors["out"], vitamin_hgemm.hgemm(a, b, bias=tensors["bias"]))


def test_an_error_leaves_no_trace(mode, any_device):
    """The next call on the thread works as if nothing had happened."""
    a, b = half(6, 7, device=any_device), half(7, 5, device=any_device)
    good = vitamin_hgemm.hgemm(a, b)
    for _ in range(3):
        with pytest.raises(RuntimeError):
            vitamin_hgemm.hgemm(a, a)
        assert torch.equal(vitamin_hgemm.hgemm(a, b), good)
