"""Which kernel runs a product, and why: the kernel table and the choice, with no GPU needed."""

from dataclasses import asdict, dataclass

import torch

from ._library import planner
from ._plan_checks import check_device, check_one_of, check_problem

_DTYPES = {torch.float16: "fp16", torch.bfloat16: "bf16"}


@dataclass(frozen=True)
class DeviceFacts:
    """What the choice of a kernel knows of a GPU. Rates are peaks."""

    name: str
    cc: int  # compute capability, major * 10 + minor
    sm_count: int
    smem_per_block: int  # bytes, the opt-in limit
    smem_per_sm: int  # bytes
    l2_bytes: int
    sm_ghz: float  # boost clock
    dram_tbs: float  # memory bandwidth, TB/s


def _preset(name, cc, sms, smem_kib, l2_mib, ghz, tbs):
    return DeviceFacts(name, cc, sms, (smem_kib - 1) << 10, smem_kib << 10, l2_mib << 20, ghz, tbs)


# Data sheets: name, compute capability, SMs, KiB of shared memory an SM, MiB of L2, GHz, TB/s.
PRESETS = {
    facts.name: facts
    for facts in (
        _preset("H200", 90, 132, 228, 60, 1.98, 4.8),
        _preset("H100", 90, 132, 228, 50, 1.98, 3.35),
        _preset("H100 PCIe", 90, 114, 228, 50, 1.755, 2.04),
        _preset("A100", 80, 108, 164, 40, 1.41, 2.04),
        _preset("A100 40GB", 80, 108, 164, 40, 1.41, 1.555),
        _preset("A10", 86, 72, 100, 6, 1.695, 0.6),
        _preset("L4", 89, 58, 100, 48, 2.04, 0.3),
        _preset("L40S", 89, 142, 100, 96, 2.52, 0.864),
        _preset("RTX 3090", 86, 82, 100, 6, 1.695, 0.936),
        _preset("RTX 4090", 89, 128, 100, 72, 2.52, 1.008),
        _preset("RTX 5090", 120, 170, 100, 96, 2.407, 1.792),
    )
}
DEFAULT_PRESET = "H200"


@dataclass(frozen=True)
class Candidate:
    """One way to launch a product, and what the model says that it takes."""

    kernel: str
    splits: int  # parts that K is cut into
    repack_a: bool  # a is first copied to an aligned scratch
    repack_b: bool
    workspace_bytes: int
    predicted_us: float
    tensor_us: float  # tensor cores, waves included
    memory_us: float  # device memory
    overhead_us: float  # launch, prologue, epilogue, split-K, repack


@dataclass(frozen=True)
class Plan:
    """The kernel that a call would use, why, and what else could have run it.

    The candidates are in the order of their predictions. The choice is the first of them, unless
    there is an `override`: then it is the one that was measured to be the fastest.
    """

    problem: str
    device: DeviceFacts
    kernel: str
    splits: int
    repack_a: bool
    repack_b: bool
    workspace_bytes: int
    predicted_us: float | None  # None: there is no model of this kernel
    reason: str
    candidates: tuple[Candidate, ...]
    override: str | None = None  # "tuned" or "built-in": a measurement decided, not the model

    def __str__(self) -> str:
        facts = self.device
        told = self.predicted_us is not None
        predicted = f"{self.predicted_us:.1f} us" if told else "no model"
        lines = [
            f"{self.problem} on {facts.name} (sm_{facts.cc}, {facts.sm_count} SMs)",
            f"  kernel     {self.kernel}" + _launch_text(self),
            f"  predicted  {predicted}",
            f"  workspace  {self.workspace_bytes} bytes",
            f"  why        {self.reason}",
        ]
        if self.candidates:
            lines += ["", *_table(self.candidates)]
        return "\n".join(lines)

    def as_dict(self) -> dict:
        """The same in plain Python values, for JSON."""
        return asdict(self)


def _launch_text(launch):
    parts = [f"K in {launch.splits} parts"] if launch.splits > 1 else []
    parts += [f"{x} copied to aligned rows" for x in "ab" if getattr(launch, f"repack_{x}")]
    return f" ({', '.join(parts)})" if parts else ""


def _table(candidates):
    width = max(len("candidate"), *(len(c.kernel) for c in candidates))
    yield f"  {'candidate':{width}}  splits  repack  predicted us  tensor  memory  overhead"
    for c in candidates:
        repack = ("a" if c.repack_a else "") + ("b" if c.repack_b else "") or "-"
        yield (
            f"  {c.kernel:{width}}  {c.splits:6}  {repack:6}  {c.predicted_us:12.1f}"
            f"  {c.tensor_us:6.1f}  {c.memory_us:6.1f}  {c.overhead_us:8.1f}"
        )


def kernels() -> list[dict]:
    """Every kernel, in the order of its family's development.

    Returns:
        A dict each: name (what `kernel=` takes), family (also taken by `kernel=`), what (one
        line), min_cc and max_cc (compute capabilities, max_cc 0 for no limit), tile (m, n, k),
        stages, threads, smem_bytes, any_align (takes rows of any alignment, else of 16 bytes),
        layouts ("all", or the one that it takes, named as in plan: "nn" or "nt") and batched
        (takes a batch in one launch).

    Raises:
        RuntimeError: the planning module was not built for this Python.
    """
    return planner().kernels()


def device_facts(device: DeviceFacts | torch.device | str | int | None = None) -> DeviceFacts:
    """The facts of a CUDA device, or of a preset by its name.

    Args:
        device: a name in PRESETS (upper and lower case alike), a CUDA device, or None for the
            current CUDA device if there is one, else the preset H200.

    Raises:
        ValueError: no such preset or CUDA device.
    """
    if isinstance(device, DeviceFacts):
        return device
    if device is None:
        if not torch.cuda.is_available():
            return PRESETS[DEFAULT_PRESET]
        device = torch.cuda.current_device()
    if isinstance(device, str):
        for name, facts in PRESETS.items():
            if name.lower() == device.lower():
                return facts
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type != "cuda":
        raise ValueError(
            f"device is {device!r}; wanted a CUDA device or one of {', '.join(PRESETS)}"
        )
    if not torch.cuda.is_available():
        raise ValueError(f"device is {device!r}; there is no CUDA device, only presets by name")
    count = torch.cuda.device_count()
    if found.index is not None and found.index >= count:
        raise ValueError(f"device is {device!r}; there are {count} CUDA devices")
    return _facts_of_cuda_device(found)


def _facts_of_cuda_device(device):
    properties = torch.cuda.get_device_properties(device)
    return DeviceFacts(
        name=properties.name,
        cc=properties.major * 10 + properties.minor,
        sm_count=properties.multi_processor_count,
        smem_per_block=properties.shared_memory_per_block_optin,
        smem_per_sm=properties.shared_memory_per_multiprocessor,
        l2_bytes=properties.L2_cache_size,
        sm_ghz=properties.clock_rate * 1e-6,
        # Two transfers a memory clock, which is in kHz.
        dram_tbs=2e-9 * properties.memory_clock_rate * properties.memory_bus_width / 8,
    )


_PLAIN = dict(
    batch=1, lda=None, ldb=None, ldc=None, align_offset=0, bias=False, activation="none"
)  # what read_problem() takes for arguments that are left out


def read_problem(*, dtype, out_dtype, kernel="auto", **given):
    """The arguments of plan(), checked, as the planning module takes them: a dict."""
    check_one_of("dtype", dtype, tuple(_DTYPES), "torch.float16 or torch.bfloat16")
    check_one_of("out_dtype", out_dtype, (None, torch.float32), "None or torch.float32")
    problem = _PLAIN | given
    check_problem(**problem, kernel=kernel, out_itemsize=2 if out_dtype is None else 4)
    return problem | dict(dtype=_DTYPES[dtype], out_dtype=None if out_dtype is None else "fp32")


def plan(
    m: int,
    n: int,
    k: int,
    *,
    batch: int = 1,
    dtype: torch.dtype = torch.bfloat16,
    layout: str = "nn",
    device: DeviceFacts | torch.device | str | int | None = None,
    kernel: str = "auto",
    lda: int | None = None,
    ldb: int | None = None,
    ldc: int | None = None,
    align_offset: int = 0,
    bias: bool = False,
    activation: str = "none",
    out_dtype: torch.dtype | None = None,
) -> Plan:
    """What hgemm would do with a product of [m, k] and [k, n]. Runs nothing and needs no GPU.

    Args:
        m, n, k: extents, 0 or more.
        batch: how many such products.
        dtype: torch.float16 or torch.bfloat16.
        layout: how a and b are stored, a letter each: "n" as written, "t" transposed. "nt" is
            `x @ weight.mT` with weight stored [n, k].
        device: see device_facts.
        kernel: as in hgemm.
        lda, ldb, ldc: elements from one stored row to the next; None for tight rows.
        align_offset: bytes by which a, b and out start past a 16-byte boundary, an even number.
        bias, activation, out_dtype: as in hgemm, `bias` only as a bool.

    Returns:
        A Plan; print it for a table.

    Raises:
        ValueError: an argument is out of range, or no kernel or family is called `kernel`.
        RuntimeError: `kernel` can't run this problem on this device (with the reason), or the
            planning module was not built for this Python.
    """
    problem = read_problem(
        m=m,
        n=n,
        k=k,
        batch=batch,
        dtype=dtype,
        layout=layout,
        kernel=kernel,
        lda=lda,
        ldb=ldb,
        ldc=ldc,
        align_offset=align_offset,
        bias=bias,
        activation=activation,
        out_dtype=out_dtype,
    )
    facts = device_facts(device)
    check_device(facts)
    chosen = planner().plan(problem, asdict(facts), kernel)
    error = chosen.pop("error")
    if error:
        raise RuntimeError(error)
    candidates = tuple(Candidate(**candidate) for candidate in chosen.pop("candidates"))
    if chosen["kernel"] != "none" and not candidates:
        chosen["predicted_us"] = None
    return Plan(problem=_describe(problem), device=facts, candidates=candidates, **chosen)


def _describe(problem):
    text = "{m} x {n} x {k} {layout} {dtype}".format(**problem)
    if problem["batch"] != 1:
        text = f"{problem['batch']} x {text}"
    details = [f"{name} {problem[name]}" for name in ("lda", "ldb", "ldc") if problem[name]]
    if problem["align_offset"]:
        details.append(f"offset {problem['align_offset']} bytes")
    if problem["bias"]:
        details.append("bias")
    if problem["activation"] != "none":
        details.append(problem["activation"])
    if problem["out_dtype"]:
        details.append("out fp32")
    return ", ".join([text, *details])
