"""Measurements: one row a candidate, as CSV and as the table that is printed."""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.shapes import (
    H100_CLAIMS,
    ONLY_ON,
    RTX5060_RATIOS,
    RTX5060_TORCH_TFLOPS,
    SUITES,
    Shape,
)

RESULTS = Path(__file__).resolve().parent / "results"

COLUMNS = (
    "gpu",
    "sm_clock_mhz",
    "power_w",
    "temperature_c",
    "driver",
    "torch",
    "cuda",
    "cublas",
    "vitamin",
    "commit",
    "date",
    "state",
    "suite",
    "dtype",
    "layout",
    "m",
    "n",
    "k",
    "batch",
    "kernel",
    "time_us",
    "tflops",
    "tbs",
    "ratio_torch",
    "ratio_cublas",
    "err",
)

# Of runs that forced the number of K parts; empty for baselines.
SPLIT_COLUMNS = (*COLUMNS, "splits")

# Candidates that are not this package's kernels: their errors are shown, not counted.
BASELINES = ("torch", "cublas")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def rows(
    shape: Shape, dtype: str, suite: str, state: str, us: dict, errors: dict, facts: dict
) -> list[dict[str, str]]:
    """CSV rows of one problem: `us` and `errors` by candidate, `facts` the run's columns."""

    def ratio(baseline: str, name: str) -> float | None:
        return us[baseline] / us[name] if baseline in us else None

    out = []
    for name, time_us in us.items():
        row = dict.fromkeys(COLUMNS, "")
        row.update(facts)
        row.update(
            state=state,
            suite=suite,
            dtype=dtype,
            layout=shape.layout,
            m=str(shape.m),
            n=str(shape.n),
            k=str(shape.k),
            batch=str(shape.batch),
            kernel=name,
            time_us=_number(time_us),
            tflops=_number(shape.flops / time_us / 1e6),
            tbs=_number(shape.bytes / time_us / 1e6),
            ratio_torch=_number(ratio("torch", name)),
            ratio_cublas=_number(ratio("cublas", name)),
            err=_number(errors[name]),
        )
        out.append(row)
    return out


def shape_of(row: dict[str, str]) -> Shape:
    return Shape(int(row["m"]), int(row["n"]), int(row["k"]), row["layout"], int(row["batch"]))


def is_wrong(row: dict[str, str]) -> bool:
    """Whether a kernel of this package missed the bound (NaN counts as missing it)."""
    checked = row["kernel"] not in BASELINES and row["err"] != ""
    return checked and not float(row["err"]) <= 1.0


def file_name(facts: dict[str, str], suites: Iterable[str]) -> str:
    """A name that sorts by GPU, then by what was run, then by date."""
    if set(SUITES) - set(suites) <= set(ONLY_ON):  # a GPU may have no kernels for those
        suites = ["all"]
    gpu = re.sub(r"[^a-z0-9]+", "-", facts["gpu"].lower()).strip("-")
    stamp = re.sub(r"[^0-9TZ]", "", facts["date"])
    return f"{gpu}-{'-'.join(suites)}-{stamp}.csv"


def write(path: Path, measured: list[dict[str, str]], columns: Sequence[str] = COLUMNS) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(measured)


def read(path: Path, columns: Sequence[str] = COLUMNS) -> list[dict[str, str]]:
    """The rows of a file that `write` made with these columns; none for any other CSV."""
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != tuple(columns):
            return []
        return list(reader)


def read_all(files: Iterable[Path], columns: Sequence[str] = COLUMNS) -> list[dict[str, str]]:
    """Every measurement in the files that have these columns, the newest last."""
    measured = [row for path in files for row in read(path, columns)]
    return sorted(measured, key=lambda row: row["date"])


def read_others(files: Iterable[Path], column: str) -> list[dict[str, str]]:
    """Rows of the CSVs that another script than bench.py wrote, known by a column; newest last.

    Rows of a run without a GPU are left out.
    """
    rows = []
    for path in files:
        with path.open(newline="") as file:
            rows += [row for row in csv.DictReader(file) if column in row]
    rows = [row for row in rows if not row["gpu"].startswith("cpu")]
    return sorted(rows, key=lambda row: row["date"])


def recorded(folder: Path = RESULTS) -> list[dict[str, str]]:
    """Every measurement in a folder, the newest last."""
    return read_all(sorted(folder.glob("*.csv")))


def newest(measured: Iterable[dict[str, str]], **wanted: str) -> dict[tuple, dict[str, str]]:
    """The last row of each (shape, dtype, kernel) among those whose columns are as wanted."""
    found = {}
    for row in measured:
        if all(row[column] == value for column, value in wanted.items()):
            found[shape_of(row), row["dtype"], row["kernel"]] = row
    return found


def geomean(values: Iterable[float]) -> float:
    return math.exp(statistics.fmean(math.log(value) for value in values))


HEADER = (
    f"{'problem':<26}{'type':<6}{'kernel':<18}{'time us':>11}{'TFLOP/s':>9}{'TB/s':>7}"
    f"{'x torch':>9}{'x cublas':>9}{'err/bound':>11}"
)


def _cell(text: str, width: int, digits: int) -> str:
    if not text:
        return f"{'-':>{width}}"
    value = float(text)
    return f"{value:{width}.{digits if value >= 1 else 3}f}"


def line(row: dict[str, str]) -> str:
    """A row of the printed table."""
    error = float(row["err"])
    mark = ""
    if not error <= 1.0:
        mark = "  WRONG" if is_wrong(row) else "  (outside the bound)"
    return (
        f"{shape_of(row)!s:<26}{row['dtype']:<6}{row['kernel']:<18}"
        f"{_cell(row['time_us'], 11, 2)}{_cell(row['tflops'], 9, 1)}{_cell(row['tbs'], 7, 2)}"
        f"{_cell(row['ratio_torch'], 9, 3)}{_cell(row['ratio_cublas'], 9, 3)}{error:>11.3g}{mark}"
    )


def summary(measured: list[dict[str, str]]) -> list[str]:
    """A line a suite, type, state and kernel: mean and extremes of the speedup over torch."""
    groups: dict[tuple, list[float]] = {}
    for row in measured:
        if row["kernel"] != "torch" and row["ratio_torch"]:
            key = (row["suite"], row["dtype"], row["state"], row["kernel"])
            groups.setdefault(key, []).append(float(row["ratio_torch"]))
    lines = [
        f"{suite:<10} {dtype} {state:<5} {kernel:<16} x torch: geometric mean "
        f"{geomean(ratios):.3f}, least {min(ratios):.3f}, most {max(ratios):.3f}, n {len(ratios)}"
        for (suite, dtype, state, kernel), ratios in groups.items()
    ]
    wrong = sum(is_wrong(row) for row in measured)
    lines.append(f"{len(measured)} measurements, {wrong} wrong")
    return lines


def ladder_table(measured: list[dict[str, str]]) -> list[str]:
    """A ladder's rows of one type and state, beside what is known of it from another GPU."""
    figures = [("ratio_torch", "x torch", 3), ("tflops", "TFLOP/s", 1)]
    if measured[0]["suite"] == "ladder":
        title = "RTX 5060 x torch"
        known = {kernel: f"{ratio:.2f}" for kernel, ratio in RTX5060_RATIOS.items()}
        note = f"RTX 5060: mobile, at 4096x4096x4096, torch at {RTX5060_TORCH_TFLOPS} TFLOP/s"
    else:
        figures.reverse()
        title, known = "claimed for an H100", H100_CLAIMS
        note = "claimed by the source of this ladder, with the cuBLAS of its day"
    width = max(map(len, [title, *known.values()])) + 2
    head = "".join(f"{name:>9}" for _, name, _ in figures)
    lines = [f"{'kernel':<26}{'time us':>10}{head}{title:>{width}}"]
    for row in measured:
        cells = "".join(f"{float(row[column]):>9.{digits}f}" for column, _, digits in figures)
        lines.append(
            f"{row['kernel']:<26}{float(row['time_us']):>10.2f}{cells}"
            f"{known.get(row['kernel'], '-'):>{width}}"
        )
    return [*lines, f"({note})"]
