"""Times what a call costs the host, beside torch.mm, on a product too small to keep the GPU busy.

    python benchmarks/host.py [--dtype bf16 fp16]

A figure is the least of several runs of back-to-back calls, the two candidates run in turn. Prints
a line a way of calling and writes a CSV to benchmarks/results (or --out). On the CPU, where a call
returns with the result, the product itself is part of the time.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import sys
import time
from collections.abc import Callable
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: profile.py beside this file must not hide the standard library's.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks import environment, records

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
SIZE = 64
FACTS = ("gpu", "driver", "torch", "cuda", "cublas", "vitamin", "commit", "date")
COLUMNS = (*FACTS, "dtype", "call", "torch_us", "vitamin_us", "ratio")


def ways(dtype: torch.dtype, device: torch.device) -> dict[str, tuple]:
    """By name: the mode to call in, and torch's and this package's call."""
    a, b, out = (torch.randn(SIZE, SIZE, device=device).to(dtype) for _ in range(3))
    weight = torch.nn.Parameter(b.clone())
    ours, ours_out = torch.ops.vitamin.hgemm, torch.ops.vitamin.hgemm.out
    plain = (lambda: torch.mm(a, b), lambda: ours(a, b))
    into = (lambda: torch.mm(a, b, out=out), lambda: ours_out(a, b, out=out))
    return {
        "inference mode": (torch.inference_mode, *plain),
        "inference mode, out=": (torch.inference_mode, *into),
        "no_grad": (torch.no_grad, *plain),
        "recording a gradient": (
            contextlib.nullcontext,
            lambda: torch.mm(a, weight),
            lambda: ours(a, weight),
        ),
    }


def least_us(
    calls: tuple[Callable, ...], synchronize: Callable, runs: int, repeats: int
) -> list[float]:
    """The least microseconds a call of each, over `runs` runs of `repeats` calls in turn."""
    taken: list[list[float]] = [[] for _ in calls]
    for run in range(-1, runs):  # the first one warms up
        for times, call in zip(taken, calls, strict=True):
            synchronize()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            elapsed = time.perf_counter() - start
            synchronize()
            if run >= 0:
                times.append(elapsed / repeats * 1e6)
    return [min(times) for times in taken]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--dtype", nargs="+", choices=tuple(DTYPES), default=list(DTYPES), help="default: both")
    add("--device", type=torch.device, help="default: a GPU if there is one")
    add("--runs", type=int, default=7, help="default: 7")
    add("--repeats", type=int, default=2000, help="calls a run (default: 2000)")
    add("--out", type=Path, default=records.RESULTS, metavar="DIR", help="folder of the CSV")
    args = parser.parse_args(argv)
    device = args.device or torch.device("cuda" if torch.cuda.is_available() else "cpu")

    import vitamin_hgemm  # noqa: F401  (registers the op)

    on_gpu = device.type == "cuda"
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    rows = []
    for dtype in args.dtype:
        for call, (mode, *calls) in ways(DTYPES[dtype], device).items():
            with mode():
                us = least_us(calls, synchronize, args.runs, args.repeats)
            row = {"dtype": dtype, "call": call, "torch_us": us[0], "vitamin_us": us[1]}
            rows.append(row | {"ratio": us[0] / us[1]})
            print(f"{dtype} {call:<22} torch.mm {us[0]:8.2f} us  vitamin_hgemm {us[1]:8.2f} us")
    facts = environment.describe(device)
    facts |= {"driver": environment.read_smi(device)["driver"]}
    path = args.out / records.file_name(facts, ["host"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow(
                facts | {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
            )
    print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
