"""What is read from Nsight Compute, under the names that its versions and chips give it."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

# Launched between the kernels that are profiled: its name tells their launches apart.
SEPARATOR = "atan_kernel"

Metrics = Mapping[str, tuple[str, ...]]

_SCALE = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9}
_SCALE |= {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


@dataclass
class LaunchedKernel:
    """One launch that ncu profiled: times in ns, sizes in bytes."""

    name: str
    values: dict[str, float]


class NcuError(RuntimeError):
    """ncu didn't profile; the text is the end of what it said."""


def _base(metric: str) -> str:
    return metric.split(".")[0]


def parse_names(text: str) -> set[str]:
    """Metric names in the answer of --query-metrics: the first word of each line."""
    return set(re.findall(r'^[\s"]*([a-z][A-Za-z0-9]*_\w+)', text, re.MULTILINE))


def query_names(ncu: str) -> set[str]:
    """Base names of every metric of this machine's GPU; empty when ncu doesn't tell."""
    names: set[str] = set()
    for collection in ("profiling", "source", "launch"):
        command = [ncu, "--query-metrics", "--query-metrics-collection", collection]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        names |= parse_names(done.stdout)
    return names


def choose(metrics: Metrics, names: set[str], refused: Iterable[str] = ()) -> dict[str, str]:
    """The metric of each column that can be had: not refused, and among `names` if that is known.

    metrics: each column with the metrics that give it, the first one that exists is taken.
    A collection that ncu doesn't list (its names are absent altogether) is taken on trust.
    """
    families = {name.split("__")[0] if "__" in name else "source" for name in names}

    def exists(metric: str) -> bool:
        base = _base(metric)
        family = base.split("__")[0] if "__" in base else "source"
        return metric not in refused and (base in names or family not in families)

    chosen = {}
    for column, known in metrics.items():
        found = next(filter(exists, known), None)
        if found:
            chosen[column] = found
    return chosen


def complained(log: str, metrics: Iterable[str]) -> set[str]:
    """Those metrics that ncu's errors and warnings name."""
    lines = re.findall(r"^==(?:ERROR|WARNING)==.*$", log, re.MULTILINE)
    words = {word for line in lines for word in re.findall(r"[\w.]+", line)}
    words = {word.rstrip(".") for word in words}
    return {metric for metric in metrics if metric in words or _base(metric) in words}


def _number(text: str, unit: str) -> float | None:
    match = re.match(r"[-+]?[\d,]*\.?\d+(?:e[-+]?\d+)?", text.strip(), re.IGNORECASE)
    return float(match.group().replace(",", "")) * _SCALE.get(unit, 1.0) if match else None


def parse_raw(text: str) -> list[LaunchedKernel]:
    """The launches in the output of --csv --page raw, whatever stands around the table."""
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        return []
    table = csv.reader(line for line in lines[start:] if line.startswith('"'))
    header = next(table)
    launches = []
    units = dict.fromkeys(header, "")
    for fields in table:
        row = dict(zip(header, fields, strict=False))
        if not row["ID"]:
            units = row
            continue
        values = {}
        for column, value in row.items():
            number = _number(value, units.get(column, ""))
            if number is not None:
                values[column] = number
        launches.append(LaunchedKernel(row.get("Kernel Name", ""), values))
    return launches


def groups(launches: Iterable[LaunchedKernel]) -> list[list[LaunchedKernel]]:
    """What was launched after each separator but the last."""
    found: list[list[LaunchedKernel]] = []
    for launch in launches:
        if SEPARATOR in launch.name:
            found.append([])
        elif found:
            found[-1].append(launch)
    return found[:-1]


def profile(
    ncu: str, command: list[str], metrics: Metrics
) -> tuple[list[LaunchedKernel], dict[str, str]]:
    """Runs the command under ncu: its launches, and the metric that each column was read from.

    Metrics that this ncu or GPU doesn't have are left out. NcuError if it profiles nothing.
    """
    names = query_names(ncu)
    refused: set[str] = set()
    while True:
        chosen = choose(metrics, names, refused)
        log = _run(ncu, command, list(chosen.values()))
        launches = parse_raw(log)
        if not launches:
            unknown = complained(log, chosen.values())
            if not unknown:
                raise NcuError("\n".join(log.strip().splitlines()[-20:]) or "ncu said nothing")
            refused |= unknown
            continue
        empty = {m for m in chosen.values() if not any(m in one.values for one in launches)}
        again = choose(metrics, names, refused | empty)
        if not any(chosen[column] in empty and column in again for column in chosen):
            return launches, {column: m for column, m in chosen.items() if m not in empty}
        refused |= empty


def _run(ncu: str, command: list[str], metrics: list[str]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        options = ["--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none"]
        options += ["--profile-from-start", "off", "--metrics", ",".join(metrics)]
        done = subprocess.run(
            [ncu, *options, "--log-file", str(log), *command],
            capture_output=True,
            text=True,
            check=False,  # the log tells more than the exit status
            env=os.environ | {"LC_ALL": "C"},
        )
        told = log.read_text() if log.exists() else ""
        return told + done.stdout + done.stderr
