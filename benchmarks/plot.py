"""Draws the recorded measurements: ladders, roofline, speedup shape by shape, studies, tiles.

    python benchmarks/plot.py [FILE.csv ...] [--out DIR]

Reads the CSVs that bench.py and studies.py wrote (default: all of benchmarks/results, the newest
row of each problem counts) and writes PNGs to docs/images. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: profile.py beside this file must not hide the standard library's.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks import plot_portfolio, plot_sm90, records, shapes
from benchmarks.figures import (
    COLORS,
    Bars,
    Rows,
    bars_of_ladder,
    draw_bars,
    pick,
    save,
    subtitle,
)

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"

# GPU: peak of the tensor cores in TFLOP/s at the clock they sustain in bursts, and the rate of a
# device-to-device copy in TB/s, both measured.
ROOFS = {"H200": (989.0, 4.28)}

LADDER_SHAPE = shapes.SUITES["ladder"][0]


def ladder_bars(rows: Rows) -> Bars:
    """Speedups over torch."""
    known = shapes.RTX5060_RATIOS
    return bars_of_ladder(rows, "ladder", shapes.LADDER_KERNELS, "ratio_torch", known)


def draw_ladder(plt, rows: Rows, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(9, 4.2))
    draw_bars(axes, ladder_bars(rows), "a mobile RTX 5060 (known)", "%.2f", headroom=1.18)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_ylabel("speedup over torch.matmul")
    axes.set_title(f"The ladder at {LADDER_SHAPE}\n{subtitle(rows)}", fontsize=9)
    save(plt, figure, path)


def draw_roofline(plt, rows: Rows, path: Path) -> None:
    figure, axes = plt.subplots(figsize=(8, 5))
    markers = dict(zip(shapes.CLASSES, "os^Dv", strict=True))
    dtype = "bf16" if any(row["dtype"] == "bf16" for row in rows) else "fp16"
    for suite, marker in markers.items():
        for kernel, color in (("torch", COLORS["known"]), ("auto", COLORS["bf16"])):
            found = records.newest(rows, suite=suite, kernel=kernel, dtype=dtype).values()
            if found:
                xs = [records.shape_of(row).flops / records.shape_of(row).bytes for row in found]
                ys = [float(row["tflops"]) for row in found]
                label = f"{suite}, {'torch' if kernel == 'torch' else 'vitamin_hgemm'}"
                axes.scatter(xs, ys, 26, color=color, marker=marker, alpha=0.75, label=label)
    roof = next((value for name, value in ROOFS.items() if name in rows[0]["gpu"]), None)
    if roof:
        peak, bandwidth = roof
        ridge = peak / bandwidth
        xs = [0.5, ridge, 8e3]
        axes.plot(xs, [min(peak, x * bandwidth) for x in xs], color="black", linewidth=1)
        axes.annotate(f"{peak:.0f} TFLOP/s at 1830 MHz", (ridge * 1.6, peak * 1.07), fontsize=8)
        axes.annotate(f"{bandwidth} TB/s, a copy", (1.1, 1.6 * bandwidth), fontsize=8, rotation=38)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("FLOP a byte, inputs and output moved once")
    axes.set_ylabel("TFLOP/s")
    axes.grid(alpha=0.25)
    axes.legend(fontsize=7, ncols=2, loc="lower right")
    axes.set_title(f"Roofline, {dtype}\n{subtitle(rows)}", fontsize=9)
    save(plt, figure, path)


def draw_ratios(plt, rows: Rows, suite: str, path: Path) -> None:
    found = records.newest(rows, suite=suite, kernel="auto")
    members = [shape for shape in shapes.SUITES[suite] if any(key[0] == shape for key in found)]
    others = sorted({key[0] for key in found} - set(members), key=str)
    ordered = [*members, *others]
    figure, axes = plt.subplots(figsize=(8, 1.3 + 0.34 * len(ordered)))
    for i, dtype in enumerate(("bf16", "fp16")):
        points = [(y, found.get((shape, dtype, "auto"))) for y, shape in enumerate(ordered)]
        points = [(y, float(row["ratio_torch"])) for y, row in points if row]
        ys = [y + (i - 0.5) * 0.36 for y, _ in points]
        drawn = axes.barh(ys, [r for _, r in points], 0.36, label=dtype, color=COLORS[dtype])
        axes.bar_label(drawn, fmt="%.2f", fontsize=6, padding=2)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(ordered)), [str(shape) for shape in ordered], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(right=axes.get_xlim()[1] * 1.06)
    axes.set_xlabel("speedup over torch.matmul")
    axes.legend(fontsize=8)
    axes.set_title(f"{suite}: auto\n{subtitle(rows)}", fontsize=9)
    save(plt, figure, path)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE.csv")
    parser.add_argument("--gpu", help="part of the GPU's name; default: that of the newest row")
    parser.add_argument("--state", choices=("cold", "hot"), default="cold")
    parser.add_argument(
        "--out", type=Path, default=IMAGES, metavar="DIR", help="default: %(default)s"
    )
    args = parser.parse_args(argv)
    files = args.files or sorted(records.RESULTS.glob("*.csv"))
    rows = pick(records.read_all(files), args.gpu, args.state)
    studied = pick(records.read_others(files, "smem_bytes"), args.gpu, args.state)
    by_parts = pick(records.read_all(files, records.SPLIT_COLUMNS), args.gpu, args.state)
    if not rows and not studied and not by_parts:
        print("no measurement of a GPU to draw: run benchmarks/bench.py on one", file=sys.stderr)
        return 2
    try:
        import matplotlib
    except ImportError:
        print("plot.py needs matplotlib: pip install matplotlib", file=sys.stderr)
        return 2
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    def of(*suites: str) -> Rows:
        return [row for row in rows if row["suite"] in suites]

    end = ".png" if args.state == "cold" else f"-{args.state}.png"
    if ladder_bars(rows):
        draw_ladder(plt, of("ladder"), args.out / f"ladder{end}")
    suites = [name for name in shapes.CLASSES if records.newest(rows, suite=name, kernel="auto")]
    if suites:
        draw_roofline(plt, of(*suites), args.out / f"roofline{end}")
    for suite in suites:
        draw_ratios(plt, of(suite), suite, args.out / f"ratio-{suite}{end}")
    plot_sm90.draw_all(plt, rows, studied, args.out, end)
    if by_parts:
        plot_portfolio.draw_map(plt, by_parts, args.out / f"hopper-tiles{end}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
