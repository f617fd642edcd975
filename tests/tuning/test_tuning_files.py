"""The files of tuning: what they hold, who reads and who writes them."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from stand_in import GPU, entry, plan, quiet_load, tune, written

import vitamin_hgemm
from vitamin_hgemm import _tuning_file, tuning
from vitamin_hgemm._overrides import Way

ROOT = Path(vitamin_hgemm.__file__).parent.parent


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
