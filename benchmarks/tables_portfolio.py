"""The tables of the production Hopper kernel and of the ruler's runs; written by tables.py."""

from __future__ import annotations

from benchmarks import portfolio, records, shapes
from benchmarks.markdown import DTYPES, Rows, made_with, markdown


def tiles(rows: Rows) -> list[str]:
    """A line a problem of the suites: the three fastest tiles, each with its best number of K parts
    and its time."""
    header = ["problem", "torch", "fastest", "second", "third", "best x torch"]
    lines = []
    for problem in portfolio.measured([row for row in rows if row["suite"] in shapes.CLASSES]):
        fastest = ["-"] * 3
        for i, row in enumerate(problem.by_time[:3]):
            title = portfolio.with_parts(portfolio.TILES[row["kernel"]], row)
            fastest[i] = f"{title}: {float(row['time_us']):.1f}"
        line = [str(problem.shape), f"{problem.torch_us:.1f}", *fastest]
        lines.append([*line, f"{float(problem.best['ratio_torch']):.2f}"])
    if not lines:
        return []
    return [*markdown(header, lines), "", made_with(rows[-1]), ""]


def _newest(rows: Rows) -> dict[tuple, dict[str, str]]:
    """The last row of each (class, type, problem)."""
    return {(row["class"], row["dtype"], records.shape_of(row)): row for row in rows}


def _ratio(row: dict[str, str]) -> float:
    return float(row["torch_us"]) / float(row["vitamin_us"])


def _made_with(rows: Rows) -> str:
    return made_with(rows[-1] | {"driver": "", "cublas": ""})


def ruler(rows: Rows) -> list[str]:
    """A line a class and type, one for all classes together, and one for random problems."""
    found = _newest(rows)
    lines = []
    for dtype in DTYPES:
        groups = {name: [name] for name in shapes.CLASSES}
        groups |= {"all of these": list(shapes.CLASSES), "random": ["sweep"]}
        for title, members in groups.items():
            own = [row for key, row in found.items() if key[0] in members and key[1] == dtype]
            if not own:
                continue
            line = [title, dtype, str(len(own)), f"{records.geomean(map(_ratio, own)):.3f}"]
            for row in (min(own, key=_ratio), max(own, key=_ratio)):
                line.append(f"{_ratio(row):.2f} at {records.shape_of(row)}")
            lines.append([*line, str(sum(not float(row["err"]) <= 1 for row in own))])
    if not lines:
        return []
    header = ["class", "type", "problems", "geometric mean", "least", "most", "wrong"]
    return [*markdown(header, lines), "", _made_with(rows), ""]


def ruler_problems(rows: Rows) -> list[str]:
    """A line a problem of the five classes."""
    lines = []
    for (name, dtype, shape), row in _newest(rows).items():
        if name in shapes.CLASSES:
            us = [f"{float(row[column]):.1f}" for column in ("torch_us", "vitamin_us")]
            error = f"{float(row['err']):.2f}" if row["err"] else "-"
            tflops = shape.flops / float(row["vitamin_us"]) / 1e6
            tbs = shape.bytes / float(row["vitamin_us"]) / 1e6
            rates = [f"{tflops:.0f}", f"{tbs:.2f}"]
            lines.append([str(shape), name, dtype, *us, *rates, f"{_ratio(row):.3f}", error])
    if not lines:
        return []
    header = ["problem", "class", "type", "torch µs", "auto µs", "TFLOP/s", "TB/s"]
    return [*markdown([*header, "x torch", "err/bound"], lines), "", _made_with(rows), ""]
