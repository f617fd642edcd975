"""vitamin_hgemm.nn.Linear and replace_linears, beside torch.nn."""

import copy

import pytest
import torch
from reference import ACTIVATIONS, assert_close

import vitamin_hgemm
from vitamin_hgemm.nn import Linear


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(7,), (5, 7), (2, 3, 5, 7), (0, 7)], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_forward(bias, shape, activation, dtype, any_device):
    layer = Linear(7, 11, bias, activation, any_device, dtype)
    x = torch.randn(shape, device=any_device).to(dtype)
    y = layer(x)
    assert y.shape == (*shape[:-1], 11) and y.dtype == dtype
    bias = None if layer.bias is None else layer.bias.detach()
    assert_close(y.detach(), x, layer.weight.detach().mT, bias, activation)


@pytest.mark.parametrize("bias", [True, False])
def test_state_dict_is_that_of_torch(bias, dtype, any_device):
    mine = Linear(7, 11, bias, "relu", any_device, dtype)
    other = torch.nn.Linear(7, 11, bias, any_device, dtype)
    assert mine.state_dict().keys() == other.state_dict().keys()
    other.load_state_dict(mine.state_dict())
    again = Linear(7, 11, bias, "relu", any_device, dtype)
    again.load_state_dict(other.state_dict())
    x = torch.randn(3, 7, device=any_device).to(dtype)
    assert torch.equal(again(x), mine(x))
    torch.testing.assert_close(mine(x), other(x).relu(), rtol=2e-2, atol=2e-2)


def test_initialisation_is_that_of_torch():
    torch.manual_seed(3)
    mine = Linear(64, 32, dtype=torch.bfloat16)
    torch.manual_seed(3)
    other = torch.nn.Linear(64, 32, dtype=torch.bfloat16)
    assert torch.equal(mine.weight, other.weight) and torch.equal(mine.bias, other.bias)


def test_gradients_are_those_of_torch(dtype, any_device):
    mine = Linear(16, 8, device=any_device, dtype=dtype)
    other = torch.nn.Linear(16, 8, device=any_device, dtype=dtype)
    other.load_state_dict(mine.state_dict())
    x = torch.randn(4, 5, 16, device=any_device).to(dtype)
    for layer in (mine, other):
        layer(x).square().float().mean().backward()
    for name in ("weight", "bias"):
        got, want = getattr(mine, name).grad, getattr(other, name).grad
        assert got.is_contiguous()
        torch.testing.assert_close(got, want, rtol=5e-2, atol=1e-3)


def test_fp32_needs_autocast(any_device):
    layer = Linear(7, 11, device=any_device)
    x = torch.randn(5, 7, device=any_device)
    with pytest.raises(RuntimeError, match=r"hgemm: a is torch\.float32; wanted torch\.float16"):
        layer(x)
    with torch.autocast(any_device.type, dtype=torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    assert layer.weight.grad.dtype == torch.float32
    assert layer.to(torch.float16)(x.half()).dtype == torch.float16


def test_repr():
    assert repr(Linear(7, 11)) == "Linear(in_features=7, out_features=11, bias=True)"
    text = repr(Linear(7, 11, bias=False, activation="silu", kernel="sm80"))
    assert (
        text == "Linear(in_features=7, out_features=11, bias=False, activation=silu, kernel=sm80)"
    )


def test_unknown_activation():
    for make in (Linear, lambda *args, **kw: Linear.from_linear(torch.nn.Linear(*args), **kw)):
        with pytest.raises(ValueError, match="'swish'; wanted one of none, relu, gelu, gelu_tanh"):
            make(7, 11, activation="swish")


def test_unknown_kernel():
    linear = torch.nn.Linear(7, 11, dtype=torch.bfloat16)
    wanted = "kernel is 'warp9'; wanted one of auto, sm90, sm80, cublas"
    for make in (
        lambda **kw: Linear(7, 11, **kw),
        lambda **kw: Linear.from_linear(linear, **kw),
        lambda **kw: vitamin_hgemm.replace_linears(linear, **kw),
    ):
        with pytest.raises(ValueError, match=wanted):
            make(kernel="warp9")
    assert type(linear) is torch.nn.Linear


@pytest.mark.gpu
def test_kernel_is_used(device):
    # The ladder takes no column-major operand, which weight.mT is.
    layer = Linear(64, 64, device=device, dtype=torch.bfloat16, kernel="sm80_naive")
    with pytest.raises(RuntimeError, match="kernel 'sm80_naive' can't run this problem"):
        layer(torch.randn(64, 64, device=device, dtype=torch.bfloat16))


@pytest.mark.parametrize("bias", [True, False])
def test_from_linear_shares_parameters(bias, dtype):
    linear = torch.nn.Linear(7, 11, bias, dtype=dtype).eval()
    mine = Linear.from_linear(linear, "gelu")
    assert mine.weight is linear.weight and mine.bias is linear.bias
    assert not mine.training and mine.activation == "gelu"
    x = torch.randn(3, 7, dtype=dtype)
    torch.testing.assert_close(mine(x), torch.nn.functional.gelu(linear(x)), rtol=2e-2, atol=2e-2)


def test_from_linear_keeps_what_is_not_given():
    linear = Linear(7, 11, activation="silu", kernel="sm80")
    for options, want in [
        ({}, ("silu", "sm80")),
        (dict(activation="relu"), ("relu", "sm80")),
        (dict(activation="none", kernel="auto"), ("none", "auto")),
    ]:
        mine = Linear.from_linear(linear, **options)
        assert (mine.activation, mine.kernel) == want
    plain = Linear.from_linear(torch.nn.Linear(7, 11))
    assert (plain.activation, plain.kernel) == ("none", "auto")


def test_from_linear_refuses_others():
    with pytest.raises(TypeError, match=r"is a Conv1d; wanted a torch\.nn\.Linear"):
        Linear.from_linear(torch.nn.Conv1d(1, 1, 1))
    normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(7, 11))
    with pytest.raises(TypeError, match="computed weight"):
        Linear.from_linear(normed)


def test_copies_and_pickles(tmp_path):
    layer = Linear(7, 11, activation="relu", dtype=torch.bfloat16)
    torch.save(layer, tmp_path / "layer.pt")
    x = torch.randn(3, 7).bfloat16()
    for other in (copy.deepcopy(layer), torch.load(tmp_path / "layer.pt", weights_only=False)):
        assert other.activation == "relu" and other.weight is not layer.weight
        assert torch.equal(other(x), layer(x))


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)
        )

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        attended = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.mlp(self.norm(x))


class Transformer(torch.nn.Module):
    """Two blocks between an embedding and a head that are one weight."""

    def __init__(self, vocabulary=31, width=16):
        super().__init__()
        self.embed = torch.nn.Embedding(vocabulary, width)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(2))
        self.head = torch.nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


NAMES = [f"blocks.{i}.{name}" for i in (0, 1) for name in ("qkv", "out", "mlp.0", "mlp.2")]


def test_replace_linears_in_a_transformer(dtype, any_device):
    model = Transformer().to(any_device, dtype)
    reference = copy.deepcopy(model)
    parameters = dict(model.named_parameters())
    assert vitamin_hgemm.replace_linears(model) == [*NAMES, "head"]
    assert all(type(model.get_submodule(name)) is Linear for name in [*NAMES, "head"])
    assert all(p is parameters[name] for name, p in model.named_parameters())
    assert model.head.weight is model.embed.weight

    tokens = torch.randint(0, 31, (3, 10), device=any_device)
    out, want = model(tokens), reference(tokens)
    torch.testing.assert_close(out, want, rtol=5e-2, atol=8e-2)
    for m in (model, reference):
        torch.nn.functional.cross_entropy(m(tokens).float().mT, tokens).backward()
    for (name, p), q in zip(model.named_parameters(), reference.parameters(), strict=True):
        scale = q.grad.abs().max().item()
        torch.testing.assert_close(p.grad, q.grad, rtol=0.1, atol=0.1 * scale, msg=name)
    assert vitamin_hgemm.replace_linears(model) == []


def test_replaced_model_saves_and_loads_as_before(dtype):
    model, other = Transformer().to(dtype), Transformer().to(dtype)
    vitamin_hgemm.replace_linears(model)
    other.load_state_dict(model.state_dict())
    model.load_state_dict(other.state_dict())
    tokens = torch.randint(0, 31, (2, 4))
    torch.testing.assert_close(model(tokens), other(tokens), rtol=5e-2, atol=8e-2)


def test_filter():
    model = Transformer().bfloat16()
    seen = []

    def narrow(name, module):
        seen.append((name, module))
        return module.out_features == 16

    changed = vitamin_hgemm.replace_linears(model, filter=narrow, kernel="sm80")
    assert changed == [name for name in NAMES if name.endswith(("out", "mlp.2"))]
    assert seen == [(name, model.get_submodule(name)) for name in [*NAMES, "head"]]
    assert type(model.head) is torch.nn.Linear
    assert model.blocks[0].out.kernel == "sm80"


def test_what_stays_as_it_is():
    class Own(torch.nn.Linear):
        pass

    def linear():
        return torch.nn.Linear(4, 4, dtype=torch.bfloat16)

    patched = linear()
    patched.forward = lambda x: x
    mixed = linear()
    mixed.bias.data = mixed.bias.data.float()
    model = torch.nn.ModuleDict(
        {
            "fp32": torch.nn.Linear(4, 4),
            "fp64": torch.nn.Linear(4, 4, dtype=torch.float64),
            "own": Own(4, 4, dtype=torch.bfloat16),
            "parametrised": torch.nn.utils.parametrizations.weight_norm(linear()),
            "patched": patched,
            "mixed": mixed,
            "bilinear": torch.nn.Bilinear(4, 4, 4, dtype=torch.bfloat16),
            "attention": torch.nn.MultiheadAttention(4, 2, dtype=torch.bfloat16),
            "plain": linear(),
        }
    )
    kinds = {name: type(module) for name, module in model.named_modules()}
    assert vitamin_hgemm.replace_linears(model) == ["plain"]
    kinds["plain"] = Linear
    assert kinds == {name: type(module) for name, module in model.named_modules()}


def test_hooks_modes_and_references_are_kept():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, dtype=torch.bfloat16)).eval()
    linear, calls = model[0], []
    linear.train()
    handle = linear.register_forward_hook(lambda *_: calls.append("forward"))
    linear.register_forward_pre_hook(lambda *_: calls.append("before"))
    linear.note = "kept"
    vitamin_hgemm.replace_linears(model)
    assert model[0] is linear and linear.training and linear.note == "kept"
    x = torch.randn(2, 4).bfloat16()
    model(x)
    assert calls == ["before", "forward"]
    handle.remove()
    model(x)
    assert calls == ["before", "forward", "before"]


def test_module_under_two_names():
    shared = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
    model = torch.nn.ModuleDict({"a": shared, "b": shared})
    assert vitamin_hgemm.replace_linears(model) == ["a", "b"]
    assert model["a"] is model["b"] is shared and type(shared) is Linear


def test_model_that_is_a_linear():
    linear = torch.nn.Linear(4, 4, dtype=torch.bfloat16)
    assert vitamin_hgemm.replace_linears(linear) == [""]
    assert type(linear) is Linear


def test_frozen_and_materialised_weights():
    lazy = torch.nn.Sequential(torch.nn.LazyLinear(4, dtype=torch.bfloat16))
    assert vitamin_hgemm.replace_linears(lazy) == []
    x = torch.randn(2, 3).bfloat16()
    lazy(x)
    assert vitamin_hgemm.replace_linears(lazy) == ["0"]
    lazy[0].weight.requires_grad_(False)
    lazy(x).sum().backward()
    assert lazy[0].weight.grad is None and lazy[0].bias.grad is not None


@pytest.mark.parametrize("enabled", [True, False], ids=["autocast", "plain"])
def test_compiled(enabled, any_device):
    model = Transformer().to(any_device, torch.bfloat16)
    vitamin_hgemm.replace_linears(model)
    tokens = torch.randint(0, 31, (2, 6), device=any_device)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.autocast(any_device.type, torch.bfloat16, enabled=enabled):
        torch.testing.assert_close(compiled(tokens), model(tokens), rtol=5e-2, atol=5e-2)
