"""What the table of tests/sanitize.py makes of logs, with a sanitizer made of recorded output."""

import itertools
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sanitize
import sanitizer_calls
import sanitizer_log
from calls import (
    CLUSTER_OF,
    HOPPER_ONCE,
    HOPPER_SHALLOW,
    HOPPER_STEPS,
    HOPPER_STREAM,
    HOPPER_STUDIES,
    HOPPER_TILES,
    SWAPPED,
    UNSWAPPED,
    most_parts,
    table,
)

from vitamin_hgemm.planning import plan

SANITIZE = Path(__file__).with_name("sanitize.py")
CALLS = "call: auto float16 1x1x1\ncalls: 9 of 12, refused: 3, wrong: 0\n"

OURS = """\
========= Uninitialized __global__ memory read of size 4 bytes
=========     at void vitamin::sm80::gemm_kernel<(int)3>(vitamin::GemmParams)+0x90
=========     by thread (3,0,0) in block (1,0,0)
=========     Access to 0x7f0000000010 is out of bounds
=========
"""
NOBODYS = "".join(line for line in OURS.splitlines(True) if "vitamin" not in line)
FOREIGN_KERNEL = OURS.replace("vitamin::sm80::gemm_kernel", "at::native::copy").replace(
    "vitamin::GemmParams", "int"
)
FOREIGN_COPY = """\
========= Host API memory access error at host access to 0x7f0000000000 of size 35,360 bytes
=========     Uninitialized access to 0x7f0000000000 on access by cudaMemcpy source
=========     Saved host backtrace up to driver entry point at error
=========         Host Frame: at::native::copy_kernel_cuda(at::TensorIterator&) in libtorch_cuda.so
=========         Host Frame: vitamin::run_cuda(vitamin::Arguments*) in _ops.abi3.so
=========
"""
RACE = """\
========= Error: Race reported between Write access at vitamin::sm80::gemm_kernel+0x10
=========     and Read access at vitamin::sm80::gemm_kernel+0x20 [64 hazards]
=========
"""


def log_of(*parts, errors, unprinted=0):
    end = f"========= ERROR SUMMARY: {errors} error{'' if errors == 1 else 's'}\n"
    if unprinted:
        end += f"========= ERROR SUMMARY: {unprinted} errors were not printed. Use --print-limit\n"
    return "========= COMPUTE-SANITIZER\n" + "".join(parts) + end


@pytest.mark.parametrize(
    ("tool", "log", "errors", "clean"),
    [
        ("memcheck", log_of(errors=0), 0, True),
        ("memcheck", log_of(OURS, errors=1), 1, False),
        ("memcheck", log_of(FOREIGN_COPY, errors=1), 1, False),
        ("memcheck", log_of(OURS, errors=301, unprinted=300), 301, False),
        ("initcheck", log_of(errors=0), 0, True),
        ("initcheck", log_of(OURS, FOREIGN_COPY, OURS, errors=3), 2, False),
        ("initcheck", log_of(NOBODYS, FOREIGN_COPY, errors=2), 1, False),
        ("initcheck", log_of(FOREIGN_COPY, FOREIGN_KERNEL, errors=2), 0, True),
        ("initcheck", log_of(FOREIGN_COPY, errors=8, unprinted=7), 7, False),
        ("initcheck", log_of(FOREIGN_COPY, errors=2), 2, False),
        ("racecheck", "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors)\n", 0, True),
        (
            "racecheck",
            RACE + "========= RACECHECK SUMMARY: 1 hazard displayed (1 error)\n",
            1,
            False,
        ),
    ],
)
def test_errors_are_counted(tool, log, errors, clean):
    line, good = sanitizer_log.verdict(tool, 0, log, CALLS)
    assert line.split()[:5] == [tool, str(errors), "9", "of", "12"]
    assert good == clean


def test_ignored_reports_are_counted():
    line, _ = sanitizer_log.verdict(
        "initcheck", 0, log_of(FOREIGN_COPY, FOREIGN_KERNEL, errors=2), CALLS
    )
    assert "2 outside of the package's kernels ignored" in line


@pytest.mark.parametrize(
    ("status", "log", "text"),
    [
        (None, log_of(errors=0), CALLS),
        (1, log_of(errors=0), CALLS),
        (0, "========= COMPUTE-SANITIZER\n", CALLS),
        (0, log_of(errors=0), "call: auto float16 1x1x1\n"),
    ],
    ids=["killed", "failed", "no summary", "no end of the calls"],
)
def test_a_run_that_did_not_end_well_is_not_clean(status, log, text):
    assert not sanitizer_log.verdict("memcheck", status, log, text)[1]


def test_digest_keeps_the_reports_and_is_short():
    digest = sanitizer_log.digest(log_of(FOREIGN_COPY, OURS, errors=2), ours=True)
    assert "gemm_kernel" in digest
    assert "35,360" not in digest
    assert "2 errors" in digest
    assert "Race reported" in sanitizer_log.digest(RACE)
    everything = sanitizer_log.digest(log_of(*[OURS] * 9000, errors=9000))
    assert len(everything) < 1.01 * sanitizer_log.LIMIT


def test_said_names_the_call_before_each_message_and_the_last():
    said = sanitizer_log.said("call: a\ncall: b\nwrong: b: x\ncall: c\ncall: d\n")
    assert said.split("\n") == ["call: b", "wrong: b: x", "call: d", ""]


@pytest.mark.parametrize("tool", sanitize.TOOLS)
def test_every_kernel_for_the_gpu_has_calls(tool):
    """Steps have more than the studies' kernels, and none has a layout that it refuses."""
    calls = sanitizer_calls.calls_for(tool)
    names = sanitize.kernels_of(90, table().values())
    assert set(names) == {"auto", *table()} - {"cublas"}
    for name in names:
        own = [call for call in calls if sanitize.takes(name, table(), call)]
        shapes = {(call.m, call.n, call.k) for call in own}
        if name in HOPPER_STUDIES:
            assert 3 <= len(shapes) <= 4
        elif name in HOPPER_STEPS:
            assert len(shapes) > 4 and {call.k for call in own} > {0, 1}
        for call in own if name != "auto" else ():
            assert table()[name]["layouts"] in ("all", call.layout)
    assert not [name for name in sanitize.kernels_of(80, table().values()) if "sm90" in name]


def test_persistent_blocks_take_several_tiles():
    persistent = [name for name in table() if name.startswith(sanitizer_calls.PERSISTENT)]
    assert set(persistent) > {*HOPPER_STEPS[4:], *HOPPER_TILES}
    for name in persistent:
        tile_m, tile_n, _ = table()[name]["tile"]
        own = [c for c in sanitizer_calls.hopper_calls() if sanitize.takes(name, table(), c)]
        assert max(-(-c.m // tile_m) * -(-c.n // tile_n) for c in own) > 132, name


def pitches(call):
    """Elements from one stored row of a to the next, and of b."""
    a_inner = call.m if call.layout[0] == "t" else call.k
    b_inner = call.k if call.layout[1] == "t" else call.n
    return {"lda": a_inner + call.pad, "ldb": b_inner + call.pad}


def parts_of_k(call, name):
    """How many plan() has the kernel cut K into."""
    options = {"layout": call.layout, "batch": math.prod(call.batch), **pitches(call)}
    return plan(call.m, call.n, call.k, device="H200", kernel=name, **options).splits


def test_a_kernel_of_each_tile_has_all_calls():
    """The others have the same tile, used in the same way, with other clusters."""
    all_calls = [name for name in HOPPER_TILES if not sanitize.of_other_clusters(name, table())]
    assert len(all_calls) == len(UNSWAPPED) + len(SWAPPED)
    assert len({table()[name]["tile"] for name in all_calls}) == len({*UNSWAPPED, *SWAPPED})
    assert not any(sanitize.of_other_clusters(n, table()) for n in table() if n not in HOPPER_TILES)


def test_production_kernels_of_hopper_are_called_for_what_they_do():
    """Each in every tool: rows that TMA writes and rows that it can't, parts of K, batches, and
    clusters of which some blocks have no tile of c."""
    assert {n for n in table() if n.startswith(sanitizer_calls.HOPPER_TILES)} == set(HOPPER_TILES)
    for name, tool in itertools.product(HOPPER_TILES, sanitize.TOOLS):
        own = [c for c in sanitizer_calls.calls_for(tool) if sanitize.takes(name, table(), c)]
        for side, blocks in enumerate(CLUSTER_OF[name]):
            tile = table()[name]["tile"][side]
            assert any(-(-(c.m, c.n)[side] // tile) % blocks for c in own) or blocks == 1, name
        splits, batches, remainders = set(), set(), set()
        for call in own:
            if call.offset or call.step > 1 or any(pitch % 8 for pitch in pitches(call).values()):
                continue
            splits.add(parts_of_k(call, name))
            batches.add(math.prod(call.batch))
            remainders.add(call.n % 8)
        assert 0 in remainders and remainders & {1, 3, 5, 7}
        assert {1, 3} <= batches
        few = sanitize.of_other_clusters(name, table()) or CLUSTER_OF[name] != (1, 1)
        assert len(splits) >= min(most_parts(name), 2 if few else 3), (name, splits)


def test_kernels_for_few_rows_or_columns_are_called_for_what_they_do():
    """Each in every tool: either side, K contiguous or not, rows of any alignment, batches, tiles
    that follow each other; and parts of K."""
    own = sanitizer_calls.hopper_stream_calls()
    names = {HOPPER_STREAM, HOPPER_SHALLOW, HOPPER_ONCE}
    assert {n for n in table() if n.startswith(sanitizer_calls.HOPPER_STREAMS)} == names
    assert all(call in sanitizer_calls.calls_for(tool) for call in own for tool in sanitize.TOOLS)
    for name in names:
        calls = [call for call in own if sanitize.takes(name, table(), call)]
        ways = set()
        for call in calls:
            b_is_wide = call.n >= call.m
            by_rows = call.layout[b_is_wide] == "nt"[b_is_wide]
            pitch = pitches(call)["ldb" if b_is_wide else "lda"]
            ways.add((b_is_wide, by_rows, math.gcd(2 * pitch, 16)))
        assert {way[:2] for way in ways} == set(itertools.product((False, True), repeat=2))
        assert {align for _, by_rows, align in ways if by_rows} >= {2, 4, 8, 16}
        assert {1, 40} <= {math.prod(call.batch) for call in calls}
        assert max(max(call.m, call.n) for call in calls) > 4 * 132 * 128
        splits = {parts_of_k(call, name) for call in calls}
        assert len(splits) > 1 if name == HOPPER_STREAM else splits == {1}


def test_four_tools_leave_few_files(tmp_path):
    stub = tmp_path / "bin" / "compute-sanitizer"
    stub.parent.mkdir()
    logs = {
        "memcheck": log_of(OURS, errors=1),
        "racecheck": "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors)\n",
        "synccheck": "",
        "initcheck": log_of(FOREIGN_COPY, errors=1),
    }
    for tool, log in logs.items():
        (stub.parent / tool).write_text(log)
    stub.write_text(
        f'#!/bin/sh\ncp "{stub.parent}/$2" "$4"\n[ "$2" = synccheck ] && exec sleep 60\n'
        f"printf '%s' '{CALLS}'\n"
    )
    stub.chmod(0o755)
    done = subprocess.run(
        [sys.executable, SANITIZE, tmp_path / "out", "--seconds", "1", "--grace", "2"],
        env={**os.environ, "PATH": f"{stub.parent}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    table = done.stdout.splitlines()
    assert [line.split()[0] for line in table] == ["tool", *logs], done.stderr
    assert table[1].split()[1] == "1"
    assert table[2].split()[1] == "0"
    assert "did not end" in table[3]
    assert table[4].split()[1] == "0"
    files = {path.name for path in (tmp_path / "out").iterdir()}
    assert files == {"sanitize.txt", "memcheck.log", "synccheck.log"}
    assert (tmp_path / "out" / "sanitize.txt").read_text().startswith(done.stdout)
