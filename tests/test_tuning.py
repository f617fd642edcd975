"""vitamin_hgemm.tuning without a GPU: a stand-in for the course, real files and processes."""

import json
import math
import os
import subprocess
import sys
import threading
import types
import warnings
from pathlib import Path
from typing import ClassVar

import pytest
import torch

import vitamin_hgemm
from vitamin_hgemm import _overrides, _race, _tuning_file, cli, planning, tuning
from vitamin_hgemm._library import planner
from vitamin_hgemm._overrides import FIELDS, Way
from vitamin_hgemm._tuning_file import Entry

ROOT = Path(vitamin_hgemm.__file__).parent.parent
GPU = "NVIDIA H200"
SHAPE = (320, 4096, 4096)
HOST = dict(dtype=torch.bfloat16, out_dtype=None)


@pytest.fixture(autouse=True)
def no_choices(monkeypatch, tmp_path):
    """No choice and no file before, none after."""
    monkeypatch.delenv(tuning.ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tuning.clear()
    yield
    tuning.clear()


def plan(shape=SHAPE, **options):
    return vitamin_hgemm.plan(*shape, **({"layout": "nt", "device": "H200"} | options))


def key_of(shape=SHAPE, **options):
    problem = dict(zip("mnk", shape, strict=True)) | {"layout": "nt"} | HOST | options
    return tuple(planner().problem_key(planning.read_problem(**problem)))


def ways_of(found):
    return [Way(candidate.kernel, candidate.splits) for candidate in found.candidates]


def way_of(found):
    return Way(found.kernel, found.splits)


def entry(shape=SHAPE, way=None, **options):
    return Entry(key_of(shape, **options), way or ways_of(plan(shape, **options))[-1], 2.0, 3.0)


def written(path, **changes):
    """A file of one choice that the model would not make, with changes to its content."""
    _tuning_file.merge(path, GPU, [entry()])
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(content))
    return path


def quiet_load(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return tuning.load(path)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (dict(m=641), {"m"}),
        (dict(n=4096 + 64), {"n"}),
        (dict(k=8192), {"k"}),
        (dict(batch=3), {"batch", "a_batches", "b_batches"}),
        (dict(dtype=torch.float16), {"dtype"}),
        (dict(out_dtype=torch.float32), {"out_f32"}),
        (dict(layout="tt"), {"a_layout"}),
        (dict(layout="nn"), {"b_layout"}),
        (dict(align_offset=4), {"a_align", "b_align", "c_align"}),
        (dict(lda=4104), {"a_align"}),
        (dict(ldb=4097), {"b_align"}),
        (dict(ldc=4100), {"c_align"}),
        (dict(lda=4128, bias=True, activation="gelu"), set()),
    ],
    ids=str,
)
def test_each_number_of_a_key_is_what_its_field_says(options, changed):
    before, after = key_of(), key_of(**options)
    pairs = zip(FIELDS, before, after, strict=True)
    assert {name for name, x, y in pairs if x != y} == changed
    assert before[:4] == (*SHAPE, 1)


def test_a_choice_decides_and_plan_says_so():
    model = plan()
    assert model.override is None
    way = ways_of(model)[5]
    assert _overrides.put(GPU, key_of(), way)
    tuned = plan()
    assert (tuned.override, way_of(tuned)) == ("tuned", way)
    assert tuned.candidates == model.candidates
    assert tuned.reason.startswith("tuned") and model.kernel in tuned.reason
    assert tuned.reason in str(tuned) and tuned.as_dict()["override"] == "tuned"
    assert tuned.predicted_us == model.candidates[5].predicted_us
    for options in (dict(kernel="sm90"), dict(device="H100"), dict(dtype=torch.float16)):
        assert plan(**options).override is None
    _overrides.put(GPU, key_of(), way_of(model))
    assert "the model agrees" in plan().reason
    tuning.clear()
    assert plan() == model


def test_a_choice_that_no_candidate_is_leaves_it_to_the_model():
    model = plan()
    for way in (Way("sm90_128x128x64", 7), Way("cublas", 1), Way("sm80_any_64x64x64", 1)):
        assert _overrides.put(GPU, key_of(), way)
        assert plan() == model
    assert not _overrides.put(GPU, key_of(), Way("sm90_gone", 1))


def test_choices_are_put_back_one_by_one():
    model = plan()
    way = next(way for way in ways_of(model)[1:] if way.splits == 1)  # the other shape has it too
    _overrides.put(GPU, key_of(), way)
    _overrides.put(GPU, key_of(m=641), way)
    assert _overrides.get(GPU, key_of()) == way
    _overrides.put(GPU, key_of(), None)
    assert _overrides.get(GPU, key_of()) is None and plan() == model
    assert plan((641, 4096, 4096)).override == "tuned"


# The race.


class FakeCourse:
    """Stands for _race.Course: what "auto" would run takes the time that `us` has for it."""

    us_of: ClassVar[dict] = {}  # by way
    errors: ClassVar[dict] = {}  # by kernel, as what follows
    refusals: ClassVar[dict] = {}
    made: ClassVar[list] = []

    def __init__(self, m, n, k, *, batch, layout, dtype, out_dtype, device, l2_bytes, predicted_us):
        self.problem = dict(batch=batch, layout=layout, dtype=dtype, out_dtype=out_dtype)
        self.extents = (m, n, k)
        self.samples = {}
        self.made.append(self)

    def capture(self):
        now = plan(self.extents, **self.problem)
        if now.kernel in self.refusals:
            raise RuntimeError(self.refusals[now.kernel])
        return way_of(now)

    def error(self, way):
        return self.errors.get(way.kernel, 0.5)

    def us(self, way):
        """The first sample is of cold clocks."""
        self.samples[way] = self.samples.get(way, 0) + 1
        return self.us_of.get(way, 100.0) * (3 if self.samples[way] == 1 else 1)


@pytest.fixture
def fake_gpu(monkeypatch):
    """An H200 whose kernels take the times that the test sets."""
    facts = planning.PRESETS["H200"]
    facts = planning.DeviceFacts(**(vars(facts) | {"name": GPU}))
    for name in ("us_of", "errors", "refusals"):
        monkeypatch.setattr(FakeCourse, name, {})
    monkeypatch.setattr(FakeCourse, "made", [])
    monkeypatch.setattr(tuning, "_find_gpu", lambda device: (torch.device("cuda", 0), facts))
    monkeypatch.setattr(tuning, "Course", FakeCourse)
    return FakeCourse


def tune(path, shapes=("320x4096x4096:nt",), **options):
    return tuning.tune(shapes, path=path, progress=False, **options)


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


# The file.


def test_where_the_file_is(fake_gpu, tmp_path, monkeypatch):
    default = tmp_path / "cache" / "vitamin_hgemm" / "tuning-nvidia-h200.json"
    tune(None)
    assert default.exists() and tuning.default_path(GPU) == default
    named = tmp_path / "named.json"
    monkeypatch.setenv(tuning.ENVIRONMENT, str(named))
    tune(None)
    assert named.exists()
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tuning.default_path("A/b c").parts[-3:] == (
        ".cache",
        "vitamin_hgemm",
        "tuning-a-b-c.json",
    )


def test_what_others_have_written_stays(fake_gpu, tmp_path):
    path = tmp_path / "t.json"
    tune(path, ["64x64x64:nt"])
    _tuning_file.merge(path, GPU, [entry((128, 128, 128))])
    tune(path, ["64x64x64:nt", "64x64x72:nt"])
    extents = [(e["m"], e["n"], e["k"]) for e in json.loads(path.read_text())["entries"]]
    assert extents == [(64, 64, 64), (64, 64, 72), (128, 128, 128)]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.json", "t.json.lock"]


WRITER = """
import sys
from pathlib import Path
from vitamin_hgemm import _tuning_file as file
from vitamin_hgemm._overrides import FIELDS, Way
path, worker = Path(sys.argv[1]), int(sys.argv[2])
for i in range(25):
    key = (worker + 1, i + 1, 8, 1, 1, 1, 0, 0, 0, 0, 0, 16, 16, 16)
    file.merge(path, "NVIDIA H200", [file.Entry(key, Way("sm90_64x64x64", 1), 1.0, 2.0)])
"""


def test_several_processes_write_at_once(tmp_path):
    path = tmp_path / "t.json"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(i)], env=environment)
        for i in range(4)
    ]
    whole = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            json.loads(path.read_text())
            whole += 1
    assert [writer.wait() for writer in writers] == [0] * 4 and whole
    entries = json.loads(path.read_text())["entries"]
    assert {(e["m"], e["n"]) for e in entries} == {
        (i, j) for i in range(1, 5) for j in range(1, 26)
    }


def test_several_threads_write_at_once(tmp_path):
    path = tmp_path / "t.json"

    def work(m):
        for n in range(1, 26):
            _tuning_file.merge(path, GPU, [entry((m, n, 8), Way("sm90_64x64x64", 1))])

    threads = [threading.Thread(target=work, args=(m,)) for m in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(json.loads(path.read_text())["entries"]) == 100


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (dict(format=2), "its format is 2; wanted 1"),
        (dict(format=None), "its format is None"),
        (dict(version="0.0.9"), "its version is '0.0.9'; wanted"),
        (dict(entries=None), "it is no tuning file"),
        (dict(entries={}), "it is no tuning file"),
        (dict(gpu=3), "it is no tuning file"),
        (dict(gpu="a\0b"), "it is no tuning file"),
        (dict(gpu="\ud800"), "it is no tuning file"),
    ],
    ids=str,
)
def test_files_of_another_kind_are_ignored_with_a_warning(tmp_path, changes, text):
    path, model = written(tmp_path / "t.json", **changes), plan()
    with pytest.warns(UserWarning, match=f"t.json is ignored: {text}") as told:
        assert tuning.load(path) == 0
    assert len(told) == 1 and plan() == model


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 100_000, b'{"format": 1'], ids=repr
)
def test_damaged_files_are_ignored_with_a_warning(tmp_path, content):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.warns(UserWarning, match=r"t.json is ignored: it (can't be read|is no)") as told:
        assert tuning.load(path) == 0
    assert len(told) == 1


def test_missing_files_and_folders_are_ignored_with_a_warning(tmp_path):
    with pytest.warns(UserWarning, match="is ignored: there is no such file"):
        assert tuning.load(tmp_path / "t.json") == 0
    with pytest.warns(UserWarning, match="is ignored: it can't be read"):
        assert tuning.load(tmp_path) == 0


def test_files_of_another_gpu_are_ignored_with_a_warning(tmp_path, monkeypatch):
    path, model = written(tmp_path / "t.json"), plan()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    names = ["NVIDIA L4", "NVIDIA A100"]
    monkeypatch.setattr(torch.cuda, "get_device_name", names.__getitem__)
    with pytest.warns(UserWarning, match="is of NVIDIA H200, here is NVIDIA A100, NVIDIA L4"):
        assert tuning.load(path) == 0
    assert plan() == model
    names[1] = GPU
    assert quiet_load(path) == 1
    assert plan().override == "tuned"


@pytest.mark.parametrize(
    "change",
    [
        dict(kernel="sm90_gone"), dict(kernel=7), dict(kernel="\0"), dict(kernel="é"),
        dict(splits=0), dict(splits=2**31), dict(splits=1.0), dict(splits=None),
        dict(m=-1), dict(m=2**63), dict(m=True), dict(m="320"), dict(dtype="fp8"),
        dict(a_layout=[]), dict(out_f32=None),
    ],
    ids=str,
)  # fmt: skip
def test_malformed_entries_are_left_out_and_the_others_hold(tmp_path, change):
    path = tmp_path / "t.json"
    _tuning_file.merge(path, GPU, [entry(), entry((641, 4096, 4096))])
    content = json.loads(path.read_text())
    content["entries"][1] |= change
    content["entries"] += [7, {}]
    path.write_text(json.dumps(content))
    with pytest.warns(UserWarning, match="3 entries of .* are ignored") as told:
        assert tuning.load(path) == 1
    assert len(told) == 1
    assert plan().override == "tuned" and plan((641, 4096, 4096)).override is None


def test_unsupported_ways_of_a_file_fall_back(tmp_path):
    path, model = tmp_path / "t.json", plan()
    _tuning_file.merge(path, GPU, [entry(way=Way("sm90_128x256x64_2x1", 8))])
    assert quiet_load(path) == 1
    assert plan() == model


def test_times_are_for_people_only(tmp_path):
    path = written(tmp_path / "t.json")
    content = json.loads(path.read_text())
    content["entries"][0] |= {"us": "fast", "model_us": float("nan"), "more": 1}
    path.write_text(json.dumps(content))
    assert quiet_load(path) == 1


@pytest.mark.parametrize("foreign", [dict(version="0.0.9"), dict(gpu="NVIDIA L4"), dict(format=9)],
                         ids=str)  # fmt: skip
def test_a_foreign_file_is_replaced_with_a_warning(fake_gpu, tmp_path, foreign):
    path = written(tmp_path / "t.json", **foreign)
    with pytest.warns(UserWarning, match="t.json will be replaced: it") as told:
        tune(path, ["64x64x64:nt"])
    assert len(told) == 1
    content = json.loads(path.read_text())
    assert (content["gpu"], len(content["entries"])) == (GPU, 1)


def test_a_file_that_cannot_be_written_is_told_before_anything_runs(fake_gpu, tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "t.json", Path("/proc/vitamin_hgemm/t.json")):
        with pytest.raises(OSError):
            tune(path)
    assert not fake_gpu.made


def test_a_read_only_folder_can_be_read_from(tmp_path, monkeypatch, fake_gpu):
    path = tmp_path / "folder" / "t.json"
    path.parent.mkdir()
    written(path)
    path.with_name("t.json.lock").unlink()
    path.parent.chmod(0o555)
    try:
        assert quiet_load(path) == 1
        assert [p.name for p in path.parent.iterdir()] == ["t.json"]
        # Root may write everywhere, so the system's answer is made up.
        monkeypatch.setattr(os, "access", lambda *_: False)
        with pytest.raises(PermissionError):
            tune(path)
        assert not fake_gpu.made
    finally:
        path.parent.chmod(0o755)


def test_a_link_stays_a_link(tmp_path):
    real, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(real)
    _tuning_file.merge(link, GPU, [entry()])
    assert link.is_symlink() and quiet_load(real) == 1


# At import.

AT_START = """
import torch, vitamin_hgemm
assert not torch.cuda.is_initialized()
print(vitamin_hgemm.plan(320, 4096, 4096, layout="nt", device="H200").override)
"""


def started(environment, code=AT_START):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment, timeout=120,
    )  # fmt: skip


def test_a_process_begins_with_the_file_of_its_environment(tmp_path):
    path = written(tmp_path / "t.json")
    for environment, wanted in (
        ({tuning.ENVIRONMENT: str(path)}, "tuned"),
        ({tuning.ENVIRONMENT: "~/t.json", "HOME": str(tmp_path)}, "tuned"),
        ({tuning.ENVIRONMENT: str(tmp_path / "none.json")}, "None"),
        ({tuning.ENVIRONMENT: ""}, "None"),
        ({}, "None"),
    ):
        run = started(environment)
        assert (run.returncode, run.stdout.strip(), run.stderr) == (0, wanted, "")


def test_no_file_keeps_a_process_from_starting(tmp_path):
    path = tmp_path / "t.json"
    path.write_text("{")
    for target in (path, tmp_path, written(tmp_path / "old.json", version="0.0.1")):
        run = started({tuning.ENVIRONMENT: str(target)})
        assert (run.returncode, run.stdout.strip()) == (0, "None")
        assert run.stderr.count("is ignored: ") == 1


def test_another_gpu_is_told_once_cuda_is_up(tmp_path, monkeypatch):
    waiting = []
    monkeypatch.setattr(torch.cuda, "_lazy_call", waiting.append)
    monkeypatch.setenv(tuning.ENVIRONMENT, str(written(tmp_path / "t.json")))
    tuning.load_at_import()
    assert plan().override == "tuned"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "NVIDIA L4")
    with pytest.warns(UserWarning, match="is of NVIDIA H200, here is NVIDIA L4"):
        waiting.pop()()


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
