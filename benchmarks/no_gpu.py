"""What the benchmark shows on a machine without a GPU: the CPU path, and the plan for an H200."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import torch

from benchmarks import environment, records
from benchmarks.shapes import CPU_SHAPES, LADDERS, ONLY_ON, Shape
from benchmarks.timing import time_cpu

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_ROUNDS = 15
PLANNED_GPU = "H200"


def run_cpu(dtypes: list[str]) -> list[dict[str, str]]:
    """Times and checks a few small problems on the CPU; returns their rows."""
    hgemm = torch.ops.vitamin.hgemm.out
    products = {"torch": torch.matmul, "auto": lambda a, b, out: hgemm(a, b, out=out)}
    facts = environment.describe(torch.device("cpu"))
    measured = []
    for dtype in dtypes:
        for shape in CPU_SHAPES:
            samples = time_cpu(shape, _DTYPES[dtype], products, _ROUNDS)
            us = {name: sample.us for name, sample in samples.items()}
            errors = {name: sample.error for name, sample in samples.items()}
            measured += records.rows(shape, dtype, "cpu", "cold", us, errors, facts)
    return measured


def _planned(shape: Shape, dtype: str) -> str:
    """The choice of select() and the model's time, or why there is none."""
    import vitamin_hgemm

    plan = vitamin_hgemm.plan(
        shape.m,
        shape.n,
        shape.k,
        batch=max(shape.batch, 1),
        dtype=_DTYPES[dtype],
        layout=shape.layout,
        device=PLANNED_GPU,
    )
    choice = plan.kernel
    if plan.splits > 1:
        choice += f" split-K {plan.splits}"
    copied = [name for name, copy in (("a", plan.repack_a), ("b", plan.repack_b)) if copy]
    if copied:
        choice += f" copy {'+'.join(copied)}"
    return f"{choice:<42}{plan.predicted_us:>10.1f}"


def _recorded(row: dict[str, str] | None) -> str:
    if row is None:
        return f"{'-':>10}{'-':>9}"
    return f"{float(row['time_us']):>10.1f}{float(row['ratio_torch']):>9.3f}"


def plan_lines(
    dtypes: list[str], problems: list[tuple[str, Shape]], folder: Path = records.RESULTS
) -> list[str]:
    """A line a problem: the choice, the predicted time, the recorded measurements by type."""
    on_gpu = [row for row in records.recorded(folder) if PLANNED_GPU in row["gpu"]]
    known = records.newest(on_gpu, kernel="auto", state="cold")
    where = f"on an {PLANNED_GPU}, not run here:"
    chosen = "kernel that would be chosen"
    lines = [
        f"{'':<26}{where:<42}{'model':>10}" + "".join(f"{'recorded ' + d:>19}" for d in dtypes),
        f"{'problem':<26}{chosen:<42}{'us':>10}" + f"{'us':>10}{'x torch':>9}" * len(dtypes),
    ]
    for shape in dict.fromkeys(shape for _, shape in problems):
        plans = {dtype: _planned(shape, dtype) for dtype in dtypes}
        for plan in dict.fromkeys(plans.values()):
            cells = [
                _recorded(known.get((shape, dtype, "auto")) if plans[dtype] == plan else None)
                for dtype in dtypes
            ]
            lines.append(f"{shape!s:<26}{plan}{''.join(cells)}")
    made = sorted({f"{row['date'][:10]} at commit {row['commit']}" for row in known.values()})
    if made:
        lines.append(f"recorded: read from {folder.name}/*.csv, measured {', '.join(made)}")
    else:
        lines.append(f"recorded: no measurement of an {PLANNED_GPU} in {folder.name}/")
    return lines


def ladder_lines(dtypes: list[str], folder: Path = records.RESULTS) -> list[str]:
    """The ladders as they were recorded on an H200, a table a type; empty if they never were."""
    on_gpu = [row for row in records.recorded(folder) if PLANNED_GPU in row["gpu"]]
    lines = []
    for suite, dtype in product(LADDERS, dtypes):
        found = records.newest(on_gpu, suite=suite, state="cold", dtype=dtype)
        rows = list(found.values())
        if rows:
            newest = max(rows, key=lambda row: row["date"])
            key = newest["date"], records.shape_of(newest)
            rows = [row for row in rows if (row["date"], records.shape_of(row)) == key]
            lines.append(
                f"\n{suite}, {records.shape_of(newest)}, {dtype}, as recorded on an {PLANNED_GPU} "
                f"{newest['date'][:10]} at commit {newest['commit']}"
            )
            lines += records.ladder_table(rows)
    return lines


def left_out(suite: str, because: str) -> str:
    """The sentence about a suite that only runs on one compute capability."""
    wanted = "{}.{}".format(*ONLY_ON[suite])
    return f"{suite}: its kernels run on compute capability {wanted} only and {because}; left out"


def run(dtypes: list[str], problems: list[tuple[str, Shape]]) -> int:
    """Prints both parts; 1 when a CPU result is wrong."""
    print("no GPU: the CPU path (ATen), timed and checked here")
    print(records.HEADER)
    measured = run_cpu(dtypes)
    for row in measured:
        print(records.line(row))
    for text in records.summary(measured):
        print(text)
    print()
    try:
        lines = plan_lines(dtypes, problems)
    except RuntimeError as missing:  # built without the pybind11 module
        lines = [f"no plan: {missing}"]
    suites = dict.fromkeys(suite for suite, _ in problems)
    lines += [left_out(suite, "there is no GPU") for suite in suites if suite in ONLY_ON]
    print("\n".join(lines + ladder_lines(dtypes)))
    return 1 if any(map(records.is_wrong, measured)) else 0
