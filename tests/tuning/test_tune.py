"""tuning.tune() and its command without a GPU: a stand-in for the course."""

import json
import math
import sys
import types

import pytest
import torch
from stand_in import GPU, key_of, plan, quiet_load, tune, way_of, ways_of

import vitamin_hgemm
from vitamin_hgemm import _overrides, _race, cli, tuning
from vitamin_hgemm._overrides import Way


def test_the_fastest_is_applied_and_kept(fake_gpu, tmp_path):
    model = plan()
    way = ways_of(model)[4]
    fake_gpu.us_of = {way: 20.0, way_of(model): 25.0}
    path = tmp_path / "folder" / "tuning.json"
    (found,) = tune(path)
    assert (found.kernel, found.splits, found.us) == (way.kernel, way.splits, 20.0)
    assert (found.model_kernel, found.model_us, found.speedup) == (model.kernel, 25.0, 1.25)
    assert found.problem in str(found) and "1.25 x the model's" in str(found)
    assert (plan().override, way_of(plan())) == ("tuned", way)
    content = json.loads(path.read_text())
    assert {name: content[name] for name in ("format", "version", "gpu")} == {
        "format": 1, "version": vitamin_hgemm.__version__, "gpu": GPU,
    }  # fmt: skip
    (kept,) = content["entries"]
    assert kept == {
        "m": 320, "n": 4096, "k": 4096, "batch": 1, "a_batches": 1, "b_batches": 1,
        "dtype": "bf16", "out_f32": False, "a_layout": "row", "b_layout": "col", "c_layout": "row",
        "a_align": 64, "b_align": 64, "c_align": 16,
        "kernel": way.kernel, "splits": way.splits, "us": 20.0, "model_us": 25.0,
    }  # fmt: skip
    tuning.clear()
    assert plan() == model
    assert quiet_load(path) == 1
    assert way_of(plan()) == way


def test_every_kernel_and_the_best_predictions_are_timed(fake_gpu, tmp_path):
    (found,) = tune(tmp_path / "t.json")
    ways, timed = ways_of(plan()), set(fake_gpu.made[0].samples)
    assert set(ways[:8]) <= timed < set(ways)
    assert {way.kernel for way in timed} == {way.kernel for way in ways}
    assert found.timed == len(timed)


def test_what_auto_takes_now_is_timed_too():
    """A built-in choice that is not among the best predictions can't be lost unseen."""
    now = plan((64, 2112, 7168))
    assert now.override == "built-in"
    assert Way(now.kernel, now.splits) in tuning._ways_to_time(now)


def test_hopeless_ways_are_sampled_less(fake_gpu, tmp_path):
    ways = ways_of(plan())
    fake_gpu.us_of = {ways[0]: 10.0, ways[1]: 12.0, ways[2]: 13.0}
    tune(tmp_path / "t.json")
    samples = fake_gpu.made[0].samples
    assert samples[ways[0]] == samples[ways[1]] == 2 + _race.ROUNDS
    assert samples[ways[2]] == samples[ways[3]] == 2


def test_the_models_choice_stays_within_the_noise(fake_gpu, tmp_path):
    model, other = ways_of(plan())[:2]
    for us, wanted in ((10.09, model), (10.2, other)):
        fake_gpu.us_of = {model: us, other: 10.0}
        (found,) = tune(tmp_path / "t.json")
        assert Way(found.kernel, found.splits) == wanted
        assert way_of(plan()) == wanted and plan().override == "tuned"
    assert "as the model has it" not in str(found)


def test_wrong_and_refusing_kernels_never_win(fake_gpu, tmp_path):
    model, other, third = list(dict.fromkeys(way.kernel for way in ways_of(plan())))[:3]
    us = {model: 1.0, other: 1.0, third: 5.0}
    fake_gpu.us_of = {way: us[way.kernel] for way in ways_of(plan()) if way.kernel in us}
    fake_gpu.errors, fake_gpu.refusals = {model: float("inf")}, {other: "out of memory"}
    with pytest.warns(UserWarning, match=f"{model}.* is wrong at 320 x 4096 x 4096 nt bf16"):
        (found,) = tune(tmp_path / "t.json")
    assert found.kernel == third
    assert found.model_kernel == model and found.model_us is None and found.speedup == 1
    assert "not timed" in str(found)
    (kept,) = json.loads((tmp_path / "t.json").read_text())["entries"]
    assert kept["kernel"] == third and "model_us" not in kept


def test_nan_is_wrong():
    course = types.SimpleNamespace(capture=lambda: 0, error=lambda _: float("nan"), us=lambda _: 1)
    outcome = _race.race(course, [Way("x", 1)], lambda way: None)
    assert not outcome.us and set(outcome.wrong) == {Way("x", 1)}


def test_nothing_that_runs_leaves_all_as_it_was(fake_gpu, tmp_path):
    earlier = ways_of(plan())[2]
    _overrides.put(GPU, key_of(), earlier)
    fake_gpu.refusals = dict.fromkeys((way.kernel for way in ways_of(plan())), "no CUDA here")
    path = tmp_path / "t.json"
    with pytest.raises(RuntimeError, match=r"none of .* ways to run 320 .*: no CUDA here"):
        tune(path)
    assert way_of(plan()) == earlier and not path.exists()


def test_a_lost_gpu_and_an_interrupt_end_it(fake_gpu, tmp_path, monkeypatch):
    model = plan()
    for error in (torch.AcceleratorError("illegal address"), KeyboardInterrupt()):

        def fail(self, error=error):
            raise error

        monkeypatch.setattr(fake_gpu, "capture", fail)
        with pytest.raises(type(error)):
            tune(tmp_path / "t.json")
        assert plan() == model


def test_what_was_found_before_an_interrupt_is_kept(fake_gpu, tmp_path, monkeypatch):
    capture = fake_gpu.capture

    def interrupted(self):
        if self.extents == (64, 64, 64):
            raise KeyboardInterrupt
        return capture(self)

    monkeypatch.setattr(fake_gpu, "capture", interrupted)
    path = tmp_path / "t.json"
    with pytest.raises(KeyboardInterrupt):
        tune(path, ["320x4096x4096:nt", (64, 64, 64)])
    assert len(json.loads(path.read_text())["entries"]) == 1


def test_shapes_in_all_their_forms(fake_gpu, tmp_path):
    shapes = [(64, 72, 80), (3, 64, 72, 80), "64x72x80", "3x64x72x80:TN"]
    found = tune(tmp_path / "t.json", shapes, layout="nt", dtype=torch.float16,
                 out_dtype=torch.float32)  # fmt: skip
    assert [one.problem for one in found] == [
        "64 x 72 x 80 nt fp16, out fp32", "3 x 64 x 72 x 80 nt fp16, out fp32",
        "64 x 72 x 80 nt fp16, out fp32", "3 x 64 x 72 x 80 tn fp16, out fp32",
    ]  # fmt: skip
    assert len(json.loads((tmp_path / "t.json").read_text())["entries"]) == 3


@pytest.mark.parametrize(
    ("shapes", "options", "text"),
    [
        (["64x64"], {}, "shape is '64x64'; wanted MxNxK"),
        (["64x64x0"], {}, "shape is '64x64x0'; wanted extents of 1 or more"),
        (["64x64x64:nx"], {}, "shape is '64x64x64:nx'"),
        ([(64, 64)], {}, r"shape is \(64, 64\); wanted \(m, n, k\)"),
        ([(64, 64, 0)], {}, "wanted integers of 1 or more"),
        ([(64, 64, 6.4)], {}, "wanted integers of 1 or more"),
        ([(64, 64, 64)], dict(layout="xx"), "layout is 'xx'; wanted nn, nt, tn or tt"),
        ([(64, 64, 64)], dict(dtype=torch.float32), "dtype is torch.float32"),
        ([(64, 64, 64)], dict(out_dtype=torch.float16), "out_dtype is torch.float16"),
        (["64x64x64", (2**31, 2**31, 2**31)], {}, "a takes .* bytes"),
    ],
    ids=str,
)
def test_unusable_arguments(fake_gpu, tmp_path, shapes, options, text):
    with pytest.raises(ValueError, match=text):
        tune(tmp_path / "t.json", shapes, **options)
    assert not fake_gpu.made and not list(tmp_path.iterdir())


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu(tmp_path):
    for call in (lambda: tune(tmp_path / "t.json"), tuning.load):
        with pytest.raises(RuntimeError, match="tuning needs a CUDA device, and torch sees none"):
            call()


def test_devices_that_are_none(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for device in ("H200", "cpu", 2.5):
        with pytest.raises(ValueError, match=f"device is {device!r}; wanted a CUDA device"):
            tune(tmp_path / "t.json", device=device)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_errors_are_measured_against_the_bound(dtype, monkeypatch):
    monkeypatch.setattr(_race, "CHECKED_ELEMENTS", 100)
    half = torch.float16 if dtype == torch.float16 else torch.bfloat16
    a, b = torch.randn(2, 33, 40, dtype=half), torch.randn(2, 40, 24, dtype=half)
    out = (a.double() @ b.double()).to(dtype)
    assert _race.worst_error(a, b, out) <= 1
    right = out[1, 32, 7].item()
    wrong = right + math.copysign(0.1 + 0.05 * abs(right), right)
    for value in (float("nan"), float("inf"), wrong):
        bad = out.clone()
        bad[1, 32, 7] = value
        assert _race.worst_error(a, b, bad) > 1


# Progress.


def test_progress_in_plain_lines(fake_gpu, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    tuning.tune(["64x64x64:nt", (2, 8, 8, 8)], path=tmp_path / "t.json")
    captured = capsys.readouterr()
    assert captured.err == "[1/2] 1 x 64 x 64 x 64 nt\n[2/2] 2 x 8 x 8 x 8 nn\n"
    assert not captured.out
    tune(tmp_path / "t.json")
    assert capsys.readouterr().err == ""


def test_progress_with_tqdm(fake_gpu, tmp_path, monkeypatch, capsys):
    calls = []

    class Bar:
        def __init__(self, **options):
            calls.append(("total", options["total"]))

        def set_description(self, text):
            calls.append(("at", text))

        def update(self):
            calls.append("step")

        def close(self):
            calls.append("closed")

    monkeypatch.setitem(sys.modules, "tqdm", types.SimpleNamespace(tqdm=Bar))
    tuning.tune(["64x64x64:nt"], path=tmp_path / "t.json")
    assert calls == [("total", 1), ("at", "1 x 64 x 64 x 64 nt"), "step", "closed"]
    assert capsys.readouterr().err == ""


# The command.


def test_command(fake_gpu, tmp_path, capsys):
    path = tmp_path / "t.json"
    fake_gpu.us_of = {ways_of(plan((2, 8, 8), dtype=torch.float16))[0]: 3.0}
    command = ["tune", "2x8x8:nt", "64x64x64", "--dtype", "fp16", "--file", str(path)]
    assert cli.main(command) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].startswith("2 x 8 x 8 nt fp16: ") and "3.0 us" in lines[0]
    assert lines[1].startswith("64 x 64 x 64 nn fp16: ") and len(lines) == 2
    assert cli.main([*command, "--json", "--fp32", "--layout", "tn"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told[1]["problem"] == "64 x 64 x 64 tn fp16, out fp32" and told[1]["timed"] > 8
    assert len(json.loads(path.read_text())["entries"]) == 4


def test_commands_that_cannot(fake_gpu, capsys):
    assert cli.main(["tune", "8x8x8", "--file", "/proc/vitamin_hgemm/t.json"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].startswith("vitamin_hgemm: [Errno ")
    for arguments, text in (
        (["tune"], "required: SHAPE"),
        (["tune", "8x8"], "argument SHAPE: shape is '8x8'; wanted MxNxK"),
        (["tune", "8x8x8", "--dtype", "fp8"], "argument --dtype: invalid choice"),
    ):
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        assert stop.value.code == 2 and text in capsys.readouterr().err
