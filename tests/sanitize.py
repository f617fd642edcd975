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
from dataclasses import dataclass, fields
from pathlib import Path

import sanitizer_log

LAYOUTS = ("nn", "nt", "tn", "tt")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
ROOT = Path(__file__).resolve().parents[1]
# initcheck would be wrong about what filtered kernels write, so it sees all and the reports are
# filtered; hence more of them, and no backtraces.
TOOL_OPTIONS = {
    tool: ["--kernel-name", "kernel_substring=vitamin", "--print-limit", "200"] for tool in TOOLS
} | {"initcheck": ["--print-limit", "50000", "--show-backtrace", "device"]}
TOOL_OPTIONS["memcheck"] += ["--padding", "512"]


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
    only: str | tuple = ""  # what the names of the kernels to run it by start with; empty: all
    studies: bool = False  # the studies' kernels run it too
    clusters: bool = False  # and those that differ from another one in their clusters only

    def __str__(self):
        special = [f.name for f in fields(self)[3:-3] if getattr(self, f.name) != f.default]
        options = [f"{name}={getattr(self, name)}" for name in special]
        return " ".join([f"{self.m}x{self.n}x{self.k}", *options])


# The production kernels of the Hopper path, by their tiles.
HOPPER_ROWS = (16, 32, 48, 64, 96, 112, 128, 144, 160, 176, 192, 208)
HOPPER_TILES = tuple(f"sm90_{rows}x" for rows in HOPPER_ROWS)
# The kernels for few rows or columns, and for shallow K.
HOPPER_STREAMS = ("sm90_stream", "sm90_shallow", "sm90_once")
# One block an SM, each of which takes tiles of up to 128x256 until there are none left.
PERSISTENT = ("sm90_v6", "sm90_v8", "sm90_v10", "sm90_v11", *HOPPER_TILES)


def hopper_tile_calls():
    """For the production kernels: what they do beside the steps, in rows of whole 16 bytes."""
    return [
        # Rows of the output at odd addresses; a tile and some more, of boxes whole and cut off.
        Call(130, 261, 200, "nt", bias=True, only=HOPPER_TILES),
        Call(264, 323, 196, "nt", pad=4, out="padded", only=HOPPER_TILES, clusters=True),
        # As many tiles as above, a contiguous along M, and rows that TMA can't write.
        Call(200, 17801, 72, "tt", only=HOPPER_TILES),
        # b contiguous along N: blocks of 64 columns, where tiles are no multiples of these.
        Call(40, 424, 72, only=HOPPER_TILES, clusters=True),
        # Columns of the output in pieces of 16 bytes.
        Call(136, 72, 40, "nt", out="columns", only=HOPPER_TILES),
        # K in parts, blocks of a cluster; ragged, in float32, and of a batch.
        Call(16, 24, 1024, "tt", bias=True, activation="silu", only=HOPPER_TILES),
        Call(16, 24, 640, "tt", only=HOPPER_TILES),
        Call(16, 24, 2048, "tt", only=HOPPER_TILES, clusters=True),
        Call(16, 24, 8192, "tt", only=HOPPER_TILES),
        Call(61, 47, 1021, "nt", pad=3, wide=True, only=HOPPER_TILES, clusters=True),
        Call(40, 24, 1536, "nt", batch=(2,), out="padded", only=HOPPER_TILES),
        Call(136, 72, 72, "tn", batch=(3,), only=HOPPER_TILES, clusters=True),
    ]


def hopper_stream_calls():
    """For these: what begins at any address, and many tiles a block."""
    return [
        *(Call(7, 203, 101, layout, pad=3, offset=1, only=HOPPER_STREAMS) for layout in LAYOUTS),
        *(Call(65, 9, 77, layout, pad=1, wide=True, only=HOPPER_STREAMS) for layout in LAYOUTS),
        *(Call(3, 300, 40, "nt", pad=pad, only=HOPPER_STREAMS) for pad in (0, 2, 4)),
        Call(2, 70001, 13, "nt", only=HOPPER_STREAMS),
        Call(2, 70001, 13, "tn", bias=True, only=HOPPER_STREAMS),
        Call(70001, 5, 8, "nt", activation="silu", only=HOPPER_STREAMS),
        Call(5, 70, 64, "nt", batch=(40,), only=HOPPER_STREAMS),
        # K in parts, blocks of a cluster, and more of it than is staged at once.
        Call(5, 60, 4001, "nt", pad=1, only=HOPPER_STREAMS[0]),
        Call(16, 40, 9001, "tn", pad=2, only=HOPPER_STREAMS[0]),
        # Pieces that end within K, and beyond the operand's memory.
        Call(3, 300, 3, "nt", only=HOPPER_STREAMS[0]),
        Call(3, 300, 42, "tn", only=HOPPER_STREAMS[0]),
        # Columns of the output in pieces of 16 bytes, strides both ways, several of a batch.
        Call(136, 72, 128, "nt", out="columns", only=HOPPER_STREAMS[2]),
        Call(70, 66, 33, step=2, batch=(2, 3), only=HOPPER_STREAMS[2]),
    ]


def hopper_calls():
    """For what takes b stored [N, K] in rows of whole 16 bytes."""
    return [
        Call(67, 69, 71, "nt", pad=1, bias=True, activation="gelu", studies=True),
        # More k-tiles than stages, edges on all sides.
        Call(200, 264, 520, "nt", out="padded", studies=True),
        # 140 tiles, on 132 SMs.
        Call(130, 17800, 72, "nt", only=PERSISTENT, studies=True, clusters=True),
        Call(136, 72, 0, "nt", pad=8, bias=True),
        Call(136, 72, 1, "nt", pad=7, wide=True),
        Call(1, 1, 8, "nt"),
        *hopper_tile_calls(),
    ]


def calls_for(tool):
    """Small enough for the tool; the first ones go through every kernel."""
    every = LAYOUTS
    aligned = [Call(136, 72, 72, layout, studies=True) for layout in every] + hopper_calls()
    aligned += hopper_stream_calls()
    ragged = [Call(67, 69, 71, layout, bias=True, activation="gelu") for layout in every]
    split_k = [Call(16, 24, 2048), Call(17, 23, 2051, "nt")]
    # The smallest that "auto" repacks, on a large GPU.
    repacked = [Call(800, 800, 511, layout, offset=1, only="auto") for layout in ("nt", "tn")]
    padded = [Call(130, 136, 40, out="padded")]
    if tool == "initcheck":
        return aligned + ragged + split_k + repacked + padded
    few = aligned + ragged + split_k + padded
    few += [Call(64, 64, 64, offset=offset) for offset in (1, 2, 4)]
    few += [Call(40, 24, 72, batch=(3,), wide=True), Call(5, 3, 0, bias=True)]
    if tool == "racecheck":
        return few
    more = [Call(257, 130, 96, layout, pad=pad) for layout in every for pad in (1, 2, 4, 8)]
    more += [Call(300, 200, 264, "tn", bias=True, activation="silu", wide=True)]
    more += [Call(1, 1, 1), Call(1, 515, 130, "nt"), Call(515, 1, 130, "tn"), Call(9, 9, 7, step=2)]
    more += [Call(33, 40, 24, "tt", batch=(2, 3), out="columns"), Call(65, 33, 17, out="columns")]
    more += [Call(24, 16, 4096, "tt", wide=True), Call(511, 513, 255, offset=1, pad=1)]
    return few + repacked + more


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
