"""What the tables of the pages are made of."""

from __future__ import annotations

Rows = list[dict[str, str]]
DTYPES = ("bf16", "fp16")


def markdown(header: list[str], lines: list[list[str]]) -> list[str]:
    """A Markdown table: the first column left-aligned, the others right-aligned."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *lines)]


def made_with(row: dict[str, str]) -> str:
    parts = [row["gpu"], f"driver {row['driver']}", f"torch {row['torch']}"]
    parts += [f"cuBLAS {row['cublas']}", f"commit {row['commit']}", row["date"][:10]]
    return f"*{', '.join(part for part in parts if not part.endswith(' '))}*"


def clocks(rows: Rows) -> str:
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


def figures(row: dict[str, str] | None, *columns: tuple[str, int]) -> list[str]:
    return [
        f"{float(row[name]):.{digits}f}" if row and row[name] else "-" for name, digits in columns
    ]
