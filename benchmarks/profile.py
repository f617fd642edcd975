"""Reads with Nsight Compute (ncu) what each step of a ladder changed: a line a kernel.

    python benchmarks/profile.py                        the Ampere ladder and cuBLAS at 4096³
    python benchmarks/profile.py --ladder-sm90          the Hopper ladder at 8192³, layout nt
    python benchmarks/profile.py --shape 8192x8192x8192:nn --dtype fp16 --kernels sm80 cublas
    python benchmarks/profile.py metrics                which metric each column is read from

Use of the tensor cores, bank conflicts of shared memory, L2 hits, bytes of device memory; for the
Ampere ladder shared wavefronts against the ideal and sectors of a global store, for the Hopper
ladder the L2's throughput, reads and writes of the data banks (WGMMA and TMA included) and what the
warps wait for. Writes a CSV to benchmarks/results (or --out), in which clock, power and temperature
are nvidia-smi's after a second of the kernel without ncu. Exit status: 0; 2 without ncu or a GPU,
or if ncu can't profile. The clocks are left alone, and caches are flushed before each pass.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import partial
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: this file must not hide the standard library's profile module.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks import environment, metrics, ncu, records
from benchmarks.profiled import DTYPES, Case, Reading, Runner, missing, read
from benchmarks.shapes import LADDERS, SUITES, Shape, parse_shape

# Name in the CSV's: what is read, and of which suite's kernels and size if nothing else is said.
REPORTS = {
    "profile": (metrics.LADDER, "ladder"),
    "profile-sm90": (metrics.LADDER_SM90, "ladder-sm90"),
}
TOPICS = (
    *("mem_shared", "wavefronts_shared", "ldgsts", "pipe_tensor", "bytes_per_sector"),
    *("data_bank", "gmma", "tma", "m_xbar2l1tex_read_bytes", "issue_stalled"),
)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("action", nargs="?", default="report", choices=("report", "metrics"))
    add("--ladder-sm90", action="store_true", help="columns, kernels and size of the Hopper ladder")
    add("--shape", type=parse_shape, metavar="MxNxK:LAYOUT", help="default: the ladder's size")
    add("--size", type=int, metavar="N", help="NxNxN in the ladder's layout")
    add("--dtype", nargs="+", choices=tuple(DTYPES), default=list(DTYPES), help="default: both")
    add("--kernels", nargs="+", metavar="NAME", help="default: cublas and the ladder's steps")
    add("--ncu", default="ncu", metavar="PATH", help="default: the ncu in PATH")
    add("--out", type=Path, default=records.RESULTS, metavar="DIR", help="folder of the CSV")
    args = parser.parse_args(argv)
    args.report = "profile-sm90" if args.ladder_sm90 else "profile"
    suite = REPORTS[args.report][1]
    size = SUITES[suite][0]
    if args.size:
        args.shape = Shape(args.size, args.size, args.size, size.layout)
    args.shape = args.shape or size
    args.kernels = args.kernels or [name for name in LADDERS[suite] if name != "auto"]
    return args


def table_lines(report: metrics.Report, read: list[tuple[Case, Reading | None]]) -> list[str]:
    """The printed table; None stands for a kernel that refused the problem."""
    width = max(len(case.kernel) for case, _ in read) + 2
    head = [
        f"{'':<5}{'':<{width}}" + "".join(f"{column[0]:>10}" for column in report.table.values()),
        f"{'type':<5}{'kernel':<{width}}"
        + "".join(f"{column[1]:>10}" for column in report.table.values()),
    ]
    lines = []
    for case, reading in read:
        start = f"{case.dtype:<5}{case.kernel:<{width}}"
        if reading is None:
            lines.append(f"{start}  can't run this problem")
            continue
        cells = []
        for column, (_, _, factor, digits) in report.table.items():
            value = reading.values.get(column)
            cells.append(f"{'-':>10}" if value is None else f"{value * factor:>10.{digits}f}")
        stalls = reading.values.get("top_stalls", "")
        lines.append(f"{start}{''.join(cells)}" + (f"  {stalls}" if stalls else ""))
    if any(reading and "top_stalls" in reading.values for _, reading in read):
        head[1] += "  warps wait for, % of their cycles"
    return head + lines


def csv_columns(report: metrics.Report) -> list[str]:
    return [
        *("gpu", "sm_clock_mhz", "power_w", "temperature_c", "driver", "torch", "cuda", "cublas"),
        *("vitamin", "commit", "date", "dtype", "layout", "m", "n", "k", "batch", "kernel"),
        *("launches", "cuda_kernel", *report.metrics, *report.derived, "top_stalls"),
    ]


def show(args: argparse.Namespace, path: str) -> int:
    report = REPORTS[args.report][0]
    shape, device = args.shape, torch.device("cuda")
    cases = [Case(dtype, shape, kernel) for dtype in args.dtype for kernel in args.kernels]
    try:
        readings, chosen = read(path, cases, report)
    except ncu.NcuError as failure:
        print(f"ncu could not profile:\n{failure}", file=sys.stderr)
        return 2
    facts = environment.describe(device)
    runner = Runner(device)
    rows = []
    for case, reading in zip(cases, readings, strict=True):
        if reading is None:
            continue
        row = facts | environment.read_smi(device, partial(runner.keep_busy, case), 1.0)
        row |= {"dtype": case.dtype, "layout": shape.layout, "m": shape.m, "n": shape.n}
        row |= {"k": shape.k, "batch": shape.batch, "kernel": case.kernel}
        row |= {"launches": reading.launches, "cuda_kernel": reading.cuda_kernel}
        rows.append(row | reading.texts())
    print(f"{shape} on {facts['gpu']}, conflicts in % of the wavefronts of their kind")
    print("\n".join(table_lines(report, list(zip(cases, readings, strict=True)))))
    absent = missing(report, chosen)
    if absent:
        print(f"not offered by this ncu for this GPU: {', '.join(absent)}")
    target = args.out / records.file_name(facts, [args.report])
    records.write(target, rows, csv_columns(report))
    print(f"wrote {target}")
    return 0


def show_metrics(path: str) -> None:
    """Prints the metric of each column, and all names that speak of what the columns are about."""
    names = ncu.query_names(path)
    print(f"{len(names)} metrics")
    for name, (report, _) in REPORTS.items():
        chosen = ncu.choose(report.metrics, names)
        print(f"\n{name}")
        for column, tried in report.metrics.items():
            print(f"{column:<26}{chosen.get(column) or 'missing; tried ' + ', '.join(tried)}")
    print()
    for topic in TOPICS:
        print(f"names with {topic}: {' '.join(sorted(n for n in names if topic in n)) or '-'}")


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    path = shutil.which(args.ncu)
    if path is None:
        print(f"profile.py needs Nsight Compute, and {args.ncu!r} is not there", file=sys.stderr)
        return 2
    if not torch.cuda.is_available():
        print("profile.py needs a GPU, and torch sees none", file=sys.stderr)
        return 2
    if args.action == "metrics":
        show_metrics(path)
        return 0
    return show(args, path)


if __name__ == "__main__":
    sys.exit(main())
