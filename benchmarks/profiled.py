"""One launch of each case under Nsight Compute, and what it read of them.

Run as a script this is the program that ncu profiles: its arguments are the cases.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: profile.py beside this file must not hide the standard library's.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks import ncu
from benchmarks.metrics import STALLS, Report
from benchmarks.shapes import Shape, parse_shape
from benchmarks.timing import make_inputs, make_output

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Case:
    dtype: str
    shape: Shape
    kernel: str

    def __str__(self) -> str:
        return f"{self.dtype}/{self.shape}/{self.kernel}"


def parse_case(text: str) -> Case:
    """Reads what str(case) wrote."""
    dtype, shape, kernel = text.split("/")
    return Case(dtype, parse_shape(shape), kernel)


@dataclass
class Reading:
    """What ncu read of a case: the launch that took longest, and how many there were."""

    launches: int
    cuda_kernel: str
    values: dict[str, float | str]

    def texts(self) -> dict[str, str]:
        """The values as they stand in a CSV."""
        return {k: v if isinstance(v, str) else f"{v:.6g}" for k, v in self.values.items()}


class Runner:
    """Launches cases on inputs that are made once for each type and shape."""

    def __init__(self, device: torch.device):
        import vitamin_hgemm  # noqa: F401  (registers the op)

        self.device = device
        self.tensors: dict[tuple[str, Shape], tuple[torch.Tensor, ...]] = {}

    @torch.inference_mode()
    def launch(self, case: Case) -> None:
        key = case.dtype, case.shape
        if key not in self.tensors:
            dtype = DTYPES[case.dtype]
            inputs = make_inputs(case.shape, dtype, self.device)
            self.tensors[key] = (*inputs, make_output(case.shape, dtype, self.device))
        a, b, out = self.tensors[key]
        torch.ops.vitamin.hgemm.out(a, b, kernel=case.kernel, out=out)

    def keep_busy(self, case: Case) -> None:
        """A few launches, waited for."""
        for _ in range(8):
            self.launch(case)
        torch.cuda.synchronize(self.device)


def launch(cases: list[Case]) -> None:
    """The profiled program: each case once, a separator before each and after the last."""
    device = torch.device("cuda")
    runner = Runner(device)
    mark = torch.zeros(32, device=device)
    refused = set()
    for case in cases:
        try:
            runner.launch(case)
        except torch.AcceleratorError:
            raise
        except RuntimeError as refusal:
            print(f"{case}: {str(refusal).splitlines()[0]}", file=sys.stderr)
            refused.add(case)
    torch.atan(mark)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for case in cases:
        torch.atan(mark)
        if case not in refused:
            runner.launch(case)
    torch.atan(mark)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def longest(launches: list[ncu.LaunchedKernel], chosen: dict[str, str]) -> ncu.LaunchedKernel:
    """The launch that a case is about: others are split-K reductions and copies of operands."""
    return max(launches, key=lambda one: one.values.get(chosen.get("time_ns", ""), 0.0))


def top_stalls(values: dict[str, float], count: int = 3) -> str:
    """What the warps wait for most, in percent of all warp-cycles."""
    total = sum(values.get(f"stall_{reason}", 0.0) for reason in STALLS)
    if not total:
        return ""
    shares = {
        reason: 100 * values[f"stall_{reason}"] / total
        for reason in STALLS
        if reason != "selected" and f"stall_{reason}" in values
    }
    most = sorted(shares, key=shares.get, reverse=True)[:count]
    return ", ".join(f"{reason} {shares[reason]:.0f}" for reason in most)


def columns_of(
    launched: ncu.LaunchedKernel, chosen: dict[str, str], report: Report
) -> dict[str, float | str]:
    """The report's columns of one launch; those that ncu didn't give are absent."""
    values = {
        column: launched.values[metric]
        for column, metric in chosen.items()
        if metric in launched.values
    }
    for column, (factor, part, whole) in report.derived.items():
        if part in values and (whole is None or values.get(whole)):
            values[column] = factor * values[part] / (values[whole] if whole else 1)
    stalls = top_stalls(values)
    return values | ({"top_stalls": stalls} if stalls else {})


def read(
    path: str, cases: list[Case], report: Report
) -> tuple[list[Reading | None], dict[str, str]]:
    """Profiles the cases with the ncu at `path`.

    Returns a reading a case, None where the kernel refused it, and the metric of each column.
    NcuError if ncu profiles nothing or loses count.
    """
    command = [sys.executable, str(Path(__file__).resolve()), *map(str, cases)]
    launches, chosen = ncu.profile(path, command, report.metrics)
    grouped = ncu.groups(launches)
    if len(grouped) != len(cases):
        raise ncu.NcuError(
            f"ncu profiled {len(grouped)} of {len(cases)} cases: {len(launches)} launches, "
            f"separators named *{ncu.SEPARATOR}*"
        )
    readings: list[Reading | None] = []
    for group in grouped:
        if not group:
            readings.append(None)
            continue
        main = longest(group, chosen)
        readings.append(Reading(len(group), main.name, columns_of(main, chosen, report)))
    return readings, chosen


def missing(report: Report, chosen: dict[str, str]) -> list[str]:
    """Columns that this ncu doesn't offer for this GPU."""
    return [column for column in report.metrics if column not in chosen]


if __name__ == "__main__":
    launch([parse_case(text) for text in sys.argv[1:]])
