"""Writes the measured tables of README.md and docs/ from the recorded CSVs.

    python benchmarks/tables.py [--page FILE.md ...] [--gpu NAME]

A page holds pairs of lines, `<!-- table: NAME -->` and `<!-- end -->`; what stands between them is
replaced. NAME is ladder, profile, summary, exactness, host, a suite of bench.py, profile-sm90,
study- and a study of studies.py, tiles-sm90, ruler or ruler-problems.
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

from benchmarks import records, shapes, tables_portfolio, tables_sm90
from benchmarks.figures import pick
from benchmarks.markdown import DTYPES, Rows, clocks, figures, made_with, markdown

HERE = Path(__file__).resolve().parent
PAGES = (HERE.parent / "README.md", *sorted((HERE.parent / "docs").glob("*.md")))
PEERS = HERE / "peers" / "cublaslt-h200.csv"


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
                line += figures(row, ("time_us", 1), ("ratio_torch", 3), ("tflops", 0))
            known = shapes.RTX5060_RATIOS.get(kernel)
            at_known_size = shape == shapes.SUITES["ladder"][0] and known is not None
            cells.append([*line, f"{known:.2f}" if at_known_size else "-"])
        header = ["kernel"]
        for dtype in DTYPES:
            header += [f"{dtype} µs", "x torch", "TFLOP/s"]
        lines += [f"{shape}:", "", *markdown([*header, "RTX 5060 x torch"], cells), ""]
        lines += [made_with(next(iter(of_shape.values()))) + clocks(list(of_shape.values())), ""]
    return lines


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
            line = [str(shape), dtype, *figures(torch_row, ("time_us", 1))]
            line += [*figures(cublas_row, ("time_us", 1)), f"{float(peer):.1f}" if peer else "-"]
            line += figures(auto, ("time_us", 1), ("tflops", 0), ("tbs", 2), ("ratio_torch", 2))
            line += figures(auto, ("ratio_cublas", 2), ("err", 2)) + figures(torch_row, ("err", 2))
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
        [call, dtype, *figures(row, ("torch_us", 1), ("vitamin_us", 1), ("ratio", 2))]
        for (call, dtype), row in newest.items()
    ]
    if not lines:
        return []
    header = ["call", "type", "`torch.mm` µs", "vitamin_hgemm µs", "x torch"]
    return [*markdown(header, lines), "", made_with(next(iter(newest.values()))), ""]


def fill(text: str, tables: dict[str, list[str]]) -> str:
    """The page with each table between its two lines; those without rows say so."""

    def table(match: re.Match) -> str:
        name = match.group(1)
        lines = tables[name] or ["Not measured yet.", ""]
        return "\n".join([f"<!-- table: {name} -->", "", *lines, "<!-- end -->"])

    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?<!-- end -->", table, text, flags=re.DOTALL)


def make_tables(files: list[Path], gpu: str | None) -> dict[str, list[str]]:
    """Every table by its name; empty where there are no rows for it."""

    def states(rows: Rows) -> Rows:
        return [row for state in ("cold", "hot") for row in pick(rows, gpu, state)]

    def others(column: str) -> Rows:
        return [row for row in records.read_others(files, column) if (gpu or "") in row["gpu"]]

    rows = states(records.read_all(files))
    tables = {name: suite(rows, name) for name in shapes.CLASSES}
    tables["ladder"] = ladder(rows)
    tables["summary"] = summary(rows)
    tables["exactness"] = exactness(rows)
    tables["profile"] = profile(others("cp_async_wavefronts"))
    tables["host"] = host(others("call"))
    tables["ladder-sm90"] = tables_sm90.ladder(rows)
    tables["profile-sm90"] = tables_sm90.profile(others("stall_gmma"))
    studied = states(records.read_others(files, "smem_bytes"))
    tables |= {f"study-{name}": tables_sm90.study(studied, name) for name in shapes.STUDIES}
    by_parts = states(records.read_all(files, records.SPLIT_COLUMNS))
    tables["tiles-sm90"] = tables_portfolio.tiles(by_parts)
    ruled = others("class")
    tables["ruler"] = tables_portfolio.ruler(ruled)
    tables["ruler-problems"] = tables_portfolio.ruler_problems(ruled)
    return tables


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
    files = sorted(args.results.glob("*.csv"))
    tables = make_tables(files, args.gpu)
    for page in args.page:
        text = page.read_text()
        filled = fill(text, tables)
        if filled != text:
            page.write_text(filled)
            print(f"wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
