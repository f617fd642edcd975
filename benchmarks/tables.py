"""Writes the measured tables of README.md and docs/ from the recorded CSVs.

    python benchmarks/tables.py [--page FILE.md ...] [--gpu NAME]

A page holds pairs of lines, `<!-- table: NAME -->` and `<!-- end -->`; what stands between them is
replaced. NAME is ladder, profile, summary, exactness, host, or a suite of bench.py.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path

if __package__ in (None, ""):
    # As in bench.py: profile.py beside this file must not hide the standard library's.
    sys.path.pop(0)
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from benchmarks import plot, records, shapes

HERE = Path(__file__).resolve().parent
PAGES = (HERE.parent / "README.md", *sorted((HERE.parent / "docs").glob("*.md")))
PEERS = HERE / "peers" / "cublaslt-h200.csv"
DTYPES = ("bf16", "fp16")

Rows = list[dict[str, str]]


def markdown(header: list[str], lines: list[list[str]]) -> list[str]:
    """A Markdown table: the first column left-aligned, the others right-aligned."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *lines)]


def made_with(row: dict[str, str]) -> str:
    parts = [row["gpu"], f"driver {row['driver']}", f"torch {row['torch']}"]
    parts += [f"cuBLAS {row['cublas']}", f"commit {row['commit']}", row["date"][:10]]
    return f"*{', '.join(part for part in parts if not part.endswith(' '))}*"


def _clocks(rows: Rows) -> str:
    read = [row for row in rows if row["sm_clock_mhz"]]
    if not read:
        return ""
    parts = []
    for column, unit in (("sm_clock_mhz", "MHz"), ("power_w", "W"), ("temperature_c", "°C")):
        values = [float(row[column]) for row in read if row[column]]
        if values:
            ends = dict.fromkeys(f"{end:.0f}" for end in (min(values), max(values)))
            parts.append(f"{' to '.join(ends)} {unit}")
    return f" Under load: {', '.join(parts)}."


def ladder(rows: Rows) -> list[str]:
    found = records.newest(rows, suite="ladder", state="cold")
    by_shape = {key[0]: None for key in found}
    lines = []
    for shape in by_shape:
        of_shape = {key[1:]: row for key, row in found.items() if key[0] == shape}
        cells = []
        for kernel in ("torch", *shapes.LADDER_KERNELS):
            line = [f"`{kernel}`"]
            for dtype in DTYPES:
                row = of_shape.get((dtype, kernel))
                line += _figures(row, ("time_us", 1), ("ratio_torch", 3), ("tflops", 0))
            known = shapes.RTX5060_RATIOS.get(kernel)
            at_known_size = shape == shapes.SUITES["ladder"][0] and known is not None
            cells.append([*line, f"{known:.2f}" if at_known_size else "-"])
        header = ["kernel"]
        for dtype in DTYPES:
            header += [f"{dtype} µs", "x torch", "TFLOP/s"]
        lines += [f"{shape}:", "", *markdown([*header, "RTX 5060 x torch"], cells), ""]
        lines += [made_with(next(iter(of_shape.values()))) + _clocks(list(of_shape.values())), ""]
    return lines


def _figures(row: dict[str, str] | None, *columns: tuple[str, int]) -> list[str]:
    return [
        f"{float(row[name]):.{digits}f}" if row and row[name] else "-" for name, digits in columns
    ]


def _peers() -> dict[tuple[shapes.Shape, str], str]:
    with PEERS.open(newline="") as file:
        return {(records.shape_of(r), r["dtype"]): r["best_us"] for r in csv.DictReader(file)}


def suite(rows: Rows, name: str) -> list[str]:
    found = records.newest(rows, suite=name, state="cold")
    if not found:
        return []
    peers = _peers() if "H200" in next(iter(found.values()))["gpu"] else {}
    header = ["problem", "type", "torch µs", "cublas µs", "cublasLt best µs", "auto µs"]
    header += ["TFLOP/s", "TB/s", "x torch", "x cublas", "err/bound", "torch err/bound"]
    lines = []
    for shape in dict.fromkeys([*shapes.SUITES[name], *(key[0] for key in found)]):
        for dtype in DTYPES:
            torch_row, cublas_row, auto = (
                found.get((shape, dtype, kernel)) for kernel in ("torch", "cublas", "auto")
            )
            if auto is None:
                continue
            peer = peers.get((shape, dtype))
            line = [str(shape), dtype, *_figures(torch_row, ("time_us", 1))]
            line += [*_figures(cublas_row, ("time_us", 1)), f"{float(peer):.1f}" if peer else "-"]
            line += _figures(auto, ("time_us", 1), ("tflops", 0), ("tbs", 2), ("ratio_torch", 2))
            line += _figures(auto, ("ratio_cublas", 2), ("err", 2)) + _figures(
                torch_row, ("err", 2)
            )
            lines.append(line)
    return [*markdown(header, lines), "", made_with(next(iter(found.values()))), ""]


def summary(rows: Rows) -> list[str]:
    lines = []
    for name in shapes.CLASSES:
        for dtype in DTYPES:
            for state in ("cold", "hot"):
                found = records.newest(rows, suite=name, kernel="auto", dtype=dtype, state=state)
                ratios = {key[0]: float(row["ratio_torch"]) for key, row in found.items()}
                if not ratios:
                    continue
                line = [name, dtype, state, str(len(ratios))]
                line.append(f"{records.geomean(ratios.values()):.2f}")
                for shape in (min(ratios, key=ratios.get), max(ratios, key=ratios.get)):
                    line.append(f"{ratios[shape]:.2f} at {shape}")
                lines.append([*line, str(sum(map(records.is_wrong, found.values())))])
    if not lines:
        return []
    header = ["class", "type", "state", "problems", "geometric mean", "least", "most", "wrong"]
    newest = max((row for row in rows if row["suite"] in shapes.CLASSES), key=lambda r: r["date"])
    return [*markdown(header, lines), "", made_with(newest), ""]


def exactness(rows: Rows) -> list[str]:
    """The problems on which torch breaks the bound, beside this package's error on them."""
    found = records.newest(rows, state="cold")
    lines = []
    for (shape, dtype, kernel), row in found.items():
        auto = found.get((shape, dtype, "auto"))
        if kernel == "torch" and auto and not float(row["err"]) <= 1:
            errors = [f"{float(one['err']):.2f}" for one in (row, auto)]
            lines.append([str(shape), dtype, *errors])
    return [*markdown(["problem", "type", "torch", "vitamin_hgemm"], lines), ""] if lines else []


# Column of profile.py's CSV: (title, factor, digits).
PROFILE = {
    "time_ns": ("µs", 1e-3, 1),
    "tensor_pct": ("tensor pipe %", 1, 1),
    "load_conflict_pct": ("load conflicts %", 1, 2),
    "ldmatrix_conflict_pct": ("ldmatrix conflicts %", 1, 2),
    "store_conflict_pct": ("store conflicts %", 1, 2),
    "cp_async_wavefronts": ("cp.async wavefronts M", 1e-6, 2),
    "cp_async_conflict_pct": ("cp.async conflicts %", 1, 2),
    "shared_wavefronts": ("shared wavefronts M", 1e-6, 2),
    "shared_wavefronts_ideal": ("ideal M", 1e-6, 2),
    "l2_hit_pct": ("L2 hits %", 1, 1),
    "dram_read_bytes": ("DRAM read MB", 1e-6, 0),
    "store_sectors_per_request": ("sectors a store", 1, 2),
    "store_bytes_per_sector": ("bytes a sector", 1, 1),
    "registers": ("registers", 1, 0),
}


def profile(rows: Rows) -> list[str]:
    """The newest profile of each (type, kernel), columns that nothing was read for left out."""
    newest = {}
    for row in sorted(rows, key=lambda row: row["date"]):
        newest[row["dtype"], row["kernel"]] = row
    kept = [column for column in PROFILE if any(row[column] for row in newest.values())]
    lines = []
    for (dtype, kernel), row in newest.items():
        line = [f"`{kernel}`", dtype]
        for column in kept:
            _, factor, digits = PROFILE[column]
            line.append(f"{float(row[column]) * factor:.{digits}f}" if row[column] else "-")
        lines.append(line)
    if not lines:
        return []
    header = ["kernel", "type", *(PROFILE[column][0] for column in kept)]
    return [*markdown(header, lines), "", made_with(next(iter(newest.values()))), ""]


def host(rows: Rows) -> list[str]:
    """The newest host time of each (way of calling, type)."""
    newest = {}
    for row in sorted(rows, key=lambda row: row["date"]):
        newest[row["call"], row["dtype"]] = row
    lines = [
        [call, dtype, *_figures(row, ("torch_us", 1), ("vitamin_us", 1), ("ratio", 2))]
        for (call, dtype), row in newest.items()
    ]
    if not lines:
        return []
    header = ["call", "type", "`torch.mm` µs", "vitamin_hgemm µs", "x torch"]
    return [*markdown(header, lines), "", made_with(next(iter(newest.values()))), ""]


def read_others(folder: Path, kind: str, column: str, gpu: str | None = None) -> Rows:
    """Rows of the CSVs that another script than bench.py wrote, known by a column."""
    rows = []
    for path in sorted(folder.glob(f"*{kind}*.csv")):
        with path.open(newline="") as file:
            rows += [r for r in csv.DictReader(file) if column in r and (gpu or "") in r["gpu"]]
    return [row for row in rows if not row["gpu"].startswith("cpu")]


def fill(text: str, tables: dict[str, list[str]]) -> str:
    """The page with each table between its two lines; those without rows say so."""

    def table(match: re.Match) -> str:
        name = match.group(1)
        lines = tables[name] or ["Not measured yet.", ""]
        return "\n".join([f"<!-- table: {name} -->", "", *lines, "<!-- end -->"])

    return re.sub(r"<!-- table: (\w+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--page", type=Path, nargs="+", default=PAGES, metavar="FILE.md", help="default: all"
    )
    parser.add_argument("--gpu", help="part of the GPU's name; default: that of the newest row")
    parser.add_argument("--results", type=Path, default=records.RESULTS, metavar="DIR")
    args = parser.parse_args(argv)
    measured = records.recorded(args.results)
    rows = [row for s in ("cold", "hot") for row in plot.pick(measured, args.gpu, s)]
    tables = {name: suite(rows, name) for name in shapes.CLASSES}
    tables["ladder"] = ladder(rows)
    tables["summary"] = summary(rows)
    tables["exactness"] = exactness(rows)
    tables["profile"] = profile(read_others(args.results, "profile", "cuda_kernel", args.gpu))
    tables["host"] = host(read_others(args.results, "host", "vitamin_us", args.gpu))
    for page in args.page:
        text = page.read_text()
        filled = fill(text, tables)
        if filled != text:
            page.write_text(filled)
            print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
