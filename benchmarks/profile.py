"""Reads with Nsight Compute (ncu) what each step of the ladder changed: a line a kernel.

    python benchmarks/profile.py                        the ladder, sm80 and cuBLAS at 4096³
    python benchmarks/profile.py --shape 8192x8192x8192:nn --dtype fp16 --kernels sm80 cublas
    python benchmarks/profile.py metrics                which metric each column is read from

Bank conflicts of shared loads and stores, shared wavefronts against the ideal, use of the tensor
cores, L2 hits, bytes of device memory, sectors of a global store. Writes a CSV to
benchmarks/results (or --out). Exit status: 0; 2 without ncu or a GPU, or if ncu can't profile.
The clocks are left alone, and caches are flushed before each pass.
"""

from __future__ import annotations

import argparse
import csv
import shutil
import sys
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: this file must not hide the standard library's profile module.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks import environment, ncu, records
from benchmarks.shapes import LADDER_KERNELS, Shape, parse_shape
from benchmarks.timing import make_inputs, make_output

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
KERNELS = tuple(name for name in LADDER_KERNELS if name != "auto")

# Column: (part, whole), in percent.
SHARES = {
    "load_conflict_pct": ("load_conflicts", "load_wavefronts"),
    "ldmatrix_conflict_pct": ("ldmatrix_conflicts", "ldmatrix_wavefronts"),
    "store_conflict_pct": ("store_conflicts", "store_wavefronts"),
    "sts_conflict_pct": ("sts_conflicts", "sts_wavefronts"),
    "cp_async_conflict_pct": ("cp_async_conflicts", "cp_async_wavefronts"),
}


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        default="report",
        choices=("report", "metrics", "launch"),
        help="launch is the program that ncu profiles",
    )
    add("--shape", type=parse_shape, default=Shape(4096, 4096, 4096), metavar="MxNxK:LAYOUT")
    add("--size", type=int, metavar="N", help="the same as --shape NxNxN:nn")
    add("--dtype", nargs="+", choices=tuple(DTYPES), default=list(DTYPES), help="default: both")
    add("--kernels", nargs="+", metavar="NAME", default=list(KERNELS), help="default: %(default)s")
    add("--ncu", default="ncu", metavar="PATH", help="default: the ncu in PATH")
    add("--out", type=Path, default=records.RESULTS, metavar="DIR", help="folder of the CSV")
    args = parser.parse_args(argv)
    if args.size:
        args.shape = Shape(args.size, args.size, args.size)
    return args


def cases(args: argparse.Namespace) -> list[tuple[str, str]]:
    return [(dtype, kernel) for dtype in args.dtype for kernel in args.kernels]


@torch.inference_mode()
def launch(args: argparse.Namespace) -> None:
    """The profiled program: each case once, a separator before each and after the last."""
    import vitamin_hgemm  # noqa: F401  (registers the op)

    device = torch.device("cuda")
    mark = torch.zeros(32, device=device)
    tensors = {}
    for dtype in args.dtype:
        inputs = make_inputs(args.shape, DTYPES[dtype], device)
        tensors[dtype] = (*inputs, make_output(args.shape, DTYPES[dtype], device))
    hgemm = torch.ops.vitamin.hgemm.out
    refused = set()
    for case in cases(args):
        a, b, out = tensors[case[0]]
        try:
            hgemm(a, b, kernel=case[1], out=out)
        except torch.AcceleratorError:
            raise
        except RuntimeError as refusal:
            print(f"{case[0]} {case[1]}: {str(refusal).splitlines()[0]}", file=sys.stderr)
            refused.add(case)
    torch.atan(mark)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    for case in cases(args):
        torch.atan(mark)
        if case not in refused:
            a, b, out = tensors[case[0]]
            hgemm(a, b, kernel=case[1], out=out)
    torch.atan(mark)
    torch.cuda.synchronize()
    torch.cuda.profiler.stop()


def longest(launches: list[ncu.LaunchedKernel], chosen: dict[str, str]) -> ncu.LaunchedKernel:
    """The launch that a case is about: others are split-K reductions and copies of operands."""
    return max(launches, key=lambda one: one.values.get(chosen.get("time_ns", ""), 0.0))


def case_values(launched: ncu.LaunchedKernel, chosen: dict[str, str]) -> dict[str, float]:
    """The report's columns of one launch; those that ncu didn't give are absent."""
    values = {}
    for column, metric in chosen.items():
        if metric in launched.values:
            values[column] = launched.values[metric]
    for share, (part, whole) in SHARES.items():
        if part in values and values.get(whole):
            values[share] = 100 * values[part] / values[whole]
    if values.get("store_requests") and "store_sectors" in values:
        values["store_sectors_per_request"] = values["store_sectors"] / values["store_requests"]
    return values


# Column: (two lines of title, factor, digits).
TABLE = {
    "time_ns": ("time", "us", 1e-3, 1),
    "tensor_pct": ("tensor", "%", 1, 1),
    "load_conflict_pct": ("loads", "confl.%", 1, 2),
    "ldmatrix_conflict_pct": ("ldmatrix", "confl.%", 1, 2),
    "store_conflict_pct": ("stores", "confl.%", 1, 2),
    "cp_async_wavefronts": ("cp.async", "wavef. M", 1e-6, 2),
    "cp_async_conflict_pct": ("cp.async", "confl.%", 1, 2),
    "shared_wavefronts": ("shared", "wavef. M", 1e-6, 2),
    "shared_wavefronts_ideal": ("ideal", "wavef. M", 1e-6, 2),
    "l2_hit_pct": ("L2", "hits %", 1, 1),
    "dram_read_bytes": ("DRAM", "read MB", 1e-6, 1),
    "store_sectors_per_request": ("store", "sect./rq", 1, 2),
    "store_bytes_per_sector": ("store", "B/sector", 1, 1),
    "registers": ("regs", "", 1, 0),
}


def table_lines(read: list[tuple[str, str, dict[str, float] | None]]) -> list[str]:
    """The printed table of (dtype, kernel, values or None where the kernel refused)."""
    lines = [
        f"{'':<5}{'':<17}" + "".join(f"{column[0]:>10}" for column in TABLE.values()),
        f"{'type':<5}{'kernel':<17}" + "".join(f"{column[1]:>10}" for column in TABLE.values()),
    ]
    for dtype, kernel, values in read:
        if values is None:
            lines.append(f"{dtype:<5}{kernel:<17}  can't run this problem")
            continue
        cells = []
        for column, (_, _, factor, digits) in TABLE.items():
            value = values.get(column)
            cells.append(f"{'-':>10}" if value is None else f"{value * factor:>10.{digits}f}")
        lines.append(f"{dtype:<5}{kernel:<17}" + "".join(cells))
    return lines


CSV_COLUMNS = (
    *("gpu", "driver", "torch", "cuda", "cublas", "vitamin", "commit", "date"),
    *("dtype", "layout", "m", "n", "k", "batch", "kernel", "launches", "cuda_kernel"),
    *ncu.METRICS,
    *SHARES,
    "store_sectors_per_request",
)


def report(args: argparse.Namespace, path: str) -> int:
    device = torch.device("cuda")
    command = [sys.executable, str(Path(__file__).resolve()), "launch", "--shape", str(args.shape)]
    command += ["--dtype", *args.dtype, "--kernels", *args.kernels]
    try:
        launches, chosen = ncu.profile(path, command)
    except ncu.NcuError as failure:
        print(f"ncu could not profile:\n{failure}", file=sys.stderr)
        return 2
    grouped = ncu.groups(launches)
    if len(grouped) != len(cases(args)):
        print(
            f"ncu profiled {len(grouped)} of {len(cases(args))} cases: {len(launches)} launches, "
            f"separators named *{ncu.SEPARATOR}*",
            file=sys.stderr,
        )
        return 2
    facts = environment.describe(device) | environment.read_smi(device)
    shape = args.shape
    run = {column: facts[column] for column in CSV_COLUMNS if column in facts}
    run |= {"layout": shape.layout, "m": shape.m, "n": shape.n, "k": shape.k, "batch": shape.batch}
    read, rows = [], []
    for (dtype, kernel), group in zip(cases(args), grouped, strict=True):
        if not group:
            read.append((dtype, kernel, None))
            continue
        main = longest(group, chosen)
        values = case_values(main, chosen)
        read.append((dtype, kernel, values))
        row = run | {"dtype": dtype, "kernel": kernel, "launches": len(group)}
        row |= {"cuda_kernel": main.name} | {k: f"{v:.6g}" for k, v in values.items()}
        rows.append(row)
    print(f"{shape} on {facts['gpu']}, conflicts in % of the wavefronts of their kind")
    print("\n".join(table_lines(read)))
    missing = [column for column in ncu.METRICS if column not in chosen]
    if missing:
        print(f"not offered by this ncu for this GPU: {', '.join(missing)}")
    target = args.out / records.file_name(facts, ["profile"])
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"wrote {target}")
    return 0


def show_metrics(path: str) -> None:
    """Prints the metric of each column, and all names that speak of what the columns are about."""
    names = ncu.query_names(path)
    chosen = ncu.choose(names)
    print(f"{len(names)} metrics")
    for column, metrics in ncu.METRICS.items():
        print(f"{column:<26}{chosen.get(column) or 'missing; tried ' + ', '.join(metrics)}")
    for topic in ("mem_shared", "wavefronts_shared", "ldgsts", "pipe_tensor", "bytes_per_sector"):
        print(f"names with {topic}: {' '.join(sorted(n for n in names if topic in n)) or '-'}")


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    if args.action == "launch":
        launch(args)
        return 0
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
    return report(args, path)


if __name__ == "__main__":
    sys.exit(main())
