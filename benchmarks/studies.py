"""Times the variants of the Hopper ladder's kernels that show what one choice is worth.

    python benchmarks/studies.py                        every study
    python benchmarks/studies.py --only raster hot
    python benchmarks/studies.py --no-ncu               times only

swizzle, ring, promotion, box, cluster and raster each take one kernel in several variants, hot two
kernels also at the power cap; sizes and names are in shapes.py. The method is bench.py's: the
variants, torch.matmul and cuBLAS take turns, on random data that no cache still holds, and every
result is checked. Then one launch of each goes through Nsight Compute, if it is there: registers,
bank conflicts, L2 hits, bytes of device memory. Writes one CSV, a row a measurement.
Exit status: 0; 1 when a result is wrong; 2 without a GPU of compute capability 9.0.
"""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: profile.py beside this file must not hide the standard library's.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks import bench, environment, metrics, ncu, records
from benchmarks.profiled import Case, Reading, missing, read
from benchmarks.shapes import STUDIES, Shape
from benchmarks.timing import COLD_ROUNDS, GpuRace

FIXED = ("stages", "threads", "smem_bytes")  # of the kernel table
COLUMNS = (
    *records.COLUMNS,
    *FIXED,
    *(column for column in metrics.STUDY.metrics if column != "time_ns"),
    *metrics.STUDY.derived,
)

Race = tuple[str, str, Shape, list[str]]  # study, type, problem, kernels


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--only", nargs="+", choices=tuple(STUDIES), default=list(STUDIES), metavar="STUDY")
    add("--no-ncu", action="store_true", help="leave Nsight Compute out")
    add("--ncu", default="ncu", metavar="PATH", help="default: the ncu in PATH")
    add("--out", type=Path, default=records.RESULTS, metavar="DIR", help="folder of the CSV")
    return parser.parse_args(argv)


def races(only: list[str], there: set[str]) -> tuple[list[Race], list[str]]:
    """What is to be timed, and the kernels of these studies that the package doesn't have."""
    found, absent = [], []
    for name in dict.fromkeys(only):
        study = STUDIES[name]
        absent += [kernel for kernel in study.kernels if kernel not in there]
        kernels = [kernel for kernel in study.kernels if kernel in there]
        if kernels:
            found += [(name, "bf16", shape, kernels) for shape in study.shapes]
            found += [(name, "fp16", shape, kernels) for shape in study.fp16_shapes]
    return found, list(dict.fromkeys(absent))


def time_race(race: Race, device: torch.device, facts: dict, table: dict) -> list[dict[str, str]]:
    """CSV rows of one problem of a study, without what ncu reads."""
    study, dtype, shape, kernels = race
    gc.collect()
    torch.cuda.empty_cache()
    names = ["torch", "cublas", *kernels]
    timed = GpuRace(shape, bench.DTYPES[dtype], device, bench.products(names))
    for name, reason in timed.refused.items():
        print(f"{shape} {dtype} {name}: can't: {reason}")
    errors = timed.check()

    def rows(state: str, us: dict[str, float], clocks: dict[str, str]) -> list[dict[str, str]]:
        return records.rows(shape, dtype, study, state, us, errors, facts | clocks)

    hot = bench.Hot.CLOCKS_OF_EACH if STUDIES[study].hot else bench.Hot.NO
    measured = bench.timed_rows(timed, device, rows, COLD_ROUNDS, hot)
    return [row | fixed(table.get(row["kernel"])) for row in measured]


def fixed(entry: dict | None) -> dict[str, str]:
    """Columns of a kernel table's entry; torch and cuBLAS have none."""
    return {column: str(entry[column]) for column in FIXED} if entry and entry["stages"] else {}


def read_counters(path: str, planned: list[Race]) -> dict[Case, Reading]:
    """What ncu reads of a launch of each kernel and problem; empty, with a line, if it can't."""
    cases = [
        Case(dtype, shape, kernel)
        for study, dtype, shape, kernels in planned
        if not STUDIES[study].hot
        for kernel in ("cublas", *kernels)
    ]
    cases = list(dict.fromkeys(cases))
    if not cases:
        return {}
    print(f"ncu: {len(cases)} launches")
    try:
        readings, chosen = read(path, cases, metrics.STUDY)
    except ncu.NcuError as failure:
        print(f"ncu could not profile:\n{failure}", file=sys.stderr)
        return {}
    absent = missing(metrics.STUDY, chosen)
    if absent:
        print(f"not offered by this ncu for this GPU: {', '.join(absent)}")
    return {case: one for case, one in zip(cases, readings, strict=True) if one}


def with_counters(row: dict[str, str], counters: dict[Case, Reading]) -> dict[str, str]:
    reading = counters.get(Case(row["dtype"], records.shape_of(row), row["kernel"]))
    if reading is None or row["state"] != "cold":
        return row
    return row | {column: text for column, text in reading.texts().items() if column in COLUMNS}


def table_lines(measured: list[dict[str, str]]) -> list[str]:
    """The printed table of one study."""
    columns = {
        "stages": ("stages", 1, 0),
        "smem_bytes": ("smem KB", 1 / 1024, 0),
        "registers": ("regs", 1, 0),
        "l2_hit_pct": ("L2 hit %", 1, 1),
        "dram_read_bytes": ("DRAM MB", 1e-6, 0),
        "bank_reads_per_wgmma": ("rd/wgmma", 1, 1),
        "bank_writes_per_kb": ("wr/KB", 1, 1),
        "sm_clock_mhz": ("MHz", 1, 0),
        "power_w": ("W", 1, 0),
    }
    titles = "".join(f"{title:>10}" for title, _, _ in columns.values())
    lines = [
        f"{'problem':<23}{'type':<5}{'':<5}{'kernel':<33}{'us':>9}{'TFLOP/s':>9}{'x torch':>9}"
    ]
    lines[0] += titles
    for row in measured:
        line = f"{records.shape_of(row)!s:<23}{row['dtype']:<5}{row['state']:<5}{row['kernel']:<33}"
        line += f"{float(row['time_us']):>9.1f}{float(row['tflops']):>9.1f}"
        line += f"{float(row['ratio_torch']):>9.3f}"
        for column, (_, factor, digits) in columns.items():
            text = row.get(column)
            line += f"{float(text) * factor:>10.{digits}f}" if text else f"{'-':>10}"
        lines.append(line + ("  WRONG" if records.is_wrong(row) else ""))
    return lines


def run(args: argparse.Namespace, device: torch.device) -> int:
    from tqdm import tqdm

    import vitamin_hgemm

    table = {entry["name"]: entry for entry in vitamin_hgemm.kernels()}
    planned, absent = races(args.only, set(table))
    if absent:
        print(f"not in this package, left out: {', '.join(absent)}")
    torch.cuda.set_device(device)
    torch.set_float32_matmul_precision("highest")  # the reference is a true fp32 product
    torch.manual_seed(0)
    facts = environment.describe(device)
    print(", ".join(f"{key} {value}" for key, value in facts.items() if value))
    measured: list[dict[str, str]] = []
    with torch.inference_mode():
        for race in tqdm(planned, unit="problem", disable=None):
            measured += time_race(race, device, facts, table)
    gc.collect()
    torch.cuda.empty_cache()  # ncu's process needs the memory
    if not measured:
        return 0
    target = args.out / records.file_name(facts, ["studies"])
    records.write(target, measured, COLUMNS)  # the times are kept, whatever comes of the counters
    path = None if args.no_ncu else shutil.which(args.ncu)
    if path:
        counters = read_counters(path, planned)
        measured = [with_counters(row, counters) for row in measured]
        records.write(target, measured, COLUMNS)
    elif not args.no_ncu:
        print(f"no counters: {args.ncu!r} is not there")
    for study in dict.fromkeys(row["suite"] for row in measured):
        print(f"\n{study}")
        print("\n".join(table_lines([row for row in measured if row["suite"] == study])))
    print(f"wrote {target}")
    return 1 if any(map(records.is_wrong, measured)) else 0


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    if not torch.cuda.is_available():
        print("studies.py needs a GPU of compute capability 9.0, and torch sees none")
        return 2
    device = torch.device("cuda", torch.cuda.current_device())
    found = torch.cuda.get_device_capability(device)
    if found != (9, 0):
        print("studies.py needs a GPU of compute capability 9.0, this one has {}.{}".format(*found))
        return 2
    return run(args, device)


if __name__ == "__main__":
    sys.exit(main())
