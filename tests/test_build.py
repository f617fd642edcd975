"""What setup.py says of an environment that it can't build in: one sentence, and nothing built.

And what nvcc says of kernels that it builds.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run_setup(*arguments, **environment):
    return subprocess.run(
        [sys.executable, "setup.py", *arguments],
        cwd=ROOT,
        env={**os.environ, "VITAMIN_CPU_ONLY": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def last_line(run):
    assert run.returncode != 0
    return run.stderr.strip().splitlines()[-1]


def write_module(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_old_torch_is_named(tmp_path):
    write_module(tmp_path, "torch/__init__.py", "__version__ = '2.10.1+cu128'\n")
    write_module(tmp_path, "torch/utils/__init__.py", "")
    write_module(tmp_path, "torch/utils/cpp_extension.py", "")
    run = run_setup("--name", PYTHONPATH=str(tmp_path))
    assert last_line(run) == (
        "vitamin_hgemm: building needs torch >= 2.11, but torch 2.10.1+cu128 is installed here."
    )


def test_missing_torch_is_said(tmp_path):
    write_module(tmp_path, "torch.py", "raise ImportError('no such thing')\n")
    run = run_setup("--name", PYTHONPATH=str(tmp_path))
    assert last_line(run) == (
        "vitamin_hgemm: building needs torch >= 2.11 in this environment (no such thing)."
    )


@pytest.mark.parametrize("archs", ["75", "80;sm_90", "90b"])
def test_unknown_architecture_is_named(archs):
    line = last_line(run_setup("--name", VITAMIN_ARCHS=archs))
    assert f"'{archs.split(';')[-1]}'; wanted any of 80, 86, " in line


def test_known_architectures_in_any_notation():
    run = run_setup("--name", VITAMIN_ARCHS=" 80, 90a;120 ")
    assert run.returncode == 0, run.stderr


def test_missing_compiler_is_named(tmp_path):
    run = run_setup("build_ext", "--build-lib", str(tmp_path), CXX="no-such-c++")
    assert last_line(run) == (
        "vitamin_hgemm: there is no C++ compiler: 'no-such-c++' is not found; install g++ or set "
        "CXX."
    )
    assert not list(tmp_path.iterdir())


def test_what_is_left_out_is_said():
    run = run_setup("--name")
    assert run.stdout.splitlines()[0] == (
        "vitamin_hgemm: VITAMIN_CPU_ONLY=1 is set: the GPU kernels are left out, only the CPU path "
        "is built."
    )


@pytest.mark.parametrize("source", ["tile_128x256_bf16", "tile_64x64_bf16", "once_bf16"])
def test_products_stay_under_way_and_registers_suffice(source, tmp_path):
    """ptxas tells only in passing that it waits after every wgmma, and of registers that spill."""
    nvcc = shutil.which("nvcc", path=f"{os.environ.get('CUDA_HOME', '')}/bin:{os.environ['PATH']}")
    if nvcc is None:
        pytest.skip("no nvcc here")
    options = ["-std=c++20", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-diag-suppress=177"]
    options += ["--expt-relaxed-constexpr", "-Xptxas=-v", "-cubin", "-o", str(tmp_path / "cubin")]
    run = subprocess.run(
        [nvcc, *options, str(ROOT / "csrc" / "sm90" / f"{source}.cu")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "wgmma.mma_async instructions are serialized" not in run.stderr
    spilled = re.findall(r"(\d+) bytes spill stores", run.stderr)
    assert spilled and set(spilled) == {"0"}
