"""Compiles the programs of checks beside it with the host compiler and runs every check."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
CSRC = FOLDER.parents[1] / "csrc"
CHECKS = {
    name: re.findall(r'^    \{"(\w+)", ', (FOLDER / f"{name}.cpp").read_text(), re.MULTILINE)
    for name in ("host_units", "tile_orders", "wgmma_layouts", "hopper_batches", "overrides")
}
DISPATCH = sorted((CSRC / "dispatch").glob("*.cpp"))
LINKED = {
    "wgmma_layouts": DISPATCH,
    "hopper_batches": DISPATCH,
    "overrides": [source for source in DISPATCH if source.stem != "measured"],
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The path of each program."""
    compiler = next(
        filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++"))), None
    )
    if compiler is None:
        pytest.skip("no C++ compiler")
    paths = {name: tmp_path_factory.mktemp("host") / name for name in CHECKS}
    command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{CSRC}"]
    for name, path in paths.items():
        built = subprocess.run(
            [*command, FOLDER / f"{name}.cpp", *LINKED.get(name, ()), "-o", path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert built.returncode == 0, built.stderr
    return paths


@pytest.mark.parametrize("program", CHECKS)
def test_every_check_is_run(programs, program):
    run = subprocess.run([programs[program]], capture_output=True, text=True, check=True)
    assert sorted(run.stdout.split()) == sorted(CHECKS[program])


@pytest.mark.parametrize(
    ("program", "check"), [(program, check) for program in CHECKS for check in CHECKS[program]]
)
def test_index_map(programs, program, check):
    run = subprocess.run([programs[program], check], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
