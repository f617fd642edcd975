"""The benchmark and the program that ncu profiles, on a GPU and a small problem."""

import pytest
import torch
from measurements import ROOT  # noqa: F401  (puts the root on the path)

from benchmarks import bench, profiled, records, shapes, studies, timing

pytestmark = pytest.mark.gpu


def test_bench_writes_checked_measurements(tmp_path):
    assert bench.main(["--shape", "256x264x272:nt", "--quick", "--out", str(tmp_path)]) == 0
    rows = records.recorded(tmp_path)
    assert [(row["dtype"], row["kernel"]) for row in rows] == [
        (dtype, kernel) for dtype in ("bf16", "fp16") for kernel in ("torch", "cublas", "auto")
    ]
    for row in rows:
        assert row["gpu"] == torch.cuda.get_device_name()
        assert float(row["time_us"]) > 0
        assert float(row["err"]) <= 1 or row["kernel"] != "auto"


def test_the_timed_launches_are_checked(device):
    products = {
        "torch": torch.matmul,
        "idle": lambda a, b, out: out,
        "late": lambda a, b, out: torch.matmul(a, b, out=out).mul_(1.1),
    }
    with torch.inference_mode():
        race = timing.GpuRace(shapes.Shape(128, 128, 128), torch.bfloat16, device, products)
        errors = race.check()
    assert errors["torch"] <= 1
    assert errors["idle"] == float("inf")
    assert errors["late"] > 1


def test_a_refusal_is_kept_and_the_others_are_timed(device):
    def refuse(a, b, out):
        raise RuntimeError("row-major a only\nand more")

    products = {"torch": torch.matmul, "picky": refuse}
    with torch.inference_mode():
        race = timing.GpuRace(shapes.Shape(64, 64, 64, "tn"), torch.float16, device, products)
        us = race.cold(rounds=3)
    assert set(us) == {"torch"}
    assert us["torch"] > 0
    assert race.refused == {"picky": "row-major a only"}


def test_the_profiled_program_runs_without_a_profiler():
    shape = shapes.Shape(128, 128, 128)
    profiled.launch([profiled.Case("bf16", shape, name) for name in ("cublas", "sm80_bcf", "auto")])


def test_a_study_is_timed_and_checked(device, tmp_path, monkeypatch):
    if torch.cuda.get_device_capability(device) != (9, 0):
        pytest.skip("the study's kernels need compute capability 9.0")
    kernels = ("sm90_v2_tma_wgmma_sw0", "sm90_v2_tma_wgmma", "sm90_gone")
    small = shapes.Study(kernels, (shapes.Shape(256, 264, 272, "nt"),), ())
    monkeypatch.setattr(studies, "STUDIES", {"swizzle": small})
    assert studies.main(["--only", "swizzle", "--no-ncu", "--out", str(tmp_path)]) == 0
    rows = records.read_others(tmp_path.glob("*.csv"), "smem_bytes")
    assert [row["kernel"] for row in rows] == ["torch", "cublas", *kernels[:2]]
    assert all(float(row["err"]) <= 1 for row in rows[2:])
    assert int(rows[2]["smem_bytes"]) > 0
