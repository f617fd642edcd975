"""Times vitamin_hgemm beside torch.matmul and cuBLAS.

    python benchmarks/bench.py                          every suite, both types
    python benchmarks/bench.py --ladder                 the Ampere ladder at one size
    python benchmarks/bench.py --suite ladder-sm90      the Hopper ladder at one size
    python benchmarks/bench.py --suite large decode --dtype bf16
    python benchmarks/bench.py --shape 4096x4096x4096:nt --kernel auto sm80 --hot

Prints a line a candidate and writes a CSV to benchmarks/results (or --out). On a machine with no
GPU it times the CPU path on a few small problems and prints, for the suites, which kernel an H200
would run, the time that the model predicts and the time that was recorded, if any.
Exit status: 0, or 1 when a result is wrong or the package refuses a problem that auto must take.
"""

from __future__ import annotations

import argparse
import enum
import gc
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

if __package__ in (None, ""):
    # Run as a script: benchmarks/ itself must leave the path, since its profile.py would hide the
    # standard library's, and the root goes last, so that an installed vitamin_hgemm is preferred.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

import torch

from benchmarks import environment, no_gpu, records, shapes
from benchmarks.timing import COLD_ROUNDS, GpuRace

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def _argument(convert):
    """`convert` for argparse, which shows the text of this error only."""

    def checked(text: str):
        try:
            return convert(text)
        except (ValueError, RuntimeError) as error:
            raise argparse.ArgumentTypeError(str(error).splitlines()[0]) from None

    return checked


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add(
        "--suite",
        nargs="+",
        choices=tuple(shapes.SUITES),
        metavar="NAME",
        default=[],
        help=f"any of {', '.join(shapes.SUITES)}; default: all",
    )
    add("--ladder", action="store_true", help="the same as --suite ladder")
    add(
        "--shape",
        nargs="+",
        type=_argument(shapes.parse_shape),
        metavar="MxNxK:LAYOUT",
        default=[],
        help="these problems, BATCHxMxNxK too; with one ladder its size",
    )
    add(
        "--layout",
        nargs="+",
        choices=shapes.LAYOUTS,
        default=[],
        help="every problem in these layouts instead of its own",
    )
    add("--dtype", nargs="+", choices=tuple(DTYPES), default=list(DTYPES), help="default: both")
    add(
        "--kernel",
        nargs="+",
        metavar="NAME",
        default=[],
        help="kernels beside torch and cublas; default: auto, in a ladder all its steps",
    )
    add("--device", type=_argument(torch.device), help="cuda, cuda:1 or cpu; default: a GPU if any")
    add("--hot", action="store_true", help="large problems also after 3 s at the power cap")
    add("--quick", action="store_true", help="fewer samples, and no problem over 0.2 TFLOP")
    add("--out", type=Path, default=records.RESULTS, metavar="DIR", help="folder of the CSV")
    args = parser.parse_args(argv)
    if args.device is None:
        args.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if args.device.type == "cuda" and not torch.cuda.is_available():
        parser.error(f"--device {args.device}: this machine or this torch has no CUDA")
    if args.device.type == "cuda" and args.device.index is None:
        args.device = torch.device("cuda", torch.cuda.current_device())
    if args.ladder:
        args.suite = list(dict.fromkeys(["ladder", *args.suite]))
    return args


def problems(args: argparse.Namespace) -> list[tuple[str, shapes.Shape]]:
    """(suite, shape) of everything that was asked for, in order and without repeats."""
    if args.shape and args.suite and (len(args.suite) > 1 or args.suite[0] not in shapes.LADDERS):
        raise SystemExit("--shape goes alone or with one ladder, not with other suites")
    if args.shape:
        chosen = {(args.suite or ["custom"])[0]: tuple(args.shape)}
    else:
        chosen = {name: shapes.SUITES[name] for name in args.suite or shapes.SUITES}
    found = []
    for suite, members in chosen.items():
        for shape in shapes.quick(members) if args.quick else members:
            found += [
                (suite, shape.with_layout(layout)) for layout in args.layout or [shape.layout]
            ]
    return list(dict.fromkeys(found))


def candidates(suite: str, named: list[str]) -> list[str]:
    """The names that are timed for a suite, torch first."""
    own = named or shapes.LADDERS.get(suite, ["auto"])
    return list(dict.fromkeys(["torch", "cublas", *own]))


def products(names: list[str]) -> dict:
    """Each candidate as a function (a, b, out=)."""
    hgemm = torch.ops.vitamin.hgemm.out

    def of_kernel(kernel: str):
        return lambda a, b, out: hgemm(a, b, kernel=kernel, out=out)

    return {name: torch.matmul if name == "torch" else of_kernel(name) for name in names}


HOT_FLOPS = 1e11  # smaller problems never reach the power cap
WARM_SECONDS = 1.0  # of one kernel, before its own clocks are read


class Hot(enum.Enum):
    """Whether a race is run at the power cap too, and under whose load the clocks are read."""

    NO = enum.auto()
    CLOCKS_OF_LAST = enum.auto()
    CLOCKS_OF_EACH = enum.auto()


def clocks_of_each(device: torch.device, race: GpuRace) -> dict[str, dict[str, str]]:
    """nvidia-smi's reading under the load of each candidate, by its name."""
    return {
        name: environment.read_smi(device, partial(race.keep_busy, name), WARM_SECONDS)
        for name in race.graphs
    }


def timed_rows(
    race: GpuRace,
    device: torch.device,
    rows: Callable[[str, dict[str, float], dict[str, str]], list[dict[str, str]]],
    rounds: int,
    hot: Hot,
) -> list[dict[str, str]]:
    """What rows(state, times, clocks) makes of a race, cold and, if asked, hot."""
    us = race.cold(rounds)
    measured = rows("cold", us, environment.read_smi(device, race.keep_busy))
    if hot is Hot.CLOCKS_OF_LAST:
        us = race.hot()
        measured += rows("hot", us, environment.read_smi(device, race.keep_busy))
    if hot is Hot.CLOCKS_OF_EACH:
        of_hot = rows("hot", race.hot(), {})
        clocks = clocks_of_each(device, race)
        measured += [row | clocks[row["kernel"]] for row in of_hot]
    return measured


def measure(
    args: argparse.Namespace, suite: str, shape: shapes.Shape, dtype: str, facts: dict
) -> tuple[list[dict[str, str]], dict[str, str]]:
    """CSV rows of one problem, and the candidates that refused it with their reasons."""
    gc.collect()
    torch.cuda.empty_cache()
    race = GpuRace(shape, DTYPES[dtype], args.device, products(candidates(suite, args.kernel)))
    errors = race.check()

    def rows(state: str, us: dict[str, float], clocks: dict[str, str]) -> list[dict[str, str]]:
        return records.rows(shape, dtype, suite, state, us, errors, facts | clocks)

    hot = Hot.NO
    if args.hot and shape.flops >= HOT_FLOPS:
        hot = Hot.CLOCKS_OF_EACH if suite == "ladder-sm90" else Hot.CLOCKS_OF_LAST
    rounds = 5 if args.quick else COLD_ROUNDS
    return timed_rows(race, args.device, rows, rounds, hot), race.refused


def show(tell, suite: str, measured: list[dict[str, str]], refused: dict[str, str]) -> None:
    for state in dict.fromkeys(row["state"] for row in measured):
        of_state = [row for row in measured if row["state"] == state]
        if suite in shapes.LADDERS:
            first = of_state[0]
            tell(f"\n{suite}, {records.shape_of(first)}, {first['dtype']}, {state}")
            for text in records.ladder_table(of_state):
                tell(text)
            for row in filter(records.is_wrong, of_state):
                tell(records.line(row))
        else:
            for row in of_state:
                tell(records.line(row) + ("  hot" if state == "hot" else ""))
    for name, reason in refused.items():
        tell(f"{'':<32}{name:<18} can't: {reason}")


def smi_line(reading: dict[str, str]) -> str:
    if not reading["sm_clock_mhz"]:
        return "nvidia-smi gave no reading"
    return (
        f"{reading['sm_clock_mhz']} MHz, {reading['power_w']} W, {reading['temperature_c']} C, "
        f"driver {reading['driver']}"
    )


def runnable(
    asked: list[tuple[str, shapes.Shape]], device: torch.device
) -> list[tuple[str, shapes.Shape]]:
    """What this GPU has kernels for; says which suites it leaves out."""
    for suite, wanted in shapes.ONLY_ON.items():
        if any(name == suite for name, _ in asked):
            found = torch.cuda.get_device_capability(device)
            if found != wanted:
                print(no_gpu.left_out(suite, "this GPU has {}.{}".format(*found)))
                asked = [one for one in asked if one[0] != suite]
    return asked


def run_gpu(args: argparse.Namespace) -> int:
    from tqdm import tqdm

    torch.cuda.set_device(args.device)
    torch.set_float32_matmul_precision("highest")  # the reference is a true fp32 product
    torch.manual_seed(0)
    torch.matmul(*(torch.ones(64, 64, device=args.device) for _ in range(2)))  # loads cuBLAS
    facts = environment.describe(args.device)
    asked = runnable(problems(args), args.device)
    cases = [(d, suite, shape) for d in args.dtype for suite, shape in asked]
    print(", ".join(f"{key} {value}" for key, value in facts.items() if value))
    print("before:", smi_line(environment.read_smi(args.device)))
    print(records.HEADER)
    measured: list[dict[str, str]] = []
    refusals = 0
    bar = tqdm(cases, unit="problem", disable=None)
    try:
        for dtype, suite, shape in bar:
            bar.set_postfix_str(f"{dtype} {shape}")
            of_case, refused = measure(args, suite, shape, dtype, facts)
            measured += of_case
            refusals += "auto" in refused
            show(tqdm.write, suite, of_case, refused)
    finally:
        bar.close()
        if measured:  # what was measured before an interruption is kept too
            suites = dict.fromkeys(row["suite"] for row in measured)
            path = args.out / records.file_name(facts, suites)
            records.write(path, measured)
            print(f"wrote {path}")
    print("after:", smi_line(environment.read_smi(args.device)))
    for text in records.summary(measured):
        print(text)
    if refusals:
        print(f"auto refused {refusals} problems, and it must take every one")
    return 1 if refusals or any(map(records.is_wrong, measured)) else 0


def main(argv: list[str] | None = None) -> int:
    args = parse(argv)
    import vitamin_hgemm  # noqa: F401  (registers the op)

    with torch.inference_mode():
        if args.device.type == "cuda":
            return run_gpu(args)
        return no_gpu.run(args.dtype, problems(args))


if __name__ == "__main__":
    sys.exit(main())
