"""The pictures of the Hopper ladder and of its studies; drawn by plot.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks import records, shapes
from benchmarks.figures import Bars, Rows, bars_of_ladder, draw_bars, save, subtitle

SHADES = ("#c6dbef", "#6baed6", "#2171b5", "#08306b", "#E69F00", "#999999")
LADDER_SHAPE = shapes.SUITES["ladder-sm90"][0]


def ladder_bars(rows: Rows) -> Bars:
    """TFLOP/s."""
    kernels = shapes.LADDERS["ladder-sm90"]
    return bars_of_ladder(rows, "ladder-sm90", kernels, "tflops", shapes.H100_TFLOPS)


def draw_ladder(plt, rows: Rows, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(10, 4.6))
    draw_bars(axes, ladder_bars(rows), "claimed for an H100", "%.0f", headroom=1.15)
    axes.set_ylabel("TFLOP/s")
    own = [row for row in rows if row["suite"] == "ladder-sm90"]
    axes.set_title(f"The Hopper ladder at {LADDER_SHAPE}\n{subtitle(own)}", fontsize=9)
    save(plt, figure, path)


def cells(rows: Rows, study: str, dtype: str = "bf16") -> dict[tuple, dict[str, str]]:
    """The newest row of each (shape, kernel) of a study in one type."""
    found = records.newest(rows, suite=study, dtype=dtype)
    return {(shape, kernel): row for (shape, _, kernel), row in found.items()}


def draw_swizzle(plt, rows: Rows, path: Path) -> None:
    found = cells(rows, "swizzle")
    study = shapes.STUDIES["swizzle"]
    labels = ("none", "32 B", "64 B", "128 B")
    sizes = [shape for shape in study.shapes if any(key[0] == shape for key in found)]
    figure, axes = plt.subplots(figsize=(8, 3.8))
    width = 0.2
    for i, (kernel, label) in enumerate(zip(study.kernels, labels, strict=True)):
        points = [(x, found.get((shape, kernel))) for x, shape in enumerate(sizes)]
        points = [(x + (i - 1.5) * width, row) for x, row in points if row]
        ys = [float(row["tflops"]) for _, row in points]
        drawn = axes.bar([x for x, _ in points], ys, width, label=label, color=SHADES[i])
        axes.bar_label(drawn, fmt="%.0f", fontsize=7)
    axes.set_xticks(range(len(sizes)), [str(shape) for shape in sizes])
    axes.set_ylabel("TFLOP/s, bf16")
    axes.legend(fontsize=8, title="swizzle", loc="upper left")
    axes.set_title(f"sm90_v2_tma_wgmma by swizzle\n{subtitle(rows)}", fontsize=9)
    save(plt, figure, path)


def draw_ring(plt, rows: Rows, path: Path) -> None:
    study = shapes.STUDIES["ring"]
    figure, axes = plt.subplots(figsize=(7, 3.8))
    ticks = {}
    for dtype, style in (("bf16", "-"), ("fp16", "--")):
        found = cells(rows, "ring", dtype)
        for i, shape in enumerate(study.shapes):
            own = [found[shape, kernel] for kernel in study.kernels if (shape, kernel) in found]
            if not own:
                continue
            xs = [int(row["stages"]) for row in own]
            for row in own:
                ticks[int(row["stages"])] = (
                    f"{row['stages']}\n{int(row['smem_bytes']) / 1024:.0f} KB"
                )
            ys = [float(row["tflops"]) for row in own]
            axes.plot(xs, ys, style, marker="o", color=SHADES[i + 1], label=f"{shape}, {dtype}")
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xlabel("stages, shared memory of a block")
    axes.set_ylabel("TFLOP/s")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8)
    axes.set_title(f"sm90_v4_warp_specialized by stages of the ring\n{subtitle(rows)}", fontsize=9)
    save(plt, figure, path)


def dram_times(row: dict[str, str]) -> float:
    """Bytes read from device memory, over those of a and b once."""
    shape = records.shape_of(row)
    return float(row["dram_read_bytes"]) / (2.0 * shape.k * (shape.m + shape.n))


def draw_raster(plt, rows: Rows, path: Path) -> None:
    found = cells(rows, "raster")
    study = shapes.STUDIES["raster"]
    sizes = [shape for shape in study.shapes if any(key[0] == shape for key in found)]
    panels = {
        "TFLOP/s": lambda row: float(row["tflops"]),
        "L2 hits, %": lambda row: float(row["l2_hit_pct"]) if row["l2_hit_pct"] else None,
        "DRAM reads,\ntimes a and b": lambda row: (
            dram_times(row) if row["dram_read_bytes"] else None
        ),
    }
    orders = [name for name in study.kernels if not name.endswith("_nc")]
    ticks = [(shape, kernel) for shape in sizes for kernel in orders]
    figure, all_axes = plt.subplots(len(panels), 1, figsize=(9, 7), sharex=True)
    for axes, (label, value) in zip(all_axes, panels.items(), strict=True):
        for i, (end, clusters) in enumerate((("_nc", "no clusters"), ("", "clusters of 2"))):
            points = [(x, found.get((s, kernel + end))) for x, (s, kernel) in enumerate(ticks)]
            points = [(x, value(row)) for x, row in points if row]
            points = [(x + (i - 0.5) * 0.4, y) for x, y in points if y is not None]
            xs, ys = [x for x, _ in points], [y for _, y in points]
            drawn = axes.bar(xs, ys, 0.4, label=clusters, color=SHADES[2 * i + 1])
            axes.bar_label(drawn, fmt="%.3g", fontsize=6)
        axes.set_ylabel(label, fontsize=8)
        axes.margins(y=0.15)
    names = [f"{k.removeprefix('sm90_v11_')}\n{shape.m}" for shape, k in ticks]
    all_axes[-1].set_xticks(range(len(ticks)), names, fontsize=7)
    all_axes[0].margins(y=0.35)
    all_axes[0].legend(fontsize=8, loc="upper right", ncols=2)
    all_axes[0].set_title(f"Order of the tiles, bf16\n{subtitle(rows)}", fontsize=9)
    save(plt, figure, path)


STUDY_PLOTS = {"swizzle": draw_swizzle, "ring": draw_ring, "raster": draw_raster}


def draw_all(plt, rows: Rows, studied: Rows, out: Path, end: str) -> None:
    """Draws what there are rows for; `end` is the end of the files' names."""
    if ladder_bars(rows):
        draw_ladder(plt, rows, out / f"hopper-ladder{end}")
    for study, draw in STUDY_PLOTS.items():
        own = [row for row in studied if row["suite"] == study]
        if own:
            draw(plt, own, out / f"study-{study}{end}")
