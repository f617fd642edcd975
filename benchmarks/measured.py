"""Prints the rows of csrc/dispatch/measured.cpp, the choices that are built in.

    python benchmarks/measured.py [FILE.csv ...]

Reads times of the kernels by name and number of K parts (default: those of benchmarks/results; the
last one of each way counts). A row is printed for every problem on which the cost model's choice
lost more than 2 % to the fastest recorded way that "auto" could take. Problems whose model's choice
was not recorded are counted on stderr. Changes no file: the rows go into measured.cpp by hand.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: profile.py beside this file must not hide the standard library's.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks import records
from benchmarks.bench import DTYPES
from benchmarks.shapes import Shape
from vitamin_hgemm import planning
from vitamin_hgemm._library import planner

LOSS = 1.02  # what is left to the model

Way = tuple[str, int]  # kernel, parts of K


@dataclass(frozen=True)
class Problem:
    gpu: str
    shape: Shape
    dtype: str


def read_times(files: list[Path]) -> dict[Problem, dict[Way, float]]:
    """Microseconds by problem and way."""
    times: dict[Problem, dict[Way, float]] = {}
    for row in records.read_all(files, records.SPLIT_COLUMNS):
        if row["kernel"] not in records.BASELINES and not records.is_wrong(row):
            problem = Problem(row["gpu"], records.shape_of(row), row["dtype"])
            way = row["kernel"], int(row["splits"])
            times.setdefault(problem, {})[way] = float(row["time_us"])
    return times


def _options(problem: Problem) -> dict:
    shape = problem.shape
    extents = dict(m=shape.m, n=shape.n, k=shape.k, batch=max(shape.batch, 1))
    return extents | dict(layout=shape.layout, dtype=DTYPES[problem.dtype], out_dtype=None)


def _told(way: Way, us: float) -> str:
    parts = f"/{way[1]}" if way[1] > 1 else ""
    return f"{way[0]}{parts} {us:.1f} us"


def row(problem: Problem, times: dict[Way, float]) -> str | None:
    """The row of a problem; None if the model does well. LookupError if that is not recorded."""
    options = _options(problem)
    device = problem.gpu.removeprefix("NVIDIA ")
    candidates = [(c.kernel, c.splits) for c in planning.plan(**options, device=device).candidates]
    model = candidates[0]
    if model not in times:
        raise LookupError(f"{problem}: {model}")
    best = min((way for way in candidates if way in times), key=times.__getitem__)
    if times[model] <= LOSS * times[best]:
        return None
    key = ", ".join(map(str, planner().problem_key(planning.read_problem(**options))))
    return (
        f"      // {problem.shape} {problem.dtype}: {_told(best, times[best])}, "
        f"not {_told(model, times[model])}\n"
        f'      {{"{problem.gpu}", {{{key}}}, "{best[0]}", {best[1]}}},'
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.csv")
    args = parser.parse_args(argv)
    times = read_times(args.files or sorted(records.RESULTS.glob("*.csv")))
    if not times:
        print("no times of kernels by name and number of K parts", file=sys.stderr)
        return 2
    rows, unknown = [], 0
    for problem, ways in times.items():
        try:
            rows.append(row(problem, ways))
        except LookupError:
            unknown += 1
    print(*filter(None, rows), sep="\n")
    if unknown:
        print(f"{unknown} of {len(times)} problems: model's choice not recorded", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
