"""What a measurement was made with: versions, commit, and the GPU's clocks."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
_SMI_FIELDS = {  # column: field of nvidia-smi
    "sm_clock_mhz": "clocks.sm",
    "power_w": "power.draw",
    "temperature_c": "temperature.gpu",
    "driver": "driver_version",
}


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def commit() -> str:
    """Short commit of the source tree, "+dirty" when it differs, "unknown" without git.

    VITAMIN_COMMIT, where set, is taken instead: for copies of the tree that have no .git.
    """
    if os.environ.get("VITAMIN_COMMIT"):
        return os.environ["VITAMIN_COMMIT"]
    head = _output("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD")
    if not head:
        return "unknown"
    # What earlier runs wrote doesn't change what is measured.
    written = (":!benchmarks/results", ":!docs/images")
    changed = _output("git", "-C", str(ROOT), "status", "--porcelain", "--", ".", *written)
    return head + ("+dirty" if changed else "")


def cublas_version() -> str:
    """Version of the cuBLAS that this process has loaded, or ""."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return ""
    loaded = re.search(r"\s(/\S*/libcublas\.so[^\s]*)", maps)
    if not loaded:
        return ""
    library = ctypes.CDLL(loaded.group(1))
    parts = []
    for part in range(3):  # libraryPropertyType: major, minor, patch
        value = ctypes.c_int()
        if library.cublasGetProperty(part, ctypes.byref(value)) != 0:
            return ""
        parts.append(str(value.value))
    return ".".join(parts)


def cpu_name() -> str:
    try:
        info = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    model = re.search(r"^model name\s*:\s*(.+)$", info, re.MULTILINE)
    return model.group(1).strip() if model else platform.machine()


class SmiReader:
    """One reading of nvidia-smi, taken by a second process while this one keeps the GPU busy."""

    def __init__(self, device: torch.device):
        self._process = None
        if device.type == "cuda" and shutil.which("nvidia-smi"):
            self._uuid = str(torch.cuda.get_device_properties(device).uuid)
            fields = ",".join(["uuid", *_SMI_FIELDS.values()])
            self._process = subprocess.Popen(
                ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def result(self) -> dict[str, str]:
        """The columns of _SMI_FIELDS, each "" where nvidia-smi doesn't tell."""
        if self._process is None:
            return dict.fromkeys(_SMI_FIELDS, "")
        return parse_smi(self._process.communicate()[0], self._uuid)


def parse_smi(text: str, uuid: str) -> dict[str, str]:
    """The line of one GPU: that of the uuid, or the only one."""
    lines = [[value.strip() for value in line.split(",")] for line in text.splitlines()]
    lines = [line for line in lines if len(line) == 1 + len(_SMI_FIELDS)]
    own = [line for line in lines if line[0].removeprefix("GPU-") == uuid]
    for line in own or (lines if len(lines) == 1 else []):
        return dict(zip(_SMI_FIELDS, line[1:], strict=True))
    return dict.fromkeys(_SMI_FIELDS, "")


def read_smi(
    device: torch.device, keep_busy=lambda: None, warm_seconds: float = 0.0
) -> dict[str, str]:
    """nvidia-smi's clocks, power and temperature; `keep_busy` is called until it has answered.

    Its power is an average over about a second: `warm_seconds` of load go before the reading.
    """
    start = time.perf_counter()
    while time.perf_counter() - start < warm_seconds:
        keep_busy()
    reader = SmiReader(device)
    while reader.running():
        keep_busy()
    return reader.result()


def describe(device: torch.device) -> dict[str, str]:
    """The columns of a measurement that are the same for a whole run."""
    from vitamin_hgemm.version import __version__

    on_gpu = device.type == "cuda"
    return {
        "gpu": torch.cuda.get_device_name(device) if on_gpu else f"cpu: {cpu_name()}",
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "cublas": cublas_version() if on_gpu else "",
        "vitamin": __version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
