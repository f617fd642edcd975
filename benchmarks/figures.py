"""What the plots have in common: which rows, which colours, how a picture is written."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from benchmarks import records, shapes

COLORS = {"bf16": "#0072B2", "fp16": "#E69F00", "known": "#999999"}
DPI = 110

Rows = list[dict[str, str]]


def pick(measured: Rows, gpu: str | None, state: str) -> Rows:
    """The rows of one GPU and state: the GPU that the newest row names, unless one is given."""
    of_state = [row for row in measured if row["state"] == state and row["suite"] != "cpu"]
    if gpu is None and of_state:
        gpu = max(of_state, key=lambda row: row["date"])["gpu"]
    return [row for row in of_state if gpu is not None and gpu in row["gpu"]]


def subtitle(rows: Rows) -> str:
    newest = max(rows, key=lambda row: row["date"])
    return (
        f"{newest['gpu']}, {newest['state']}, torch {newest['torch']}, cuBLAS {newest['cublas']}, "
        f"{newest['date'][:10]}, commit {newest['commit']}"
    )


Bars = list[tuple[str, dict[str, float]]]


def bars_of_ladder(
    rows: Rows, suite: str, kernels: Iterable[str], column: str, known: dict[str, float]
) -> Bars:
    """(kernel, figures by "bf16", "fp16" and "known") of a ladder, at its own size, in order."""
    shape = shapes.SUITES[suite][0]
    found = records.newest(rows, suite=suite)
    bars = []
    for kernel in ("torch", *kernels):
        figures = {
            dtype: float(found[shape, dtype, kernel][column])
            for dtype in ("bf16", "fp16")
            if (shape, dtype, kernel) in found
        }
        if figures and kernel in known:
            figures["known"] = known[kernel]
        if figures:
            bars.append((kernel, figures))
    return bars


def draw_bars(axes, bars: Bars, known: str, fmt: str, headroom: float) -> None:
    """Three bars a kernel; `known` is the label of the third, `headroom` the room above them."""
    names = {"bf16": "bf16", "fp16": "fp16", "known": known}
    width = 0.27
    for i, (series, label) in enumerate(names.items()):
        xs = [x + (i - 1) * width for x, (_, figures) in enumerate(bars) if series in figures]
        ys = [figures[series] for _, figures in bars if series in figures]
        drawn = axes.bar(xs, ys, width, label=label, color=COLORS[series])
        axes.bar_label(drawn, fmt=fmt, fontsize=7)
    axes.set_xticks(range(len(bars)), [name for name, _ in bars], rotation=20, ha="right")
    axes.set_ylim(top=axes.get_ylim()[1] * headroom)
    axes.legend(fontsize=8, ncols=3, loc="upper left")


def save(plt, figure, path: Path, bottom: float = 0) -> None:
    """Writes the figure; `bottom` is the share of its height that the axes leave free there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout(rect=(0, bottom, 1, 1))
    # No date in the file: the same rows give the same bytes.
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    plt.close(figure)
    print(f"wrote {path}")
