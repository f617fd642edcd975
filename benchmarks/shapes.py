"""The problems that the benchmark times, by suite."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

LAYOUTS = ("nn", "nt", "tn", "tt")

# Every kernel of the Ampere ladder, in its order: cuBLAS, the steps, production, the choice.
LADDER_KERNELS = (
    "cublas",
    "sm80_naive",
    "sm80_bcf",
    "sm80_bcf_dbf",
    "sm80_bcf_dbf_rw",
    "sm80",
    "auto",
)

# The Hopper ladder: cuBLAS and the steps. All of them run on compute capability 9.0 only.
SM90_STEPS = (
    "sm90_v1_simt",
    "sm90_v2_tma_wgmma",
    "sm90_v4_warp_specialized",
    "sm90_v5_setmaxnreg",
    "sm90_v6_persistent",
    "sm90_v8_cluster",
    "sm90_v10_tma_store",
    "sm90_v11_hilbert",
)

# Suites that time the steps of a ladder instead of auto, and what they time beside torch.
LADDERS = {"ladder": LADDER_KERNELS, "ladder-sm90": ("cublas", *SM90_STEPS)}
ONLY_ON = {"ladder-sm90": (9, 0)}  # suites for one compute capability

# The ladder as it was first measured, on a mobile RTX 5060 at 4096³: speedup over torch.matmul.
RTX5060_RATIOS = {
    "torch": 1.00,
    "cublas": 0.97,
    "sm80_naive": 0.79,
    "sm80_bcf": 0.94,
    "sm80_bcf_dbf": 1.00,
    "sm80_bcf_dbf_rw": 1.01,
}
RTX5060_TORCH_TFLOPS = 33.54

# What the source of the Hopper ladder claims for an H100: TFLOP/s, and the claim in words.
H100_TFLOPS = {
    "sm90_v2_tma_wgmma": 200.0,
    "sm90_v4_warp_specialized": 450.0,
    "sm90_v5_setmaxnreg": 631.0,
    "sm90_v11_hilbert": 750.0,
}
H100_CLAIMS = {
    "sm90_v1_simt": "about 30 % of cuBLAS",
    "sm90_v2_tma_wgmma": "200 TFLOP/s, 60 %",
    "sm90_v4_warp_specialized": "450 TFLOP/s",
    "sm90_v5_setmaxnreg": "631 TFLOP/s",
    "sm90_v11_hilbert": "750 TFLOP/s, 1.25 x its cuBLAS",
}


@dataclass(frozen=True)
class Shape:
    """c[batch, m, n] = a[batch, m, k] · b[batch, k, n]; batch 0 means plain matrices.

    layout: first letter a, second b; "n" is row-major as written, "t" is stored transposed.
    """

    m: int
    n: int
    k: int
    layout: str = "nn"
    batch: int = 0

    @property
    def flops(self) -> float:
        return 2.0 * max(self.batch, 1) * self.m * self.n * self.k

    @property
    def bytes(self) -> float:
        """Bytes of the two inputs and the output in a 16-bit type, each moved once."""
        elements = self.m * self.k + self.k * self.n + self.m * self.n
        return 2.0 * max(self.batch, 1) * elements

    def with_layout(self, layout: str) -> Shape:
        return replace(self, layout=layout)

    def __str__(self) -> str:
        prefix = f"{self.batch}x" if self.batch else ""
        return f"{prefix}{self.m}x{self.n}x{self.k}:{self.layout}"


_SHAPE = re.compile(r"(?:(\d+)x)?(\d+)x(\d+)x(\d+)(?::([nt]{2}))?")


def parse_shape(text: str) -> Shape:
    """Reads MxNxK, MxNxK:layout or BATCHxMxNxK:layout; ValueError for anything else."""
    match = _SHAPE.fullmatch(text.strip().lower())
    if not match:
        raise ValueError(f"shape {text!r}: want MxNxK:layout, for example 4096x4096x4096:nt")
    batch, m, n, k, layout = match.groups()
    if batch == "0":
        raise ValueError(f"shape {text!r}: the batch must be at least 1")
    return Shape(int(m), int(n), int(k), layout or "nn", int(batch or 0))


def _shapes(text: str) -> tuple[Shape, ...]:
    return tuple(parse_shape(word) for word in text.split())


SUITES: dict[str, tuple[Shape, ...]] = {
    "ladder": _shapes("4096x4096x4096:nn"),
    "ladder-sm90": _shapes("8192x8192x8192:nt"),
    "large": _shapes("""
        4096x4096x4096:nn 4096x4096x4096:nt 4096x4096x4096:tn 8192x8192x8192:nn
        8192x8192x8192:nt 16384x16384x16384:nn 8192x8192x1024:nn 4096x6144x4096:nt
        4096x4096x14336:nt 4096x28672x4096:nt 2048x2048x2048:nn 2048x28672x4096:nt
        2048x4096x14336:nt 1024x4096x4096:nt 8192x5120x13824:nt 4096x7168x2048:nt
        4096x2112x7168:nt 4096x24576x1536:nt"""),
    "mid": _shapes("""
        512x4096x4096:nt 256x4096x4096:nt 128x4096x4096:nt 512x128256x4096:nt
        256x28672x4096:nt 128x28672x4096:nt 512x4096x14336:nt 256x4096x14336:nt
        128x7168x16384:nt 128x2112x7168:nt 1024x1024x1024:nn 1024x1024x16384:nn
        512x512x512:nn"""),
    "decode": _shapes("""
        1x4096x4096:nt 4x4096x4096:nt 8x4096x4096:nt 16x4096x4096:nt 32x4096x4096:nt
        64x4096x4096:nt 1x28672x4096:nt 16x28672x4096:nt 64x28672x4096:nt 1x4096x14336:nt
        16x4096x14336:nt 16x128256x4096:nt 64x7168x16384:nt 64x2112x7168:nt
        8x151936x5120:nt 2x20569856x13:nt"""),
    "unaligned": _shapes("""
        4095x4095x4095:nn 4095x4095x4095:nt 4096x4096x4097:nn 4096x4096x4100:nt
        2048x50257x768:nt 2048x768x50257:nn 768x50257x2048:tn 8191x8191x8191:tn
        511x511x511:nn 4096x4090x4096:nn 64x4097x4097:nt 1x4095x4095:nt
        1000x1001x1002:nn 4096x2056x4096:nn 4096x2072x4096:nn"""),
    "batched": _shapes("""
        512x64x64x64:nn 96x1024x1024x64:nt 96x1024x64x1024:nn 256x128x128x128:nn
        32x512x512x512:tn 64x1x4096x128:nt 200x100x100x100:nn 8x2048x2048x2048:nn"""),
}

# The suites that judge auto: the ladders have tables of their own.
CLASSES = tuple(name for name in SUITES if name not in LADDERS)


@dataclass(frozen=True)
class Study:
    """Variants of one kernel, timed beside torch and cuBLAS; bf16 at all sizes, fp16 at some."""

    kernels: tuple[str, ...]
    shapes: tuple[Shape, ...]
    fp16_shapes: tuple[Shape, ...]
    hot: bool = False  # also at the power cap


_V2 = "sm90_v2_tma_wgmma"
_V4 = "sm90_v4_warp_specialized"
_ORDERS = ("row", "grouped", "serpentine", "hilbert")
_N1024, _N4096, _N8192, _N16384 = _shapes("""
    1024x1024x1024:nt 4096x4096x4096:nt 8192x8192x8192:nt 16384x16384x16384:nt""")

# The plain name of a step is the variant that the ladder settled on.
STUDIES = {
    "swizzle": Study(
        (f"{_V2}_sw0", f"{_V2}_sw32", f"{_V2}_sw64", _V2), (_N1024, _N4096, _N8192), (_N8192,)
    ),
    "ring": Study(tuple(f"{_V4}_s{n}" for n in range(2, 7)), (_N4096, _N8192), (_N8192,)),
    "promotion": Study(
        (f"{_V4}_l2_none", f"{_V4}_l2_64", f"{_V4}_l2_128", _V4), (_N4096, _N8192), (_N8192,)
    ),
    "box": Study((f"{_V4}_box_32", f"{_V4}_box_64", _V4), (_N4096, _N8192), (_N8192,)),
    "cluster": Study(
        ("sm90_v6_persistent", "sm90_v8_cluster", "sm90_v8_cluster_1x2"),
        (_N4096, _N8192),
        (_N8192,),
    ),
    "raster": Study(
        tuple(f"sm90_v11_{order}{end}" for end in ("_nc", "") for order in _ORDERS),
        (_N4096, _N8192, _N16384),
        (_N8192,),
    ),
    "hot": Study(
        ("sm90_v6_persistent", "sm90_v11_hilbert"), (_N4096, _N8192, _N16384), (), hot=True
    ),
}

# Small problems of each kind for machines without a GPU.
CPU_SHAPES = _shapes("""
    256x256x256:nn 256x256x256:nt 255x257x129:tn 128x512x256:tt 1x1024x1024:nt
    16x1024x512:nt 8x64x64x64:nn""")

QUICK_FLOPS = 2e11  # --quick keeps the shapes below this


def quick(shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """The shapes that take little time, or the smallest one where all are large."""
    small = tuple(shape for shape in shapes if shape.flops <= QUICK_FLOPS)
    return small or (min(shapes, key=lambda shape: shape.flops),)
