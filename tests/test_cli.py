"""python -m vitamin_hgemm, in a process of its own, and what an installation without parts says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from calls import FAMILIES, production

import vitamin_hgemm
from vitamin_hgemm.cli import main

PACKAGE = Path(vitamin_hgemm.__file__).parent


def run(*arguments, path=PACKAGE.parent):
    environment = os.environ | {"PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, "-m", "vitamin_hgemm", *arguments],
        capture_output=True,
        text=True,
        cwd=path,
        env=environment,
        timeout=120,
    )


def test_info():
    result = run("info")
    assert result.returncode == 0, result.stderr
    assert vitamin_hgemm.__version__ in result.stdout
    for entry in vitamin_hgemm.kernels():
        assert entry["name"] in result.stdout and entry["what"] in result.stdout


def test_plan_in_a_process():
    result = run("plan", "4096", "4096", "4096", "--layout", "nt", "--device", "A100")
    assert result.returncode == 0, result.stderr
    plan = vitamin_hgemm.plan(4096, 4096, 4096, layout="nt", device="A100")
    assert result.stdout.strip() == str(plan)


def test_info_as_json(capsys):
    assert main(["info", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["vitamin_hgemm"] == vitamin_hgemm.__version__
    assert [entry["name"] for entry in told["kernels"]] == [
        entry["name"] for entry in vitamin_hgemm.kernels()
    ]
    assert set(told["build"]) == {"version", "cuda", "archs", "nvcc"}
    assert told["build"]["version"] == vitamin_hgemm.__version__


@pytest.mark.parametrize("family", FAMILIES)
def test_plan_as_json(family, capsys):
    options = f"--dtype fp16 --batch 3 --device H200 --kernel {family} --bias --activation relu"
    assert main(["plan", "64", "65", "66", *options.split(), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kernel"] == told["candidates"][0]["kernel"]
    assert told["kernel"] in production(family)
    assert told["problem"] == "3 x 64 x 65 x 66 nn fp16, bias, relu"
    assert told["device"]["name"] == "H200"


def test_plan_takes_pitches_and_offset(capsys):
    options = "--lda 65 --ldb 67 --ldc 69 --offset 2 --fp32 --device H200"
    assert main(["plan", "64", "64", "64", *options.split()]) == 0
    out = capsys.readouterr().out
    for word in ("lda 65", "ldb 67", "ldc 69", "offset 2 bytes", "out fp32"):
        assert word in out


@pytest.mark.parametrize(
    "arguments, text",
    [
        ([], "COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["plan"], "required: M, N, K"),
        (["plan", "1", "2"], "required: K"),
        (["plan", "1", "2", "x"], "argument K: 'x' is not an integer\n"),
        (["plan", "1", "2", "-3"], "negative|required: K|unrecognized"),
        (["plan", "1", "2", "3", "--layout", "xx"], "argument --layout: invalid choice"),
        (["plan", "1", "2", "3", "--dtype", "fp32"], "argument --dtype: invalid choice"),
        (["plan", "1", "2", "3", "--device", "abacus"], "device is 'abacus'; wanted a CUDA device"),
        (["plan", "1", "2", "3", "--activation", "no"], "activation is 'no'; wanted one of none"),
        (["plan", "1", "2", "3", "--lda", "1"], "lda is 1; wanted 3 or more\n"),
        (["plan", "1", "2", "3", "--offset", "3"], "align_offset is 3; wanted an even number"),
        (["plan", "1", "2", str(2**64)], f"error: k is {2**64}; wanted at most {2**63 - 1}\n"),
        (["plan", "1", str(2**31), str(2**31)], f"error: b takes {2**63} bytes; wanted at most"),
        (["plan", "1", "2", "3", "--kernel", "warp9"], "kernel is 'warp9'; wanted one of auto"),
        (["plan", "1", "2", "3", "--fast"], "unrecognized arguments: --fast"),
        (["info", "more"], "unrecognized arguments: more"),
    ],
    ids=str,
)
def test_wrong_commands(arguments, text, capsys):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    told = capsys.readouterr().err
    assert re.search(text, told) and "Traceback" not in told
    command = arguments[0] if arguments and arguments[0] in ("plan", "info") else ""
    assert told.startswith(f"usage: python -m vitamin_hgemm {command}")


def test_kernel_that_cannot(capsys):
    command = "plan 64 64 64 --layout tt --device H200 --kernel sm80_naive"
    assert main(command.split()) == 1
    captured = capsys.readouterr()
    assert "can't run this problem on H200" in captured.err and not captured.out


@pytest.mark.parametrize("kernel", ["sm80_naive", "cublas"])
def test_kernel_without_a_model(kernel, capsys):
    command = ["plan", "64", "64", "64", "--device", "H200", "--kernel", kernel]
    assert main(command) == 0
    assert re.search("predicted +no model\n", capsys.readouterr().out)
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predicted_us"] is None


def test_bench_hands_its_options_on():
    result = run("bench", "--help")
    if not (PACKAGE.parent / "benchmarks" / "bench.py").exists():
        assert result.returncode == 1 and "in a checkout" in result.stderr
        return
    assert result.returncode == 0 and "--ladder" in result.stdout
    assert run("bench", "--no-such-option").returncode == 2


def installed_copy(folder, without):
    """The package as it would be installed, less the files that match `without`."""
    ignore = shutil.ignore_patterns("__pycache__", without)
    shutil.copytree(PACKAGE, folder / "vitamin_hgemm", ignore=ignore)
    return folder


def test_bench_outside_a_checkout(tmp_path):
    result = run("bench", "--quick", path=installed_copy(tmp_path, "no file"))
    assert result.returncode == 1
    assert "run this in a checkout" in result.stderr and "Traceback" not in result.stderr


def test_without_the_planning_module(tmp_path):
    path = installed_copy(tmp_path, "_C.*")
    # An empty place would be filled by the import hook of an editable install.
    (path / "vitamin_hgemm" / "_C.py").write_text("raise ImportError('left out')\n")
    for command in (["info"], ["plan", "1", "2", "3"]):
        result = run(*command, path=path)
        assert result.returncode == 1 and "Traceback" not in result.stderr
        assert "planning module of vitamin_hgemm (_C) was not built" in result.stderr
    code = "import torch, vitamin_hgemm as v; x = torch.ones(2, 2).half(); print(v.hgemm(x, x))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=path, timeout=120
    )
    assert result.returncode == 0 and "2., 2." in result.stdout, result.stderr


@pytest.mark.parametrize("how", ["missing", "broken"])
def test_without_the_op_library(tmp_path, how):
    path = installed_copy(tmp_path, "_ops*")
    if how == "broken":
        (path / "vitamin_hgemm" / "_ops.abi3.so").write_bytes(b"no library")
    result = run("info", path=path)
    assert result.returncode != 0
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: ")
    wanted = {"missing": "has not been built", "broken": "does not load with torch"}[how]
    assert wanted in last


def test_torch_that_is_too_old(tmp_path):
    code = (
        "import torch; torch.__version__ = '2.10.1+cpu'\n"
        "try:\n    import vitamin_hgemm\n"
        "except ImportError as error:\n    print(error)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=installed_copy(tmp_path, "no file"),
        timeout=120,
    )
    assert "needs torch 2.11 or newer, this is 2.10.1+cpu" in result.stdout
