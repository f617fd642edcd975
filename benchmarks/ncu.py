"""What is read from Nsight Compute, under the names that its versions and chips give it."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Launched between the kernels that are profiled: its name tells their launches apart.
SEPARATOR = "atan_kernel"

_WAVEFRONTS = "l1tex_data_pipe_lsu_wavefronts_mem_shared"
_CONFLICTS = "l1tex_data_bank_conflicts_pipe_lsu_mem_shared"


def _sass(counter: str, *ops: str) -> tuple[str, ...]:
    # Counted for the named instruction alone, from its addresses.
    return tuple(f"{unit}__sass_{counter}_{op}.sum" for op in ops for unit in ("sm", "smsp"))


def _copies(counter: str) -> tuple[str, ...]:
    of_chip = "l1tex__" + counter.removeprefix("l1tex_") + "_op_ldgsts"
    variants = ("op_ldgsts_cache_bypass", "op_ldgsts")
    return (*_sass(counter, *variants), f"{of_chip}_cache_bypass.sum", f"{of_chip}.sum")


# Column of the report: the metrics that give it, the first one that exists is taken.
METRICS: dict[str, tuple[str, ...]] = {
    "time_ns": ("gpu__time_duration.sum",),
    # Shared memory as the chip counts it: what loses the arbitration counts as a conflict too.
    "load_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",),
    "load_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",),
    "store_wavefronts": ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",),
    "store_conflicts": ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",),
    # By instruction.
    "ldmatrix_wavefronts": _sass(_WAVEFRONTS, "op_ldsm"),
    "ldmatrix_conflicts": _sass(_CONFLICTS, "op_ldsm"),
    "sts_wavefronts": _sass(_WAVEFRONTS, "op_st"),
    "sts_conflicts": _sass(_CONFLICTS, "op_st"),
    "cp_async_wavefronts": _copies(_WAVEFRONTS),
    "cp_async_conflicts": _copies(_CONFLICTS),
    "cp_async_instructions": (
        "smsp__inst_executed_op_ldgsts.sum",
        "sm__sass_inst_executed_op_ldgsts.sum",
        "smsp__sass_inst_executed_op_ldgsts.sum",
    ),
    # All shared accesses, against what their widths and addresses need at least.
    "shared_wavefronts": ("memory_l1_wavefronts_shared",),
    "shared_wavefronts_ideal": ("memory_l1_wavefronts_shared_ideal",),
    "tensor_pct": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ),
    "l2_hit_pct": ("lts__t_sector_hit_rate.pct",),
    "dram_read_bytes": ("dram__bytes_read.sum", "dram__bytes_op_read.sum"),
    "dram_write_bytes": ("dram__bytes_write.sum", "dram__bytes_op_write.sum"),
    "store_sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",),
    "store_requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",),
    "store_bytes_per_sector": (
        "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
        "sm__sass_average_data_bytes_per_sector_mem_global_op_st.ratio",
    ),
    "warps_active_pct": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "registers": ("launch__registers_per_thread",),
    "shared_bytes": ("launch__shared_mem_per_block",),
}

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


def choose(names: set[str], refused: Iterable[str] = ()) -> dict[str, str]:
    """The metric of each column that can be had: not refused, and among `names` if that is known.

    A collection that ncu doesn't list (its names are absent altogether) is taken on trust.
    """
    families = {name.split("__")[0] if "__" in name else "source" for name in names}

    def exists(metric: str) -> bool:
        base = _base(metric)
        family = base.split("__")[0] if "__" in base else "source"
        return metric not in refused and (base in names or family not in families)

    chosen = {}
    for column, metrics in METRICS.items():
        found = next(filter(exists, metrics), None)
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


def profile(ncu: str, command: list[str]) -> tuple[list[LaunchedKernel], dict[str, str]]:
    """Runs the command under ncu: its launches, and the metric that each column was read from.

    Metrics that this ncu or GPU doesn't have are left out. NcuError if it profiles nothing.
    """
    names = query_names(ncu)
    refused: set[str] = set()
    while True:
        chosen = choose(names, refused)
        log = _run(ncu, command, list(chosen.values()))
        launches = parse_raw(log)
        if not launches:
            unknown = complained(log, chosen.values())
            if not unknown:
                raise NcuError("\n".join(log.strip().splitlines()[-20:]) or "ncu said nothing")
            refused |= unknown
            continue
        empty = {m for m in chosen.values() if not any(m in one.values for one in launches)}
        again = choose(names, refused | empty)
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
