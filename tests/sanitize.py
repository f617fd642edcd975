"""compute-sanitizer over every kernel, on small problems whose results are checked too.

    python tests/sanitize.py OUTDIR [--tools memcheck,racecheck,...] [--kernels auto,sm80,...]

Needs a GPU, compute-sanitizer and an importable vitamin_hgemm. Runs one process a tool, all at the
same time, and instruments this package's kernels only. Writes OUTDIR/<tool>.log (of the sanitizer)
and OUTDIR/<tool>.txt (of the calls), prints a line a tool, and exits with 1 unless all is clean.
"""

import argparse
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ROOT = Path(__file__).resolve().parents[1]
SUMMARY = re.compile(r"(?:ERROR SUMMARY: (\d+) error|RACECHECK SUMMARY: (\d+) hazard)")
CALLS = re.compile(r"^calls: (\d+) of (\d+), refused: (\d+), wrong: (\d+)$", re.MULTILINE)


@dataclass
class Call:
    """A product of small matrices, a letter of `layout` each: n as written, t transposed."""

    m: int
    n: int
    k: int
    layout: str = "nn"
    pad: int = 0  # elements at the end of each stored row of a and b
    offset: int = 0  # elements between the start of the storage and the first element
    step: int = 1  # elements from one to the next within a row of a
    batch: tuple = ()
    bias: bool = False
    activation: str = "none"
    wide: bool = False  # out_dtype=torch.float32
    out: str = "rows"  # or "columns", or "padded" rows

    def __str__(self):
        return f"{self.m}x{self.n}x{self.k} {vars(self)}"


def calls_for(tool):
    """Small enough for the tool; the first ones go through every kernel."""
    every = ("nn", "nt", "tn", "tt")
    few = [Call(136, 72, 72, layout) for layout in every]
    few += [Call(67, 69, 71, layout, bias=True, activation="gelu") for layout in every]
    few += [Call(16, 24, 2048), Call(17, 23, 2051, "nt"), Call(130, 136, 40, out="padded")]
    few += [Call(64, 64, 64, offset=offset) for offset in (1, 2, 4)]
    few += [Call(40, 24, 72, batch=(3,), wide=True), Call(5, 3, 0, bias=True)]
    if tool == "racecheck":
        return few
    more = [Call(257, 130, 96, layout, pad=pad) for layout in every for pad in (1, 2, 4, 8)]
    more += [Call(300, 200, 264, "tn", bias=True, activation="silu", wide=True)]
    more += [Call(1, 1, 1), Call(1, 515, 130, "nt"), Call(515, 1, 130, "tn"), Call(9, 9, 7, step=2)]
    more += [Call(33, 40, 24, "tt", batch=(2, 3), out="columns"), Call(65, 33, 17, out="columns")]
    more += [Call(24, 16, 4096, "tt", wide=True), Call(511, 513, 255, offset=1, pad=1)]
    return few + more


def matrix(torch, call, rows, cols, layout, dtype, step=1):
    """The same matrix on the CPU and on the GPU, uploaded by one copy and with no byte to spare.

    Every byte on the GPU is written by that copy, so an uninitialised read is the kernel's own.
    """
    outer, inner = (rows, cols) if layout == "n" else (cols, rows)
    pitch = inner * step + call.pad
    count = math.prod(call.batch)
    last = max(count * outer - 1, 0) * pitch + max(inner - 1, 0) * step
    storage = torch.randn(call.offset + last + 1).to(dtype)
    shape, strides = [*call.batch, outer, inner], [pitch, step]
    for d in reversed(range(len(call.batch))):
        strides.insert(0, outer * pitch * math.prod(call.batch[d + 1 :]))
    views = [x.as_strided(shape, strides, call.offset) for x in (storage, storage.to("cuda"))]
    return views if layout == "n" else [x.transpose(-1, -2) for x in views]


def new_output(torch, call, dtype):
    shape = (*call.batch, call.m, call.n)
    if call.out == "columns":
        return torch.empty(*call.batch, call.n, call.m, dtype=dtype, device="cuda").mT
    pitch = call.n + (3 if call.out == "padded" else 0)
    return torch.empty(*shape[:-1], pitch, dtype=dtype, device="cuda")[..., : call.n]


def run_call(torch, name, call, dtype):
    """ "ok", "refused" or what is wrong."""
    from reference import judge

    a, a_gpu = matrix(torch, call, call.m, call.k, call.layout[0], dtype, call.step)
    b, b_gpu = matrix(torch, call, call.k, call.n, call.layout[1], dtype)
    options = {"activation": call.activation}
    bias = torch.randn(call.n).to(dtype) if call.bias else None
    if call.bias:
        options["bias"] = bias.to("cuda")
    if call.wide:
        options["out_dtype"] = torch.float32
    out = new_output(torch, call, torch.float32 if call.wide else dtype)
    try:
        torch.ops.vitamin.hgemm.out(a_gpu, b_gpu, kernel=name, out=out, **options)
    except RuntimeError as error:
        if "CUDA error" in str(error) or name in ("auto", "sm80"):
            raise
        return "refused"
    verdict = judge(out.cpu(), a, b, bias, call.activation)
    return "ok" if verdict else str(verdict)


def drive(tool, kernels, seconds):
    """Runs inside the sanitizer: each call by each kernel, until the time is up."""
    import torch

    sys.path.append(str(ROOT))
    import vitamin_hgemm

    if not kernels:
        kernels = ["auto", *(k["name"] for k in vitamin_hgemm.kernels() if k["name"] != "cublas")]
    work = [
        (call, dtype, name)
        for call in calls_for(tool)
        for dtype in (torch.float16, torch.bfloat16)
        for name in kernels
    ]
    seed = int(time.time())
    torch.manual_seed(seed)
    print(f"{torch.cuda.get_device_name()}, seed {seed}", flush=True)
    end = time.monotonic() + seconds
    done = refused = wrong = 0
    ran = set()
    for call, dtype, name in work:
        if time.monotonic() > end:
            break
        result = run_call(torch, name, call, dtype)
        done += 1
        refused += result == "refused"
        if result == "ok":
            ran.add(name)
        elif result != "refused":
            wrong += 1
            print(f"wrong: {name} {dtype} {call}: {result}", flush=True)
    torch.cuda.synchronize()
    never = [name for name in kernels if name not in ran]
    print(f"calls: {done} of {len(work)}, refused: {refused}, wrong: {wrong}")
    if never:
        print(f"never ran: {', '.join(never)}")
    return 1 if wrong or never else 0


def find_sanitizer():
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=f"{toolkit}/bin{os.pathsep}{toolkit}/compute-sanitizer"
    )


def start(tool, sanitizer, options):
    command = [sanitizer, "--tool", tool, "--log-file", str(options.outdir / f"{tool}.log")]
    command += ["--kernel-name", "kernel_substring=vitamin", "--print-limit", "200"]
    if tool == "memcheck":
        command += ["--padding", "512"]
    command += [sys.executable, __file__, str(options.outdir), "--drive", tool]
    command += ["--kernels", ",".join(options.kernels), "--seconds", str(options.seconds)]
    # Without the caching allocator, neighbouring tensors are allocations of their own.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "OMP_NUM_THREADS": "4"}
    with (options.outdir / f"{tool}.txt").open("w") as text:
        return subprocess.Popen(
            command,
            env=environment,
            stdout=text,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def report(tool, process, options, limit):
    """One line of the table, and whether the tool is clean."""
    try:
        status = process.wait(timeout=max(1, limit - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return f"{tool:10} did not end in {options.seconds + options.grace:.0f} s", False
    log, text = (options.outdir / f"{tool}.{kind}" for kind in ("log", "txt"))
    found = SUMMARY.findall(log.read_text(errors="replace") if log.exists() else "")
    calls = CALLS.search(text.read_text(errors="replace"))
    if not found or not calls:
        return f"{tool:10} did not run (exit status {status}); see {log} and {text}", False
    errors = sum(int(a or b) for a, b in found)
    done, of, refused, wrong = map(int, calls.groups())
    clean = errors == 0 and status == 0
    line = f"{tool:10} {errors:6} {done:6} of {of:<6} {refused:7} {wrong:6}"
    return line + ("" if clean else f"   see {log} and {text}"), clean


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def names(text):
        return [name for name in text.split(",") if name]

    parser.add_argument("outdir", type=Path)
    parser.add_argument("--tools", type=names, default=list(TOOLS))
    parser.add_argument("--kernels", type=names, default=[], help="default: auto and every kernel")
    parser.add_argument("--seconds", type=float, default=75, help="time for the calls of a tool")
    parser.add_argument("--grace", type=float, default=90, help="time to start and to finish")
    parser.add_argument("--drive", choices=TOOLS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = sorted(set(options.tools) - set(TOOLS))
    if unknown:
        parser.error(f"no tool {', '.join(unknown)}; wanted {', '.join(TOOLS)}")
    return options


def main():
    options = arguments()
    if options.drive:
        return drive(options.drive, options.kernels, options.seconds)
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("compute-sanitizer is neither on the PATH nor in CUDA_HOME", file=sys.stderr)
        return 2
    options.outdir.mkdir(parents=True, exist_ok=True)
    limit = time.monotonic() + options.seconds + options.grace
    running = [(tool, start(tool, sanitizer, options)) for tool in options.tools]
    print(f"{'tool':10} {'errors':>6} {'calls':>16} {'refused':>7} {'wrong':>6}")
    clean = True
    for tool, process in running:
        line, good = report(tool, process, options, limit)
        print(line, flush=True)
        clean &= good
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
