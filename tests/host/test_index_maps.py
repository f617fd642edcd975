"""Compiles host_units.cpp with the host compiler and runs each of its checks."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("host_units.cpp")
CSRC = SOURCE.parents[2] / "csrc"
CHECKS = re.findall(r'^    \{"(\w+)", ', SOURCE.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    compiler = next(
        filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++"))), None
    )
    if compiler is None:
        pytest.skip("no C++ compiler")
    path = tmp_path_factory.mktemp("host") / "host_units"
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}"]
    built = subprocess.run(
        [*command, SOURCE, "-o", path], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return path


def test_every_check_is_run(program):
    listed = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    assert sorted(listed) == sorted(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_index_map(program, name):
    run = subprocess.run([program, name], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
