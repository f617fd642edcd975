"""What the tests call, which kernel must run which product, and how failures are gathered."""

import functools
import gc
import itertools
import math

import pytest
import torch
from reference import INT_OF, judge, nan_filled_empty, operand

import vitamin_hgemm
from vitamin_hgemm import _overrides, planning
from vitamin_hgemm._library import planner

LAYOUTS = ("nn", "nt", "tn", "tt")
# Families of production kernels: each takes every problem on the devices that it is for.
FAMILIES = ("sm90", "sm80")
AMPERE_STEPS = ("sm80_naive", "sm80_bcf", "sm80_bcf_dbf", "sm80_bcf_dbf_rw")
HOPPER_STEPS = (
    "sm90_v1_simt",
    "sm90_v2_tma_wgmma",
    "sm90_v4_warp_specialized",
    "sm90_v5_setmaxnreg",
    "sm90_v6_persistent",
    "sm90_v8_cluster",
    "sm90_v10_tma_store",
    "sm90_v11_hilbert",
)
# Kernels of the studies: a step with another swizzle, ring, L2 promotion, box, cluster or order.
HOPPER_STUDIES = (
    *(f"sm90_v2_tma_wgmma_{swizzle}" for swizzle in ("sw0", "sw32", "sw64")),
    *(f"sm90_v4_warp_specialized_s{stages}" for stages in (2, 3, 4, 5, 6)),
    *(f"sm90_v4_warp_specialized_l2_{promotion}" for promotion in ("none", "64", "128")),
    *(f"sm90_v4_warp_specialized_box_{rows}" for rows in (32, 64)),
    "sm90_v8_cluster_1x2",
    *(f"sm90_v11_{order}" for order in ("row", "grouped", "serpentine")),
    *(f"sm90_v11_{order}_nc" for order in ("row", "grouped", "serpentine", "hilbert")),
)
# Tiles of the production Hopper kernel, with the clusters that they come in: blocks below each
# other in c, which share tiles of b, x blocks side by side, which share tiles of a.
UNSWAPPED = {
    "128x256": "1x1 2x1 1x2",
    "128x208": "2x1 1x2",
    "128x192": "2x1 1x2",
    "128x176": "2x1 1x2",
    "192x160": "1x2",
    "192x112": "2x1",
    "192x96": "2x1 1x2",
    "128x144": "1x1 1x2",
    "128x128": "1x1 2x1 2x2 4x1 1x4 4x2",
    "128x112": "1x1 2x1 1x2 1x4",
    "128x96": "1x1 1x2",
    "128x64": "1x1 4x1",
    "64x128": "2x1 4x1",
    "64x64": "1x1 4x1 1x4",
    "128x32": "1x1 4x1",
    "128x16": "1x1",
    "64x32": "1x1 2x1 1x2 4x1 1x4",
    "64x16": "1x1 2x1",
}
# Rows of c are columns of what is multiplied.
SWAPPED = {
    "208x128": "1x2",
    "192x128": "2x1 1x2",
    "176x128": "2x1 1x2",
    "160x192": "2x1",
    "112x192": "2x1",
    "96x192": "1x1",
    "144x128": "1x2 2x2",
    "112x128": "2x1 4x1",
    "96x128": "1x1 4x1",
    "48x128": "1x1 1x2",
    "64x128": "1x1 1x4",
    "32x128": "1x1 1x4",
    "16x128": "1x1 1x2",
    "32x64": "1x1",
    "16x64": "1x1",
}


def _clusters(tiles):
    """Blocks below each other and side by side, by the names of kernels."""
    ways = [(tile, shape) for tile, shapes in tiles.items() for shape in shapes.split()]
    names = [f"sm90_{tile}x64" + ("" if shape == "1x1" else f"_{shape}") for tile, shape in ways]
    clusters = (tuple(map(int, shape.split("x"))) for _, shape in ways)
    return dict(zip(names, clusters, strict=True))


CLUSTER_OF = _clusters(UNSWAPPED) | _clusters(SWAPPED)
HOPPER_TILES = tuple(CLUSTER_OF)
HOPPER_SWAPPED = tuple(_clusters(SWAPPED))
# Those whose blocks share tiles.
HOPPER_CLUSTERS = tuple(name for name, cluster in CLUSTER_OF.items() if cluster != (1, 1))
# For few rows or columns: the one that takes every K, and one for shallow K. With a block for every
# tile, for K that is less shallow.
HOPPER_STREAM, HOPPER_SHALLOW, HOPPER_ONCE = "sm90_stream", "sm90_shallow", "sm90_once"
MOST_K = {HOPPER_SHALLOW: 128, HOPPER_ONCE: 1024}
HOPPER_ANY_K = (*HOPPER_TILES, HOPPER_STREAM)
HOPPER_KERNELS = (*HOPPER_ANY_K, HOPPER_SHALLOW, HOPPER_ONCE)


def most_parts(name):
    """How many parts of K a kernel of HOPPER_KERNELS may make: a cluster has up to 8 blocks."""
    if name in (HOPPER_SHALLOW, HOPPER_ONCE):
        return 1
    return 8 // math.prod(CLUSTER_OF.get(name, (1, 1)))


# Those that may split K.
HOPPER_SPLIT = tuple(name for name in HOPPER_TILES if most_parts(name) > 1)


@functools.cache
def table():
    return {entry["name"]: entry for entry in vitamin_hgemm.kernels()}


def production(family):
    """The kernels of one of FAMILIES."""
    return [name for name, entry in table().items() if entry["family"] == family]


def kernel_names(device="cuda"):
    """What kernel= takes but for the studies' kernels; on the CPU "auto" is all there is."""
    if torch.device(device).type == "cpu":
        return ["auto"]
    single = [name for name, entry in table().items() if entry["family"] != "study"]
    return ["auto", *FAMILIES, *single]


def runs_on(name, device="cuda"):
    """Whether the device's compute capability and shared memory do for the kernel or family."""
    facts = torch.cuda.get_device_properties(device)
    cc = facts.major * 10 + facts.minor
    members = [name] if name in table() else production(name)
    return name == "auto" or any(
        entry["min_cc"] <= cc <= (entry["max_cc"] or cc)
        and entry["smem_bytes"] <= facts.shared_memory_per_block_optin
        for entry in map(table().get, members)
    )


def choosers(device="cuda"):
    """The names that stand for several kernels and take every problem on the device."""
    if torch.device(device).type == "cpu":
        return ["auto"]
    return [name for name in ("auto", *FAMILIES) if runs_on(name, device)]


def kernels_here(device="cuda"):
    """Those of kernel_names() that the device can run."""
    return [name for name in kernel_names(device) if runs_on(name, device)]


def batched(name):
    """Whether a batch is one launch of the kernel, or of those among which the name chooses."""
    return name not in table() or table()[name]["batched"]


def most_k(name, k):
    """k, or the most that the kernel takes."""
    return min(k, MOST_K.get(name, k))


def layout_of(name):
    """A layout that the kernel takes, "nn" unless it is made for another."""
    layouts = table()[name]["layouts"] if name in table() else "all"
    return "nn" if layouts == "all" else layouts


def padded(rows, cols, dtype, device, layout="n", **options):
    """operand() with rows padded to a multiple of 16 bytes, not 0: what every kernel can load."""
    inner = cols if layout == "n" else rows
    pad = -inner % 8 if inner else 8
    return operand(rows, cols, dtype, device, layout=layout, pad=pad, **options)


def padded_pairs(m, n, k, dtype, device, **options):
    """The same a and b, padded(), by what layout_of() may say."""
    a = padded(m, k, dtype, device, **options)
    b = padded(k, n, dtype, device, **options)
    return {"nn": (a, b), "nt": (a, padded(k, n, dtype, device, "t", values=b, **options))}


def choose(problem, way, device):
    """Has "auto" run a problem, given as to plan(), in that way, and plan() say so."""
    problem = {"dtype": torch.bfloat16, "out_dtype": None} | problem
    key = tuple(planner().problem_key(planning.read_problem(**problem)))
    assert _overrides.put(torch.cuda.get_device_name(device), key, way)
    plan = vitamin_hgemm.plan(**problem, device=device)
    assert (plan.override, plan.kernel, plan.splits) == ("tuned", way.kernel, way.splits)


def assert_repeats_bits(first, a, b, name, what):
    """1,000 more launches, each into NaN, give the bits of `first`."""
    out = torch.empty_like(first)
    differs = torch.zeros((), dtype=torch.bool, device=first.device)
    for _ in range(1000):
        out.fill_(math.nan)
        torch.ops.vitamin.hgemm.out(a, b, kernel=name, out=out)
        differs |= (out.view(torch.int16) != first.view(torch.int16)).any()
    assert not differs, what


def need_memory(gib):
    """Skips the test unless so much device memory is free."""
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0] / 2**30
    if free < gib:
        pytest.skip(f"needs {gib} GiB of free device memory, has {free:.0f}")


def measure_memory(run, device=None):
    """run()'s result, and the most bytes that it had requested from the caching allocator.

    Requests, not blocks, which the allocator rounds up. No garbage is collected meanwhile: what
    others left would count as negative.
    """
    gc.disable()
    try:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_stats(device)["requested_bytes.all.current"]
        result = run()
        torch.cuda.synchronize(device)
        return result, torch.cuda.memory_stats(device)["requested_bytes.all.peak"] - before
    finally:
        gc.enable()


def _aligned(x):
    """Whether the base and every stride but that of the contiguous index are multiples of 16 bytes.

    Extents of 1 don't count.
    """
    strides = [s for s, n in zip(x.stride(), x.shape, strict=True) if n > 1]
    if 1 in [s for s, n in zip(x.stride()[-2:], x.shape[-2:], strict=True) if n > 1]:
        strides.remove(1)
    return x.data_ptr() % 16 == 0 and all(s * x.itemsize % 16 == 0 for s in strides)


def _overlaps(shape, strides):
    """Whether indices may share an element; exact for a matrix with a stride of 1."""
    reach = 1
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1:
            if stride < reach:
                return True
            reach += (size - 1) * stride
    return False


def _cublas_duty(a, b):
    """cuBLAS wants a stride of 1, and a leading dimension that spans the other extent."""
    if a.shape[-1] == 0:
        return True
    a, b = a[None] if a.dim() == 1 else a, b[:, None] if b.dim() == 1 else b
    if not all(1 in x.stride()[-2:] or 1 in x.shape[-2:] for x in (a, b)):
        return None
    if any(_overlaps(x.shape[-2:], x.stride()[-2:]) for x in (a, b)):
        return False
    # A batch of a that is folded into the rows may make them overlap.
    counts = [s > 0 or a.shape[-2] == 1 for s in a.stride()]
    foldable = (list(itertools.compress(x, counts)) for x in (a.shape, a.stride()))
    return None if _overlaps(*foldable) else True


def _production_duty(entry, a, b, aligned):
    """Of production kernels, where `aligned` is whether they can load a and b. What becomes of
    batch dimensions and of strides of extents of 1 is up to ops/; those of sm90 take no batch of
    several strides.
    """
    if a.dim() == b.dim() == 2 and min(*a.shape, *b.shape) > 1:
        return aligned
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    certain = entry["family"] != "sm90" or sum(n > 1 for n in batch) <= 1
    return (aligned and certain) or None


def _stream_duty(name, a, b, native):
    """Of the kernels for few rows or columns; `native`: of a and b, whether they have a stride of
    1, which the larger one needs.
    """
    k = a.shape[-1]
    if name == HOPPER_SHALLOW and k > 128:
        return False
    if not (a.dim() == b.dim() == 2 and min(*a.shape, *b.shape) > 1):
        return None
    b_is_wide = b.shape[-1] >= a.shape[-2]
    wide = b.t() if b_is_wide else a
    if name == HOPPER_SHALLOW and wide.stride(1) == 1 and wide.stride(0) > 128:
        return None  # rows that lie far apart don't fit into shared memory
    return native[b_is_wide]


def duty(name, a, b):
    """True if the kernel must run a @ b, False if it must refuse, None if it may do either."""
    if name in choosers(a.device):
        return True
    if 0 in (*a.shape[:-1], *b.shape[:-2], b.shape[-1]):
        return None  # nothing to do, which any kernel can
    if not runs_on(name, a.device):
        return False
    entry = table()[name]
    native = [1 in x.stride()[-2:] or 1 in x.shape[-2:] for x in (a, b)]
    if name in (HOPPER_STREAM, HOPPER_SHALLOW):
        return _stream_duty(name, a, b, native)
    if name == HOPPER_ONCE:
        return a.shape[-1] <= MOST_K[name]
    aligned = _aligned(a) and _aligned(b) and all(native)
    if entry["layouts"] != "all":
        if min(*a.shape[-2:], *b.shape[-2:]) <= 1:
            return None
        inner = zip((a, b), entry["layouts"], strict=True)
        return aligned and all(x.stride(-1 if kind == "n" else -2) == 1 for x, kind in inner)
    if entry["family"] == "cublas":
        return _cublas_duty(a, b)
    if entry["any_align"] and entry["family"] == "sm80":
        return True
    return _production_duty(entry, a, b, aligned)


def refused(error, name):
    """Whether `error` is the refusal of a kernel by name, with a reason."""
    text = str(error)
    return name in text and "CUDA error" not in text and len(text) > len(name) + 20


def call(name, a, b, out, **options):
    """hgemm.out by kernel `name`, with every allocation that it makes filled with NaN."""
    with nan_filled_empty():
        return torch.ops.vitamin.hgemm.out(a, b, kernel=name, out=out, **options)


class Failures:
    """Gathers what went wrong over many calls; leaving the block raises one error for all."""

    def __init__(self):
        self.texts = []
        self.runs = 0

    def __enter__(self):
        return self

    def add(self, text):
        self.texts.append(text)

    def check(self, name, a, b, *, out=None, must=None, what="", **options):
        """Runs `name` into NaN twice: the result is in bounds, and the bits are the same.

        `must` overrides duty(). Returns the output, or None if the kernel refused.
        """
        must = duty(name, a, b) if must is None else must
        bias, activation = options.get("bias"), options.get("activation", "none")
        if out is None:
            batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
            kind = options.get("out_dtype") or a.dtype
            shape = (*batch, a.shape[-2], b.shape[-1])
            out = torch.full(shape, torch.nan, dtype=kind, device=a.device)
        what = (
            f"{name} {what} {a.dtype} a {tuple(a.shape)}/{a.stride()} b {tuple(b.shape)}/"
            f"{b.stride()} at {a.data_ptr() % 16}, {b.data_ptr() % 16} bytes"
            f"{', bias' if bias is not None else ''}, {activation}, out {out.dtype} {out.stride()}"
        )
        try:
            call(name, a, b, out, **options)
        except RuntimeError as error:
            if "CUDA error" in str(error):
                raise AssertionError(f"{what}: {error}") from error
            if must is True or not refused(error, name):
                self.add(f"{what}: refused: {str(error)[:300]}")
            return None
        self.runs += 1
        if must is False:
            self.add(f"{what}: ran, but has to be refused")
        verdict = judge(out, a, b, bias, activation)
        if not verdict:
            self.add(f"{what}: {verdict}")
        first = out.clone()
        call(name, a, b, out.fill_(1e4), **options)
        if not torch.equal(first.view(INT_OF[out.dtype]), out.clone().view(INT_OF[out.dtype])):
            self.add(f"{what}: other bits in the second run")
        return out

    def check_all(self, a, b, **options):
        """check() of every kernel."""
        for name in kernel_names(a.device):
            self.check(name, a, b, **options)

    def __exit__(self, kind, *_):
        if kind is not None:
            return
        head = "\n".join(self.texts[:25])
        assert not self.texts, f"{len(self.texts)} failures in {self.runs} runs\n{head}"
        assert self.runs, "no kernel ran"
