"""opcheck, fake tensors, torch.compile and torch.export."""

import shutil

import pytest
import torch
import torch._inductor.config
from functorch.compile import make_boxed_func
from reference import ACTIVATIONS, Guarded, assert_close, operand
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.testing import CompileCounterWithBackend

import vitamin_hgemm

hgemm = vitamin_hgemm.hgemm


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        yield
    torch._dynamo.reset()


def new(*shape, device, dtype=torch.bfloat16, grad=False):
    return torch.randn(shape, device=device).to(dtype).requires_grad_(grad)


OPCHECK = {
    "matrix": ([4, 5], [5, 6], {}),
    "vectors": ([5], [5], {}),
    "row": ([5], [3, 5, 6], {}),
    "column": ([3, 4, 5], [5], {}),
    "broadcast": ([2, 1, 4, 5], [3, 5, 6], {}),
    "no k": ([4, 0], [0, 6], {"bias": True}),
    "empty": ([0, 5], [5, 6], {}),
    "bias": ([3, 4, 5], [5, 6], {"bias": True}),
    "gelu": ([3, 4, 5], [5, 6], {"bias": True, "activation": "gelu"}),
    "silu": ([4, 5], [5, 6], {"activation": "silu"}),
    "relu": ([4, 5], [5, 6], {"activation": "relu", "bias": True}),
    "fp32": ([4, 5], [5, 6], {"out_dtype": torch.float32}),
}


def opcheck_arguments(a_shape, b_shape, options, device, grad):
    a = new(*a_shape, device=device, grad=grad)
    b = new(*b_shape, device=device, grad=grad)
    options = dict(options)
    if options.pop("bias", False):
        n = b_shape[-1] if len(b_shape) > 1 else 1
        options["bias"] = new(n, device=device, grad=grad)
    return (a, b), options


@pytest.mark.parametrize("case", OPCHECK.values(), ids=OPCHECK)
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
def test_opcheck(case, grad, any_device):
    operands, options = opcheck_arguments(*case, any_device, grad)
    torch.library.opcheck(torch.ops.vitamin.hgemm.default, operands, options)


@pytest.mark.parametrize("name", ["_hgemm", "_hgemm_no_grad", "_hgemm_grad"])
def test_opcheck_of_internal_ops(name, any_device):
    (a, b), options = opcheck_arguments(*OPCHECK["bias"], any_device, False)
    op = getattr(torch.ops.vitamin, name).default
    torch.library.opcheck(op, (a, b, options["bias"]))
    assert torch.equal(op(a, b, options["bias"]), hgemm(a, b, **options))


@pytest.mark.parametrize("strides", [(6, 1), (9, 1), (1, 4)], ids=str)
@pytest.mark.parametrize("out_dtype", [None, torch.float32], ids=["half", "fp32"])
def test_opcheck_of_out(strides, out_dtype, any_device):
    out = torch.empty(54, device=any_device, dtype=out_dtype or torch.bfloat16)
    out = out.zero_().as_strided((4, 6), strides)
    options = dict(bias=new(6, device=any_device), activation="silu", out_dtype=out_dtype, out=out)
    operands = new(4, 5, device=any_device), new(5, 6, device=any_device)
    torch.library.opcheck(torch.ops.vitamin.hgemm.out, operands, options)


def test_opcheck_of_strided_operands(any_device):
    a = operand(4, 5, torch.float16, any_device, layout="t", pad=3, offset=2)
    b = operand(5, 6, torch.float16, any_device, pad=1).as_strided((5, 6), (7, 1))
    torch.library.opcheck(torch.ops.vitamin.hgemm.default, (a, b))


@pytest.mark.parametrize("case", OPCHECK.values(), ids=OPCHECK)
def test_meta_tensors_have_the_shape_of_real_ones(case):
    (a, b), options = opcheck_arguments(*case, "cpu", False)
    real = hgemm(a, b, **options)
    options = {k: v.to("meta") if isinstance(v, torch.Tensor) else v for k, v in options.items()}
    meta = hgemm(a.to("meta"), b.to("meta"), **options)
    assert meta.device.type == "meta"
    assert (meta.shape, meta.dtype, meta.stride()) == (real.shape, real.dtype, real.stride())


BAD = {
    "dtype": (([4, 5], [5, 6]), dict(dtype=torch.float32)),
    "inner": (([4, 5], [6, 5]), {}),
    "inner of a vector": (([5], [6]), {}),
    "batch": (([2, 4, 5], [3, 5, 6]), {}),
    "scalar": (([], [5, 6]), {}),
    "bias": (([4, 5], [5, 6]), dict(bias=[4])),
    "bias rank": (([4, 5], [5, 6]), dict(bias=[1, 6])),
    "activation": (([4, 5], [5, 6]), dict(activation="tanh")),
    "out_dtype": (([4, 5], [5, 6]), dict(out_dtype=torch.float64)),
    "out shape": (([4, 5], [5, 6]), dict(out=[6, 4])),
    "out rank": (([4, 5], [5, 6]), dict(out=[24])),
    "out dtype": (([4, 5], [5, 6]), dict(out=[4, 6], out_dtype=torch.float32)),
}


@pytest.mark.parametrize("shapes, options", BAD.values(), ids=BAD)
@pytest.mark.parametrize("grad_mode", [False, True], ids=["no_grad", "grad"])
def test_meta_tensors_give_the_errors_of_real_ones(shapes, options, grad_mode):
    texts = []
    for device in ("cpu", "meta"):
        made = dict(options)
        dtype = made.pop("dtype", torch.bfloat16)
        for name in ("bias", "out"):
            if name in made:
                made[name] = new(*made[name], device=device)
        operands = [new(*shape, device=device, dtype=dtype) for shape in shapes]
        with torch.set_grad_enabled(grad_mode), pytest.raises(RuntimeError) as error:
            hgemm(*operands, **made)
        texts.append(str(error.value))
    assert texts[0].startswith("hgemm: ")
    assert texts[0] == texts[1]


needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None, reason="TorchInductor needs a C++ compiler on the CPU"
)


@pytest.fixture(params=["aot_eager", pytest.param("inductor", marks=needs_compiler)])
def backend(request):
    return request.param


def block(x, w1, b1, w2):
    """Two products with work around them that a compiler can fuse."""
    hidden = hgemm(x * 2, w1.mT, bias=b1, activation="gelu_tanh")
    return hgemm(hidden + 1, w2.mT, out_dtype=torch.float32).tanh()


def block_arguments(rows, device, grad=False):
    return (
        new(*rows, 16, device=device, grad=grad),
        new(24, 16, device=device, grad=grad),
        new(24, device=device, grad=grad),
        new(8, 24, device=device, grad=grad),
    )


def assert_same(got, want):
    torch.testing.assert_close(got, want, rtol=2e-2, atol=2e-2)


def test_compiled_forward(backend, any_device):
    arguments = block_arguments([10], any_device)
    compiled = torch.compile(block, fullgraph=True, backend=backend)
    for context in (torch.inference_mode, torch.no_grad, torch.enable_grad):
        with context():
            assert_same(compiled(*arguments), block(*arguments))


def test_compiled_backward(backend, any_device):
    arguments = block_arguments([3, 10], any_device, grad=True)
    out = torch.compile(block, fullgraph=True, backend=backend)(*arguments)
    want = block(*arguments)
    grad = torch.randn_like(want)
    assert_same(out, want)
    got_grads = torch.autograd.grad(out, arguments, grad)
    for got, expected in zip(got_grads, torch.autograd.grad(want, arguments, grad), strict=True):
        torch.testing.assert_close(got, expected, rtol=5e-2, atol=5e-2)


def test_dynamic_shapes_compile_once(any_device):
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(block, fullgraph=True, backend=counter, dynamic=True)
    for rows in (5, 7, 12, 33):
        arguments = block_arguments([rows], any_device, grad=True)
        out = compiled(*arguments)
        assert_same(out, block(*arguments))
        out.sum().backward()
        assert all(x.grad is not None for x in arguments)
    assert counter.frame_count == 1


def test_every_dimension_dynamic(any_device):
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(
        lambda a, b, bias: hgemm(a, b, bias=bias, activation="silu"),
        fullgraph=True,
        backend=counter,
        dynamic=True,
    )
    for batch, m, n, k in [(2, 3, 4, 5), (3, 7, 11, 9), (5, 4, 3, 2)]:
        a = new(batch, m, k, device=any_device)
        b = new(batch, k, n, device=any_device)
        bias = new(n, device=any_device)
        assert_close(compiled(a, b, bias), a, b, bias, "silu")
    assert counter.frame_count == 1


@needs_compiler
def test_dynamic_shapes_in_inductor(any_device):
    compiled = torch.compile(block, fullgraph=True, dynamic=True)
    for rows in (5, 12):
        arguments = block_arguments([rows], any_device)
        assert_same(compiled(*arguments), block(*arguments))


@pytest.mark.parametrize("call", [hgemm, torch.ops.vitamin.hgemm.out], ids=["function", "op"])
def test_compiled_out(call, backend, any_device):
    """The caller's memory is written, and nothing around it; the graph goes on with it."""
    a, b = new(6, 8, device=any_device), new(8, 5, device=any_device)

    def function(a, b, out):
        call(a, b, activation="relu", out=out)
        return out + 1

    out = Guarded((6, 5), torch.bfloat16, any_device, offset=2)
    with torch.no_grad():
        result = torch.compile(function, fullgraph=True, backend=backend)(a, b, out.view)
    assert_close(out.view, a, b, activation="relu")
    out.assert_around_untouched()
    assert torch.equal(result, out.view + 1)


def test_compiled_operands_of_pad_mm(backend, any_device):
    """Case 18: a 5-D operand with the strides that padding leaves."""
    base = torch.randn(2 * 6400, device=any_device).to(torch.bfloat16)
    x = base.as_strided((2, 4, 7, 7, 32), (6400, 1600, 224, 32, 1))
    w = new(48, 32, device=any_device)
    compiled = torch.compile(lambda x, w: hgemm(x, w.mT), fullgraph=True, backend=backend)
    with torch.no_grad():
        out = compiled(x, w)
    assert out.shape == (2, 4, 7, 7, 48)
    assert_close(out, x, w.mT)


def test_compiler_keeps_transposed_views(any_device):
    """No copy of a weight stored [N, K] appears in the compiled graph, forward or backward."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return make_boxed_func(graph.forward)

    backend = aot_autograd(fw_compiler=keep)
    x, w = new(6, 16, device=any_device, grad=True), new(8, 16, device=any_device, grad=True)
    compiled = torch.compile(lambda x, w: hgemm(x, w.mT), fullgraph=True, backend=backend)
    compiled(x, w).sum().backward()
    assert len(graphs) == 2
    for graph in graphs:
        names = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
        assert any(name.startswith("vitamin.") for name in names)
        assert not [name for name in names if "clone" in name or "copy" in name]
    assert w.grad.stride() == w.stride()


def test_errors_under_compile(any_device):
    def bad(a, b):
        return hgemm(a, b)

    a, b = new(4, 5, device=any_device), new(6, 7, device=any_device)
    with pytest.raises(Exception, match=r"wanted a's last dimension \(5\) equal to b's second"):
        torch.compile(bad, fullgraph=True, backend="aot_eager")(a, b)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_compiled_activations_differentiate(activation, any_device):
    a, b = new(6, 8, device=any_device, grad=True), new(8, 5, device=any_device, grad=True)

    def function(a, b):
        return hgemm(a, b, activation=activation)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(a, b).float().square().sum(), (a, b))
    want = torch.autograd.grad(function(a, b).float().square().sum(), (a, b))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=2e-2, atol=2e-2)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = vitamin_hgemm.nn.Linear(16, 24, activation="silu", dtype=torch.bfloat16)
        self.down = vitamin_hgemm.nn.Linear(24, 16, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        return x + self.down(self.up(x))


def test_export(any_device):
    model = Model().to(any_device)
    rows = torch.export.Dim("rows", min=2)
    example = new(4, 16, device=any_device)
    program = torch.export.export(model, (example,), dynamic_shapes={"x": {0: rows}})
    names = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
    assert names.count("vitamin.hgemm.default") == 2
    for exported in (program.module(), program.run_decompositions().module()):
        for n in (4, 9):
            x = new(n, 16, device=any_device)
            assert_same(exported(x), model(x))


def test_exported_model_trains(any_device):
    model = Model().to(any_device)
    x = new(4, 16, device=any_device)
    exported = torch.export.export(model, (x,)).run_decompositions().module()
    exported(x).sum().backward()
    model(x).sum().backward()
    want = {name: parameter.grad for name, parameter in model.named_parameters()}
    for name, parameter in exported.named_parameters():
        assert_same(parameter.grad, want[name])


def test_export_saves_and_loads(any_device, tmp_path):
    model, x = Model().to(any_device), new(4, 16, device=any_device)
    with torch.no_grad():
        torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
        loaded = torch.export.load(tmp_path / "model.pt2").module()
        assert_same(loaded(x), model(x))


@needs_compiler
def test_ahead_of_time_inductor(tmp_path):
    """Compiled to a package that is loaded and run, with a dynamic batch."""
    model, x = Model(), new(4, 16, device="cpu")
    rows = torch.export.Dim("rows", min=2)
    with torch.no_grad():
        program = torch.export.export(model, (x,), dynamic_shapes={"x": {0: rows}})
        path = str(tmp_path / "model.pt2")
        torch._inductor.aoti_compile_and_package(program, package_path=path)
        packaged = torch._inductor.aoti_load_package(path)
        for n in (4, 9):
            x = new(n, 16, device="cpu")
            assert_same(packaged(x), model(x))


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_sizes_that_only_the_run_tells(any_device):
    def function(mask, x, w):
        picked = x[mask.nonzero().squeeze(1)]
        return hgemm(picked, w, activation="relu"), hgemm(w.mT, picked.mT)

    mask = torch.tensor([True, False, True, True], device=any_device)
    x, w = new(4, 16, device=any_device), new(16, 8, device=any_device, grad=True)
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    got, want = compiled(mask, x, w), function(mask, x, w)
    for g, expected in zip(got, want, strict=True):
        assert_same(g, expected)
    got = torch.autograd.grad(sum(y.float().sum() for y in got), w)
    want = torch.autograd.grad(sum(y.float().sum() for y in want), w)
    assert_same(got, want)
