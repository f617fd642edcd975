"""What the plots have in common: which rows, which colours, how a picture is written."""

from __future__ import annotations

from pathlib import Path

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


def save(plt, figure, path: Path, bottom: float = 0) -> None:
    """Writes the figure; `bottom` is the share of its height that the axes leave free there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout(rect=(0, bottom, 1, 1))
    # No date in the file: the same rows give the same bytes.
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    plt.close(figure)
    print(f"wrote {path}")
