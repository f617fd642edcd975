"""benchmarks/measured.py: the rows of measured.cpp from recorded times."""

import re

import pytest
import torch
from measurements import ROOT

from benchmarks import measured, records, shapes
from vitamin_hgemm import _overrides, planning

SHAPE = shapes.parse_shape("512x4096x4096:nt")
FACTS = {"gpu": "NVIDIA H200", "date": "2026-11-30"}


def ways(shape=SHAPE):
    plan = planning.plan(shape.m, shape.n, shape.k, layout=shape.layout, device="H200")
    return [(candidate.kernel, candidate.splits) for candidate in plan.candidates]


def write(path, us, *, shape=SHAPE, errors=None, date=FACTS["date"]):
    """A CSV of microseconds by way."""
    rows = []
    for (kernel, splits), time in us.items():
        told = {kernel: time}
        error = {kernel: (errors or {}).get((kernel, splits), 0.5)}
        facts = FACTS | {"date": date}
        (row,) = records.rows(shape, "bf16", "mid", "cold", told, error, facts)
        rows.append(row | {"splits": "" if kernel == "torch" else str(splits)})
    records.write(path, rows, records.SPLIT_COLUMNS)
    return str(path)


def printed(capsys, *files):
    status = measured.main(list(files))
    told = capsys.readouterr()
    rows = re.findall(
        r'^      \{"([^"]*)", \{([^}]*)\}, "(\w+)", (\d+)\},$', told.out, re.MULTILINE
    )
    return status, rows, told


def test_a_problem_on_which_the_model_loses_is_a_row(tmp_path, capsys):
    model, second, third = ways()[:3]
    path = write(tmp_path / "t.csv", {("torch", 1): 1.0, model: 30.0, second: 28.0, third: 29.0})
    status, rows, told = printed(capsys, path)
    ((gpu, key, kernel, splits),) = rows
    assert (status, gpu, (kernel, int(splits))) == (0, "NVIDIA H200", second)
    key = tuple(map(int, key.split(",")))
    assert dict(zip(_overrides.FIELDS, key, strict=True)) == {
        "m": 512, "n": 4096, "k": 4096, "batch": 1, "a_batches": 1, "b_batches": 1, "dtype": 1,
        "out_f32": 0, "a_layout": 0, "b_layout": 1, "c_layout": 0, "a_align": 64, "b_align": 64,
        "c_align": 16,
    }  # fmt: skip
    assert "512x4096x4096:nt bf16" in told.out and not told.err
    assert _overrides.put(gpu, key, _overrides.Way(kernel, int(splits)))
    try:
        plan = planning.plan(512, 4096, 4096, layout="nt", device="H200")
        assert (plan.override, (plan.kernel, plan.splits)) == ("tuned", second)
    finally:
        _overrides.clear()


@pytest.mark.parametrize("best", [29.5, 30.0, 40.0])
def test_small_losses_are_left_to_the_model(tmp_path, capsys, best):
    model, second = ways()[:2]
    assert printed(capsys, write(tmp_path / "t.csv", {model: 30.0, second: best}))[1] == []


def test_what_auto_cannot_take_and_what_is_wrong_do_not_count(tmp_path, capsys):
    model, second = ways()[:2]
    us = {model: 30.0, second: 20.0, ("sm90_128x256x64_2x1", 5): 10.0}
    assert printed(capsys, write(tmp_path / "t.csv", us, errors={second: 2.0}))[1] == []


def test_the_last_time_of_a_way_counts(tmp_path, capsys):
    model, second = ways()[:2]
    early = write(tmp_path / "a.csv", {model: 30.0, second: 20.0}, date="2026-11-29")
    late = write(tmp_path / "b.csv", {second: 40.0})
    assert len(printed(capsys, early)[1]) == 1
    assert printed(capsys, late, early)[1] == []


def test_unrecorded_choices_and_empty_files_are_told(tmp_path, capsys):
    path = write(tmp_path / "t.csv", {ways()[1]: 20.0})
    status, rows, told = printed(capsys, path)
    assert (status, rows) == (0, []) and "1 of 1 problems" in told.err
    assert printed(capsys, write(tmp_path / "u.csv", {("torch", 1): 1.0}))[0] == 2


def test_recorded_times_can_be_read(capsys):
    status, rows, _ = printed(capsys)
    kernels = {entry["name"] for entry in planning.kernels()}
    assert status == 0 and {kernel for _, _, kernel, _ in rows} <= kernels


def test_built_in_rows_name_kernels_that_there_are():
    """A row of an unknown kernel, or with too few numbers, would be skipped without a word."""
    text = (ROOT / "csrc" / "dispatch" / "measured.cpp").read_text()
    kernels = {entry["name"] for entry in planning.kernels() if entry["family"] in ("sm80", "sm90")}
    for key, kernel in re.findall(r'\{"NVIDIA[^"]*", \{([^}]*)\}, "(\w+)", \d+\}', text):
        assert kernel in kernels and len(key.split(",")) == len(_overrides.FIELDS)


def test_what_holds_for_a_tile_of_few_rows_holds_for_fewer(dtype):
    def choice(m, **options):
        options = dict(layout="nt", dtype=dtype, device="H200") | options
        plan = planning.plan(m, 4096, 4096, **options)
        return plan.override, plan.kernel, plan.splits

    assert {choice(m) for m in range(1, 17)} == {("built-in", "sm90_16x64x64", 2)}
    assert {choice(m) for m in range(17, 33)} == {("built-in", "sm90_32x128x64", 2)}
    assert choice(64)[0] == "built-in"
    assert {choice(m)[0] for m in (*range(33, 64), *range(65, 128))} == {None}
    for options in (dict(layout="nn"), dict(out_dtype=torch.float32), dict(batch=2)):
        assert choice(9, **options)[0] is None
