"""Measurements made up for the tests of the benchmark."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from benchmarks import records, shapes  # noqa: E402

FACTS = {
    "gpu": "NVIDIA H200",
    "sm_clock_mhz": "1830",
    "power_w": "512.3",
    "temperature_c": "48",
    "driver": "580.1",
    "torch": "2.11.0+cu130",
    "cuda": "13.0",
    "cublas": "13.1.0",
    "vitamin": "0.1.0",
    "commit": "abc1234",
    "date": "2026-11-30T08:00:00Z",
}


def measured_rows(shape, us, suite="large", dtype="bf16", errors=None, **facts):
    errors = errors or dict.fromkeys(us, 0.9)
    return records.rows(shape, dtype, suite, "cold", us, errors, FACTS | facts)


def ladder_rows(dtype, date=FACTS["date"]):
    us = {"torch": 170.0, "cublas": 172.0, "sm80_naive": 420.0, "sm80_bcf": 350.0}
    us |= {"sm80_bcf_dbf": 330.0, "sm80_bcf_dbf_rw": 320.0, "sm80": 250.0, "auto": 250.0}
    return measured_rows(shapes.SUITES["ladder"][0], us, "ladder", dtype, date=date)
