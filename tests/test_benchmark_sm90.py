"""The Hopper ladder and its studies in the benchmark, on machines that can't run them."""

import csv
import sys
from itertools import pairwise

import pytest
import torch
from measurements import FACTS, measured_rows

import vitamin_hgemm
from benchmarks import (
    bench,
    environment,
    metrics,
    no_gpu,
    plot,
    plot_sm90,
    profile,
    profiled,
    records,
    shapes,
    studies,
    tables,
    tables_sm90,
)

SIZE = shapes.Shape(8192, 8192, 8192, "nt")
LADDER = ("cublas", *shapes.SM90_STEPS)


def ladder_rows(dtype, state="cold"):
    us = {name: 1500.0 + i for i, name in enumerate(("torch", *LADDER))}
    rows = measured_rows(SIZE, us, "ladder-sm90", dtype)
    return [row | {"state": state} for row in rows]


# The suite


def test_suite_has_the_steps_in_order_and_one_size():
    parsed = bench.parse(["--suite", "ladder-sm90", "--device", "cpu"])
    assert bench.problems(parsed) == [("ladder-sm90", SIZE)]
    assert bench.candidates("ladder-sm90", []) == ["torch", *LADDER]
    steps = [int(name.split("_")[1].removeprefix("v")) for name in shapes.SM90_STEPS]
    assert steps == [1, 2, 4, 5, 6, 8, 10, 11]
    sized = bench.parse(
        ["--suite", "ladder-sm90", "--shape", "4096x4096x4096:nt", "--device", "cpu"]
    )
    assert bench.problems(sized) == [("ladder-sm90", shapes.Shape(4096, 4096, 4096, "nt"))]
    both = bench.parse(["--ladder", "--suite", "ladder-sm90", "--device", "cpu"])
    assert [suite for suite, _ in bench.problems(both)] == ["ladder", "ladder-sm90"]
    both.shape = [SIZE]
    with pytest.raises(SystemExit, match="one ladder"):
        bench.problems(both)


def test_table_ends_with_what_is_claimed_for_an_h100():
    table = records.ladder_table(ladder_rows("bf16"))
    assert table[0].split("x torch")[1].strip() == "claimed for an H100"
    assert table[0].index("TFLOP/s") < table[0].index("x torch")
    lines = {line.split()[0]: line for line in table[1:-1]}
    assert list(lines) == ["torch", *LADDER]
    assert lines["sm90_v1_simt"].endswith("about 30 % of cuBLAS")
    assert lines["sm90_v5_setmaxnreg"].split()[1:] == [
        "1505.00",
        "730.6",
        "0.997",
        "631",
        "TFLOP/s",
    ]
    assert lines["sm90_v8_cluster"].split()[-1] == "-"


def test_other_gpus_are_told_in_a_sentence(monkeypatch, capsys):
    asked = [("ladder-sm90", SIZE), ("mid", SIZE)]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 6))
    assert bench.runnable(asked, torch.device("cuda")) == asked[1:]
    told = capsys.readouterr().out
    assert told.count("\n") == 1
    assert "9.0 only and this GPU has 8.6" in told
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert bench.runnable(asked, torch.device("cuda")) == asked
    assert capsys.readouterr().out == ""


def test_recorded_ladder_is_shown_without_a_gpu(tmp_path):
    records.write(tmp_path / "r.csv", ladder_rows("fp16"))
    lines = no_gpu.ladder_lines(["bf16", "fp16"], tmp_path)
    assert lines[0].startswith("\nladder-sm90, 8192x8192x8192:nt, fp16, as recorded on an H200")
    assert len([line for line in lines if line.startswith("sm90_v")]) == 8


class FakeRace:
    """A race whose candidates take as many microseconds as their names have letters."""

    def __init__(self, shape, dtype, device, products):
        self.refused = {name: "no" for name in products if name == "sm90_v1_simt"}
        self.graphs = dict.fromkeys(name for name in products if name not in self.refused)

    def check(self):
        return dict.fromkeys(self.graphs, 0.5)

    def cold(self, rounds=11):
        return {name: float(len(name)) for name in self.graphs}

    def hot(self):
        return {name: 2.0 * len(name) for name in self.graphs}

    def keep_busy(self, name=None):
        pass


def read_smi(device, keep_busy, warm_seconds=0.0):
    """Instead of nvidia-smi: a clock that tells whose load it was read under."""
    keep_busy()
    clock = len(keep_busy.args[0]) if hasattr(keep_busy, "args") else 999
    return {"sm_clock_mhz": str(clock), "power_w": str(warm_seconds)}


@pytest.fixture
def faked(monkeypatch):
    for module in (bench, studies):
        monkeypatch.setattr(module, "GpuRace", FakeRace)
    monkeypatch.setattr(environment, "read_smi", read_smi)


@pytest.mark.usefixtures("faked")
def test_hot_clocks_are_those_of_each_step():
    args = bench.parse(["--suite", "ladder-sm90", "--hot", "--device", "cpu"])
    rows, refused = bench.measure(args, "ladder-sm90", SIZE, "bf16", FACTS)
    assert refused == {"sm90_v1_simt": "no"}
    cold = [row for row in rows if row["state"] == "cold"]
    hot = [row for row in rows if row["state"] == "hot"]
    timed = ["torch", *(name for name in LADDER if name not in refused)]
    assert [row["kernel"] for row in cold] == [row["kernel"] for row in hot] == timed
    assert {row["sm_clock_mhz"] for row in cold} == {"999"}
    assert [row["sm_clock_mhz"] for row in hot] == [str(len(name)) for name in timed]
    assert {row["power_w"] for row in hot} == {"1.0"}


# Studies


def test_studies_name_each_variant_once():
    for name, study in shapes.STUDIES.items():
        assert len(set(study.kernels)) == len(study.kernels) >= 2, name
        assert set(study.fp16_shapes) <= set(study.shapes)
        for shape in study.shapes:
            assert shape.layout == "nt"
            assert shape.m == shape.n == shape.k
        assert all(small.m < large.m for small, large in pairwise(study.shapes))
    assert [shape.m for shape in shapes.STUDIES["raster"].shapes] == [4096, 8192, 16384]
    assert len(shapes.STUDIES["raster"].kernels) == 8


def test_kernels_that_the_package_lacks_are_left_out():
    there = {"sm90_v2_tma_wgmma", "sm90_v2_tma_wgmma_sw0"}
    planned, absent = studies.races(["ring", "swizzle", "swizzle"], there)
    assert {study for study, *_ in planned} == {"swizzle"}
    assert [(dtype, shape.m) for _, dtype, shape, _ in planned] == [
        ("bf16", 1024), ("bf16", 4096), ("bf16", 8192), ("fp16", 8192)
    ]  # fmt: skip
    assert planned[0][3] == ["sm90_v2_tma_wgmma_sw0", "sm90_v2_tma_wgmma"]
    assert absent == [
        *shapes.STUDIES["ring"].kernels, "sm90_v2_tma_wgmma_sw32", "sm90_v2_tma_wgmma_sw64"
    ]  # fmt: skip


COUNTERS = {"registers": 168.0, "l2_hit_pct": 81.25, "time_ns": 9.0, "bank_reads_per_wgmma": 12.5}


@pytest.mark.usefixtures("faked")
def test_run_writes_times_constants_and_counters(tmp_path, monkeypatch, capsys):
    entries = [
        {"name": name, "stages": 4, "threads": 384, "smem_bytes": 131072}
        for name in ("sm90_v6_persistent", "sm90_v11_hilbert", "sm90_v4_warp_specialized_s4")
    ]
    cublas = {"name": "cublas", "stages": 0, "threads": 0, "smem_bytes": 0}
    monkeypatch.setattr(vitamin_hgemm, "kernels", lambda: [cublas, *entries])
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(environment, "describe", lambda device: dict(FACTS))
    profiled_cases = []

    def read(path, cases, report):
        profiled_cases.extend(cases)
        readings = [profiled.Reading(1, "void k()", dict(COUNTERS)) for _ in cases[1:]]
        return [None, *readings], {"registers": "launch__registers_per_thread"}

    monkeypatch.setattr(studies, "read", read)
    arguments = ["--only", "ring", "hot", "--ncu", sys.executable, "--out", str(tmp_path)]
    assert studies.run(studies.parse(arguments), torch.device("cpu")) == 0
    told = capsys.readouterr().out
    assert "left out: sm90_v4_warp_specialized_s2" in told
    assert "not offered by this ncu for this GPU: time_ns" in told
    (path,) = tmp_path.glob("nvidia-h200-studies-*.csv")
    with path.open(newline="") as file:
        assert tuple(next(csv.reader(file))) == studies.COLUMNS
    rows = records.read_others([path], "smem_bytes")
    ring = [row for row in rows if row["suite"] == "ring"]
    hot = [row for row in rows if row["suite"] == "hot"]
    assert len(ring) == 3 * 3  # torch, cublas and one variant at two sizes and once in fp16
    assert [row["state"] for row in hot] == (["cold"] * 4 + ["hot"] * 4) * 3
    assert {row["smem_bytes"] for row in ring if row["kernel"].endswith("_s4")} == {"131072"}
    assert {row["stages"] for row in ring if row["kernel"] in ("torch", "cublas")} == {""}
    # The first case was refused under ncu; hot kernels aren't profiled.
    assert [row["registers"] for row in ring if row["kernel"] == "cublas"] == ["", "168", "168"]
    assert {row["registers"] for row in hot if row["kernel"] != "cublas"} == {""}
    assert len(profiled_cases) == 6
    assert records.read(path) == []  # no measurement of a suite


@pytest.mark.usefixtures("faked")
def test_studies_need_a_hopper(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert studies.main([]) == 2
    assert "torch sees none" in capsys.readouterr().out
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (12, 0))
    assert studies.main([]) == 2
    assert "this one has 12.0" in capsys.readouterr().out


# Counters


@pytest.mark.parametrize("report", [metrics.LADDER, metrics.LADDER_SM90, metrics.STUDY])
def test_reports_derive_and_show_columns_that_they_read(report):
    for factor, part, whole in report.derived.values():
        assert factor > 0
        assert part in report.metrics
        assert whole is None or whole in report.metrics
    assert set(report.table) <= set(report.metrics) | set(report.derived)
    for names in report.metrics.values():
        assert len(set(names)) == len(names) >= 1


def test_tables_show_columns_that_are_written():
    written = {*profile.csv_columns(metrics.LADDER_SM90)}
    assert set(tables_sm90.PROFILE) <= written
    assert set(tables.PROFILE) <= {*profile.csv_columns(metrics.LADDER)}
    for columns in tables_sm90.STUDY.values():
        assert set(columns) <= set(studies.COLUMNS)
    assert set(tables_sm90.STUDY) == set(shapes.STUDIES)


def test_profile_of_either_ladder(tmp_path):
    ampere, hopper = profile.parse([]), profile.parse(["--ladder-sm90"])
    assert ampere.shape == shapes.Shape(4096, 4096, 4096, "nn")
    assert ampere.kernels == ["cublas", *(n for n in shapes.LADDER_KERNELS[1:] if n != "auto")]
    assert hopper.shape == SIZE
    assert hopper.kernels == list(LADDER)
    assert profile.parse(["--ladder-sm90", "--size", "4096"]).shape.layout == "nt"


def test_cases_survive_the_command_line():
    for case in (
        profiled.Case("bf16", SIZE, "cublas"),
        profiled.Case("fp16", shapes.Shape(3, 4, 5, "tn", 6), "sm90_v8_cluster_1x2"),
    ):
        assert profiled.parse_case(str(case)) == case


def test_top_stalls_are_shares_of_all_warp_cycles():
    values = {"stall_long_scoreboard": 6.0, "stall_gmma": 2.5, "stall_barrier": 0.5}
    values |= {"stall_selected": 1.0, "registers": 168.0}
    assert profiled.top_stalls(values) == "long_scoreboard 60, gmma 25, barrier 5"
    assert profiled.top_stalls({"registers": 168.0}) == ""


def test_derived_columns_of_the_hopper_ladder():
    chosen = {column: names[0] for column, names in metrics.LADDER_SM90.metrics.items()}
    read = {"l2_read_sectors": 1e6, "sm_hz": 1.755e9, "bank_reads": 300.0, "stall_gmma": 1.0}
    launched = profiled.ncu.LaunchedKernel("k", {chosen[c]: v for c, v in read.items()})
    values = profiled.columns_of(launched, chosen, metrics.LADDER_SM90)
    assert values["l2_read_bytes"] == 32e6
    assert values["sm_mhz"] == pytest.approx(1755)
    assert "bank_reads_per_wgmma" not in values  # how many there were isn't known
    assert values["top_stalls"] == "gmma 100"
    case = profiled.Case("bf16", SIZE, "sm90_v1_simt")
    lines = profile.table_lines(metrics.LADDER_SM90, [(case, profiled.Reading(1, "k", values))])
    assert lines[1].endswith("warps wait for, % of their cycles")
    assert lines[2].endswith("gmma 100")


FAKE_NCU = """#!{python}
import pathlib, sys
arguments = sys.argv[1:]
if "--query-metrics" in arguments:
    sys.exit()
log = pathlib.Path(arguments[arguments.index("--log-file") + 1])
names = ["atan_kernel"]
for case in arguments[arguments.index({program!r}) + 1 :]:
    kernel = case.split("/")[2]
    names += [] if kernel == "refused" else [kernel]
    names += ["reduce"] if kernel == "split" else []
    names += ["atan_kernel"] if kernel != "lost" else []
rows = [["ID", "Kernel Name", "gpu__time_duration.sum"], ["", "", "ns"]]
rows += [[str(i), name, str(9 - len(name) % 5)] for i, name in enumerate(names)]
log.write_text("\\n".join(",".join('"' + cell + '"' for cell in row) for row in rows))
"""


def test_readings_are_matched_to_their_cases(tmp_path):
    fake = tmp_path / "ncu"
    fake.write_text(FAKE_NCU.format(python=sys.executable, program=profiled.__file__))
    fake.chmod(0o755)
    cases = [profiled.Case("bf16", SIZE, name) for name in ("split", "refused", "plain")]
    readings, chosen = profiled.read(str(fake), cases, metrics.STUDY)
    assert [one and (one.launches, one.cuda_kernel) for one in readings] == [
        (2, "split"), None, (1, "plain")
    ]  # fmt: skip
    assert readings[2].texts() == {"time_ns": "9"}
    assert chosen == {"time_ns": "gpu__time_duration.sum"}
    assert "registers" in profiled.missing(metrics.STUDY, chosen)
    with pytest.raises(profiled.ncu.NcuError, match="2 of 3 cases"):
        profiled.read(str(fake), [*cases[1:], profiled.Case("bf16", SIZE, "lost")], metrics.STUDY)


def test_either_profile_has_its_table(tmp_path):
    common = FACTS | {"dtype": "bf16", "layout": "nt", "batch": "0", "cuda_kernel": "k"}
    common |= dict.fromkeys(("m", "n", "k"), "8192")
    hopper = common | {"kernel": "sm90_v8_cluster", "time_ns": "1500000", "stall_gmma": "1"}
    hopper |= {"tensor_pct": "91.25", "top_stalls": "long_scoreboard 60, gmma 25"}
    ampere = common | {"kernel": "sm80_bcf", "time_ns": "900000", "cp_async_wavefronts": "1e6"}
    for name, report, row in (
        ("profile-sm90", metrics.LADDER_SM90, hopper),
        ("profile", metrics.LADDER, ampere),
    ):
        columns = profile.csv_columns(report)
        row = {column: text for column, text in row.items() if column in columns}
        records.write(tmp_path / f"{name}.csv", [row], columns)
    made = tables.make_tables(sorted(tmp_path.glob("*.csv")), None)
    line = next(line for line in made["profile-sm90"] if "sm90_v8" in line)
    assert line == "| `sm90_v8_cluster` | bf16 | 1500 | 512 | 91.2 | long scoreboard 60, gmma 25 |"
    assert [line for line in made["profile"] if "sm90" in line] == []
    assert any("sm80_bcf" in line for line in made["profile"])


# Plots and tables


def study_rows():
    rows = []
    for name, study in shapes.STUDIES.items():
        for dtype, sizes in (("bf16", study.shapes), ("fp16", study.fp16_shapes)):
            for shape in sizes:
                us = {k: 900.0 + i for i, k in enumerate(("torch", "cublas", *study.kernels))}
                for i, row in enumerate(measured_rows(shape, us, name, dtype)):
                    if row["kernel"] in study.kernels:
                        row |= {"stages": str(i), "smem_bytes": str(i * 32768), "l2_hit_pct": "75"}
                        row |= {"dram_read_bytes": "4e8"}
                    rows.append(row)
    return rows


def test_pictures_and_tables_of_everything(tmp_path):
    pytest.importorskip("matplotlib")
    results, images = tmp_path / "results", tmp_path / "images"
    both = ladder_rows("bf16") + ladder_rows("fp16") + ladder_rows("bf16", "hot")
    records.write(results / "ladder-sm90-h200.csv", both)
    records.write(results / "studies-h200.csv", study_rows(), studies.COLUMNS)
    files = sorted(results.glob("*.csv"))
    assert plot.main([*map(str, files), "--out", str(images)]) == 0
    made = {path.name for path in images.iterdir()}
    assert made == {
        "hopper-ladder.png", "study-swizzle.png", "study-ring.png", "study-raster.png"
    }  # fmt: skip
    for path in images.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 150_000
    assert plot.main([str(results / "studies-h200.csv"), "--out", str(tmp_path / "some")]) == 0
    assert len(list((tmp_path / "some").iterdir())) == 3
    filled = tables.make_tables(files, None)
    ladder = "\n".join(filled["ladder-sm90"])
    assert "| `sm90_v11_hilbert` | 1509 | 729 | 0.994 | 1509 | 729 | 0.994 | 750 TFLOP/s" in ladder
    assert "| `sm90_v11_hilbert` | 1509 | 729 | 0.994 | 1830 | 512 | - | - | - | - | - |" in ladder
    assert "| `sm90_v4_warp_specialized_s2` | 4096x4096x4096:nt | bf16 |" in "\n".join(
        filled["study-ring"]
    )
    raster = [line for line in filled["study-raster"] if "_row_nc" in line]
    assert [line.split(" | ")[1:3] for line in raster][-1] == ["8192x8192x8192:nt", "fp16"]
    assert all(line.endswith("| 75.0 | 400 |") for line in raster)


def test_bars_stand_beside_the_claims():
    bars = dict(plot_sm90.ladder_bars(ladder_rows("bf16")))
    assert list(bars) == ["torch", *LADDER]
    assert bars["sm90_v11_hilbert"]["known"] == 750
    assert "known" not in bars["sm90_v8_cluster"]
    assert plot_sm90.ladder_bars([]) == []


def test_dram_reads_are_counted_in_operands():
    row = measured_rows(SIZE, {"torch": 1.0})[0] | {"dram_read_bytes": str(8 * 8192**2)}
    assert plot_sm90.dram_times(row) == 2.0


def test_nothing_measured_leaves_empty_tables(tmp_path):
    made = tables.make_tables([], None)
    assert {name for name in made if name.startswith("study-")} == {
        f"study-{name}" for name in shapes.STUDIES
    }
    assert not any(made.values())


def test_the_page_has_a_place_for_every_table_and_picture():
    docs = tables.HERE.parent / "docs"
    text = (docs / "hopper_ladder.md").read_text()
    for name in ("ladder-sm90", "profile-sm90", *(f"study-{name}" for name in shapes.STUDIES)):
        assert text.count(f"<!-- table: {name} -->\n") == 1
    for name in ("hopper-ladder", *(f"study-{name}" for name in plot_sm90.STUDY_PLOTS)):
        assert text.count(f"](images/{name}.png)") == 1
    assert all(f"`{kernel}`" in text for kernel in shapes.SM90_STEPS)
