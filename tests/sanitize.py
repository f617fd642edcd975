"""compute-sanitizer over every kernel, on small problems whose results are checked too.

    python tests/sanitize.py OUTDIR [--tools memcheck,racecheck,...] [--kernels auto,sm80,...]

Needs a GPU, compute-sanitizer and an importable vitamin_hgemm. Runs one process a tool, all at the
same time. Prints a line a tool and exits with 1 unless all is clean. OUTDIR/sanitize.txt has the
same lines and what each process had to say; OUTDIR/<tool>.log are the reports of a tool that isn't
clean.
"""

import argparse
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import sanitizer_log
from sanitizer_calls import HOPPER_TILES, calls_for

TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ROOT = Path(__file__).resolve().parents[1]
# initcheck would be wrong about what filtered kernels write, so it sees all and the reports are
# filtered; hence more of them, and no backtraces.
TOOL_OPTIONS = {
    tool: ["--kernel-name", "kernel_substring=vitamin", "--print-limit", "200"] for tool in TOOLS
} | {"initcheck": ["--print-limit", "50000", "--show-backtrace", "device"]}
TOOL_OPTIONS["memcheck"] += ["--padding", "512"]


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


class Output:
    """An output on the GPU, full of NaN, with no byte to spare, uploaded by one copy.

    Nothing but copies of the whole storage touches it, so no other kernel has to be trusted.
    """

    def __init__(self, torch, call, dtype):
        if call.out == "columns":
            like = torch.empty(*call.batch, call.n, call.m).mT
        else:
            pitch = call.n + (3 if call.out == "padded" else 0)
            like = torch.empty(*call.batch, call.m, pitch)[..., : call.n]
        self._shape, self._strides = like.shape, like.stride()
        last = sum((n - 1) * stride for n, stride in zip(self._shape, self._strides, strict=True))
        self._storage = torch.full((last + 1,), math.nan, dtype=dtype).to("cuda")
        self.view = self._storage.as_strided(self._shape, self._strides)

    def download(self):
        """The output on the CPU, and whether everything around it is still NaN."""
        storage = self._storage.cpu()
        view = storage.as_strided(self._shape, self._strides)
        values = view.clone()
        view.fill_(math.nan)
        return values, bool(storage.isnan().all())


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
    out = Output(torch, call, torch.float32 if call.wide else dtype)
    try:
        torch.ops.vitamin.hgemm.out(a_gpu, b_gpu, kernel=name, out=out.view, **options)
    except RuntimeError as error:
        if "can't run" not in str(error) or name in ("auto", "sm90", "sm80"):
            raise
        return "refused"
    values, untouched = out.download()
    verdict = judge(values, a, b, bias, call.activation)
    if not verdict:
        return str(verdict)
    return "ok" if untouched else "wrote between the rows of out"


def kernels_of(device_cc, table):
    """ "auto" and the kernels for that compute capability, but for the baseline."""
    own = [entry for entry in table if entry["family"] != "cublas"]
    fit = [e for e in own if e["min_cc"] <= device_cc <= (e["max_cc"] or device_cc)]
    return ["auto", *(entry["name"] for entry in fit)]


def of_other_clusters(name, table):
    """Whether a kernel before it in the table has the same tile, with other clusters."""
    tiles = {each: entry for each, entry in table.items() if each.startswith(HOPPER_TILES)}
    kinds = {each: (entry["tile"], entry["threads"]) for each, entry in tiles.items()}
    return name in kinds and name != list(kinds)[list(kinds.values()).index(kinds[name])]


def takes(name, table, call):
    """Whether the call is for that kernel; "auto" and families are not in the table."""
    if name not in table or not name.startswith(call.only):
        return name.startswith(call.only)
    if table[name]["family"] == "study" and not call.studies:
        return False
    if of_other_clusters(name, table) and not call.clusters:
        return False
    return table[name]["layouts"] in ("all", call.layout)


def size_of(path):
    return path.stat().st_size if path.exists() else 0


def alive(torch):
    """Whether the CUDA context has survived the calls so far."""
    try:
        torch.cuda.synchronize()
    except RuntimeError:
        return False
    return True


def drive(tool, kernels, seconds, log):
    """Runs inside the sanitizer: each call by each kernel, until the time is up.

    Says before each call which it is, and when `log`, the sanitizer's, has grown.
    """
    import torch

    sys.path.append(str(ROOT))
    import vitamin_hgemm

    table = {entry["name"]: entry for entry in vitamin_hgemm.kernels()}
    if not kernels:
        major, minor = torch.cuda.get_device_capability()
        kernels = kernels_of(major * 10 + minor, table.values())
    work = [
        (call, dtype, name)
        for call in calls_for(tool)
        for dtype in (torch.float16, torch.bfloat16)
        for name in kernels
        if takes(name, table, call)
    ]
    seed = int(time.time())
    torch.manual_seed(seed)
    print(f"{torch.cuda.get_device_name()}, seed {seed}", flush=True)
    end = time.monotonic() + seconds
    done = refused = wrong = 0
    ran = set()
    size = size_of(log)
    for call, dtype, name in work:
        if time.monotonic() > end:
            break
        what = f"{name} {str(dtype).removeprefix('torch.')} {call}"
        print(f"call: {what}", flush=True)
        done += 1
        try:
            result = run_call(torch, name, call, dtype)
        except RuntimeError as error:
            result = f"raised: {str(error).splitlines()[0]}"
        refused += result == "refused"
        if result == "ok":
            ran.add(name)
        elif result != "refused":
            wrong += 1
            print(f"wrong: {what}: {result}", flush=True)
        before, size = size, size_of(log)
        if size > before:
            print(f"reported by now: {what}", flush=True)
        if result.startswith("raised") and not alive(torch):
            print("no later call can succeed after this one", flush=True)
            break
    never = [name for name in kernels if name not in ran]
    if never:
        print(f"never right: {', '.join(never)}")
    print(f"calls: {done} of {len(work)}, refused: {refused}, wrong: {wrong}", flush=True)
    return 1 if wrong or never else 0


def find_sanitizer():
    toolkit = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=f"{toolkit}/bin{os.pathsep}{toolkit}/compute-sanitizer"
    )


def start(tool, sanitizer, options, folder):
    log = folder / f"{tool}.log"
    command = [sanitizer, "--tool", tool, "--log-file", str(log), *TOOL_OPTIONS[tool]]
    # A kernel with an error ends, and the next ones are still checked.
    command += ["--destroy-on-device-error", "kernel"]
    command += [sys.executable, __file__, str(options.outdir), "--drive", tool]
    command += ["--log", str(log), "--kernels", ",".join(options.kernels)]
    command += ["--seconds", str(options.seconds)]
    # Without the caching allocator, neighbouring tensors are allocations of their own.
    environment = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "OMP_NUM_THREADS": "4"}
    with (folder / f"{tool}.txt").open("w") as text:
        return subprocess.Popen(
            command,
            env=environment,
            stdout=text,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def report(tool, process, options, folder, limit):
    """One line of the table, whether the tool is clean, and what its process said."""
    try:
        status = process.wait(timeout=max(0.1, limit - time.monotonic()))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        status = None
    texts = [folder / f"{tool}.{kind}" for kind in ("log", "txt")]
    log, text = (path.read_text(errors="replace") if path.exists() else "" for path in texts)
    line, clean = sanitizer_log.verdict(tool, status, log, text)
    if not clean:
        digest = sanitizer_log.digest(log, ours=tool == "initcheck")
        (options.outdir / f"{tool}.log").write_text(digest)
    return line, clean, f"{tool}\n{sanitizer_log.said(text)}"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])

    def names(text):
        return [name for name in text.split(",") if name]

    parser.add_argument("outdir", type=Path)
    parser.add_argument("--tools", type=names, default=list(TOOLS))
    parser.add_argument("--kernels", type=names, default=[], help="default: auto and every kernel")
    parser.add_argument("--seconds", type=float, default=90, help="time for the calls of a tool")
    parser.add_argument("--grace", type=float, default=60, help="time to start and to finish")
    parser.add_argument("--drive", choices=TOOLS, help=argparse.SUPPRESS)
    parser.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    unknown = sorted(set(options.tools) - set(TOOLS))
    if unknown:
        parser.error(f"no tool {', '.join(unknown)}; wanted {', '.join(TOOLS)}")
    return options


def main():
    options = arguments()
    if options.drive:
        return drive(options.drive, options.kernels, options.seconds, options.log)
    sanitizer = find_sanitizer()
    if sanitizer is None:
        print("compute-sanitizer is neither on the PATH nor in CUDA_HOME", file=sys.stderr)
        return 2
    options.outdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        folder = Path(temporary)
        limit = time.monotonic() + options.seconds + options.grace
        running = [(tool, start(tool, sanitizer, options, folder)) for tool in options.tools]
        lines, texts, all_clean = [sanitizer_log.HEADER], [], True
        print(lines[0], flush=True)
        for tool, process in running:
            line, clean, text = report(tool, process, options, folder, limit)
            print(line, flush=True)
            lines.append(line)
            texts.append(text)
            all_clean &= clean
    (options.outdir / "sanitize.txt").write_text("\n".join([*lines, "", *texts]))
    return 0 if all_clean else 1


if __name__ == "__main__":
    sys.exit(main())
