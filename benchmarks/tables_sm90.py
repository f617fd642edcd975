"""The tables of the Hopper ladder and of its studies; written by tables.py."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks import records, shapes
from benchmarks.markdown import DTYPES, Rows, clocks, figures, made_with, markdown


def ladder(rows: Rows) -> list[str]:
    """A table a size and state."""
    lines = []
    for state in ("cold", "hot"):
        found = records.newest(rows, suite="ladder-sm90", state=state)
        for shape in dict.fromkeys(key[0] for key in found):
            of_shape = {key[1:]: row for key, row in found.items() if key[0] == shape}
            header, power = ["kernel"], [("sm_clock_mhz", 0), ("power_w", 0)]
            columns = [("time_us", 0), ("tflops", 0), ("ratio_torch", 3)]
            titles = ["µs", "TFLOP/s", "x torch"]
            if state == "hot":
                columns, titles = columns + power, [*titles, "MHz", "W"]
            for dtype in DTYPES:
                header += [f"{dtype} {titles[0]}", *titles[1:]]
            cells = []
            timed = {kernel for _, kernel in of_shape}
            for kernel in ("torch", *shapes.LADDERS["ladder-sm90"]):
                if kernel not in timed:
                    continue
                line = [f"`{kernel}`"]
                for dtype in DTYPES:
                    line += figures(of_shape.get((dtype, kernel)), *columns)
                cells.append([*line, shapes.H100_CLAIMS.get(kernel, "-")])
            table = markdown([*header, "claimed for an H100"], cells)
            lines += [f"{shape}, {state}:", "", *table, ""]
            own = list(of_shape.values())
            lines += [made_with(own[0]) + (clocks(own) if state == "cold" else ""), ""]
    return lines


# Column of profile.py's CSV: (title, factor, digits).
PROFILE = {
    "time_ns": ("µs", 1e-3, 0),
    "sm_mhz": ("MHz", 1, 0),
    "power_w": ("W", 1, 0),
    "tensor_pct": ("tensor pipe %", 1, 1),
    "l2_pct": ("L2 %", 1, 1),
    "l2_read_bytes": ("L2 reads GB", 1e-9, 2),
    "l2_to_sm_bytes": ("L2 to SM GB", 1e-9, 2),
    "l2_hit_pct": ("L2 hits %", 1, 1),
    "dram_read_bytes": ("DRAM read MB", 1e-6, 0),
    "dram_write_bytes": ("DRAM write MB", 1e-6, 0),
    "bank_reads_per_wgmma": ("bank reads a WGMMA", 1, 1),
    "bank_writes_per_kb": ("bank writes a KB", 1, 1),
    "load_conflict_pct": ("load conflicts %", 1, 2),
    "store_conflict_pct": ("store conflicts %", 1, 2),
    "registers": ("registers", 1, 0),
}


def _shown(row: dict[str, str], column: str, factor: float, digits: int) -> str:
    return f"{float(row[column]) * factor:.{digits}f}" if row.get(column) else "-"


def _read(columns: dict[str, tuple], rows: Iterable[dict[str, str]]) -> dict[str, tuple]:
    """The columns that anything was read for."""
    return {name: how for name, how in columns.items() if any(row.get(name) for row in rows)}


def profile(rows: Rows) -> list[str]:
    """The newest profile of each (type, kernel), at the size of the newest of all."""
    if not rows:
        return []
    shape = records.shape_of(rows[-1])
    newest = {(r["dtype"], r["kernel"]): r for r in rows if records.shape_of(r) == shape}
    kept = _read(PROFILE, newest.values())
    lines = []
    for (dtype, kernel), row in newest.items():
        shown = [_shown(row, column, factor, d) for column, (_, factor, d) in kept.items()]
        stalls = row["top_stalls"].replace("_", " ") or "-"
        lines.append([f"`{kernel}`", dtype, *shown, stalls])
    header = ["kernel", "type", *(title for title, _, _ in kept.values())]
    table = markdown([*header, "warps wait for, % of their cycles"], lines)
    return [f"{shape}:", "", *table, "", made_with(rows[-1]), ""]


_TIMES = {"time_us": ("µs", 1, 1), "tflops": ("TFLOP/s", 1, 0), "ratio_torch": ("x torch", 1, 3)}
_FIXED = {
    "stages": ("stages", 1, 0),
    "smem_bytes": ("shared KB", 1 / 1024, 0),
    "registers": ("registers", 1, 0),
}
_TRAFFIC = {
    "l2_pct": ("L2 %", 1, 1),
    "l2_hit_pct": ("L2 hits %", 1, 1),
    "l2_read_bytes": ("L2 reads GB", 1e-9, 2),
    "l2_to_sm_bytes": ("L2 to SM GB", 1e-9, 2),
    "dram_read_bytes": ("DRAM read MB", 1e-6, 0),
}
_COPIES = {
    "tensor_pct": ("tensor pipe %", 1, 1),
    "tma_load_instructions": ("TMA loads M", 1e-6, 2),
}
_BANKS = {
    "l2_pct": ("L2 %", 1, 1),
    "l2_to_sm_bytes": ("L2 to SM GB", 1e-9, 2),
    "bank_reads_per_wgmma": ("bank reads a WGMMA", 1, 1),
    "bank_writes_per_kb": ("bank writes a KB", 1, 1),
    "lsu_conflicts": ("LSU conflicts M", 1e-6, 2),
}
# Columns of a study's table: what the study is about.
STUDY = {
    "swizzle": _TIMES | _COPIES | _BANKS,
    "ring": _TIMES | _FIXED,
    "promotion": _TIMES | _TRAFFIC,
    "box": _TIMES | _COPIES | _TRAFFIC,
    "cluster": _TIMES | _TRAFFIC,
    "raster": _TIMES | _TRAFFIC,
    "hot": _TIMES | {"sm_clock_mhz": ("MHz", 1, 0), "power_w": ("W", 1, 0)},
}


def study(rows: Rows, name: str) -> list[str]:
    """A study's table: every size, type and state, torch and cuBLAS in front."""
    own = [row for row in rows if row["suite"] == name]
    newest = {
        (records.shape_of(row), row["dtype"], row["state"], row["kernel"]): row for row in own
    }
    if not newest:
        return []
    kept = _read(STUDY[name], newest.values())
    lines = []
    for (shape, dtype, state, kernel), row in newest.items():
        place = [str(shape), dtype] + ([state] if shapes.STUDIES[name].hot else [])
        shown = [_shown(row, column, factor, d) for column, (_, factor, d) in kept.items()]
        lines.append([f"`{kernel}`", *place, *shown])
    header = ["kernel", "problem", "type"] + (["state"] if shapes.STUDIES[name].hot else [])
    table = markdown([*header, *(title for title, _, _ in kept.values())], lines)
    return [*table, "", made_with(next(iter(newest.values()))), ""]
