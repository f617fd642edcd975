"""The command line: python -m vitamin_hgemm info | plan | tune | bench."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import torch

from . import planning, tuning
from ._library import planner
from .version import __version__

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_BENCH = Path(__file__).resolve().parent.parent / "benchmarks" / "bench.py"


def _extent(text):
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer") from None
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative; wanted 0 or more")
    return value


def _shape(text):
    try:
        tuning.parse_shape(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _add_dtype_and_layout(parser, layout_help):
    parser.add_argument("--dtype", choices=tuple(_DTYPES), default="bf16", help="default: bf16")
    layouts = ("nn", "nt", "tn", "tt")
    parser.add_argument("--layout", choices=layouts, default="nn", help=layout_help)


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m vitamin_hgemm",
        description="Half-precision matrix multiplication for PyTorch.",
        epilog="Exit status: 0, 1 when a kernel can't do what was asked, 2 for a wrong command.",
    )
    parser.add_argument("--version", action="version", version=f"vitamin_hgemm {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    info = commands.add_parser("info", help="versions, GPUs and the kernel table")
    info.add_argument("--json", action="store_true", help="print JSON")
    info.set_defaults(run=_info, parser=info)

    plan = commands.add_parser(
        "plan", help="which kernel runs an M x N x K product, and why; needs no GPU"
    )
    for name in "mnk":
        plan.add_argument(name, metavar=name.upper(), type=_extent)
    plan.add_argument("--batch", type=_extent, default=1, help="how many products (default: 1)")
    _add_dtype_and_layout(plan, "storage of a and b: n as written, t transposed (default: nn)")
    plan.add_argument(
        "--device",
        metavar="NAME",
        help=f"cuda, cuda:1 ... or one of: {', '.join(planning.PRESETS)} "
        f"(default: this machine's GPU, else {planning.DEFAULT_PRESET})",
    )
    plan.add_argument("--kernel", default="auto", help="a kernel's or a family's name")
    plan.add_argument("--bias", action="store_true", help="with a bias")
    plan.add_argument("--activation", default="none", help="fused after the bias")
    plan.add_argument("--fp32", action="store_true", help="out_dtype=torch.float32")
    for name in ("lda", "ldb", "ldc"):
        plan.add_argument(
            f"--{name}", type=_extent, help="elements from one stored row to the next"
        )
    plan.add_argument(
        "--offset", type=_extent, default=0, help="bytes past a 16-byte boundary (default: 0)"
    )
    plan.add_argument("--json", action="store_true", help="print JSON")
    plan.set_defaults(run=_plan, parser=plan)

    tune = commands.add_parser(
        "tune", help="time the kernels for products on this machine's GPU and keep the fastest"
    )
    tune.add_argument(
        "shapes",
        metavar="SHAPE",
        nargs="+",
        type=_shape,
        help="MxNxK or BATCHxMxNxK, with a layout as in 4096x4096x4096:nt",
    )
    _add_dtype_and_layout(
        tune,
        "of shapes without one: storage of a and b, n as written, t transposed (default: nn)",
    )
    tune.add_argument("--fp32", action="store_true", help="out_dtype=torch.float32")
    tune.add_argument("--device", metavar="NAME", help="cuda:1 ... (default: the current GPU)")
    tune.add_argument(
        "--file",
        help=f"to keep the choices in (default: ${tuning.ENVIRONMENT}, else one in the user's "
        "cache folder)",
    )
    tune.add_argument("--json", action="store_true", help="print JSON")
    tune.set_defaults(run=_tune, parser=tune)

    bench = commands.add_parser(
        "bench", help="benchmarks/bench.py of the checkout, with its options", add_help=False
    )
    bench.set_defaults(run=_bench)
    return parser


def _gpus():
    return [planning.device_facts(i) for i in range(torch.cuda.device_count())]


def _info(args):
    build, table = planner().build_info(), planning.kernels()
    versions = {"vitamin_hgemm": __version__, "torch": torch.__version__}
    if args.json:
        gpus = [vars(gpu) for gpu in _gpus()]
        print(json.dumps({**versions, "build": build, "gpus": gpus, "kernels": table}, indent=2))
        return 0
    for name, version in versions.items():
        print(f"{name:14} {version}")
    cuda = f"nvcc {build['nvcc']}, {build['archs']}" if build["cuda"] else "left out of this build"
    print(f"{'CUDA kernels':14} {cuda}")
    for i, gpu in enumerate(_gpus()):
        print(
            f"{f'cuda:{i}':14} {gpu.name}, sm_{gpu.cc}, {gpu.sm_count} SMs, "
            f"{gpu.sm_ghz:.2f} GHz, {gpu.dram_tbs:.2f} TB/s"
        )
    if not torch.cuda.device_count():
        print(f"{'GPU':14} none: CPU tensors go through ATen")
    print()
    width = max(len(entry["name"]) for entry in table)
    for entry in table:
        tile = "x".join(map(str, entry["tile"]))
        rows = "any rows" if entry["any_align"] else "16-byte rows"
        print(f"{entry['name']:{width}}  {entry['family']:7} {tile:12} {rows:12}  {entry['what']}")
    return 0


def _plan(args):
    plan = planning.plan(
        args.m,
        args.n,
        args.k,
        batch=args.batch,
        dtype=_DTYPES[args.dtype],
        layout=args.layout,
        device=args.device,
        kernel=args.kernel,
        lda=args.lda,
        ldb=args.ldb,
        ldc=args.ldc,
        align_offset=args.offset,
        bias=args.bias,
        activation=args.activation,
        out_dtype=torch.float32 if args.fp32 else None,
    )
    print(json.dumps(plan.as_dict(), indent=2) if args.json else plan)
    return 0


def _tune(args):
    found = tuning.tune(
        args.shapes,
        dtype=_DTYPES[args.dtype],
        layout=args.layout,
        out_dtype=torch.float32 if args.fp32 else None,
        device=args.device,
        path=args.file,
    )
    if args.json:
        print(json.dumps([vars(one) for one in found], indent=2))
    else:
        print(*found, sep="\n")
    return 0


def _bench(options):
    if not _BENCH.exists():
        raise RuntimeError(
            "the benchmarks are not part of the installed package; run this in a checkout of "
            "vitamin_hgemm, where it is the same as: python benchmarks/bench.py"
        )
    return subprocess.call([sys.executable, str(_BENCH), *options])


def main(argv: list[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0, or 1 after an error, told on stderr."""
    args, options = _parser().parse_known_args(argv)
    try:
        if args.command == "bench":
            return args.run(options)
        if options:
            args.parser.error(f"unrecognized arguments: {' '.join(options)}")
        return args.run(args)
    except ValueError as error:
        args.parser.error(str(error))
    except (OSError, RuntimeError) as error:
        print(f"vitamin_hgemm: {error}", file=sys.stderr)
        return 1
