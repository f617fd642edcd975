"""The benchmark without a GPU: its shapes, its method, its records and its command."""

import csv
import math
import subprocess
import sys

import pytest
import torch
from measurements import FACTS, ROOT, ladder_rows, measured_rows

from benchmarks import bench, check, environment, no_gpu, records, shapes, timing

Shape = shapes.Shape


# Shapes


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("4096x4096x4097", Shape(4096, 4096, 4097, "nn")),
        ("1x28672x4096:nt", Shape(1, 28672, 4096, "nt")),
        ("64X1X4096X128:TN", Shape(1, 4096, 128, "tn", 64)),
        ("3x4x0:tt", Shape(3, 4, 0, "tt")),
    ],
)
def test_parse_shape(text, shape):
    assert shapes.parse_shape(text) == shape
    assert shapes.parse_shape(str(shape)) == shape


@pytest.mark.parametrize("text", ["", "4096", "4x4", "4x4x4:xx", "4x4x4:n", "4x-4x4", "0x4x4x4:nn"])
def test_parse_shape_says_what_it_wants(text):
    with pytest.raises(ValueError, match="shape '"):
        shapes.parse_shape(text)


def test_suites_cover_their_classes():
    counts = {name: len(members) for name, members in shapes.SUITES.items()}
    assert counts == {
        "ladder": 1, "ladder-sm90": 1,
        "large": 18, "mid": 13, "decode": 16, "unaligned": 15, "batched": 8
    }  # fmt: skip
    for name, members in shapes.SUITES.items():
        assert len(set(members)) == len(members)
        assert all((shape.batch > 0) == (name == "batched") for shape in members)
    assert shapes.CLASSES == ("large", "mid", "decode", "unaligned", "batched")
    for shape in shapes.SUITES["unaligned"]:
        pitches = {shape.k if shape.layout[0] == "n" else shape.m, shape.n}
        pitches.add(shape.n if shape.layout[1] == "n" else shape.k)
        tile_ragged = shape.n % 16 != 0
        assert any(pitch % 8 for pitch in pitches) or tile_ragged
    assert all(shape.m <= 64 for shape in shapes.SUITES["decode"])
    assert {shape.layout for shape in shapes.CPU_SHAPES} == set(shapes.LAYOUTS)


def test_quick_never_leaves_nothing():
    assert shapes.quick((Shape(16384, 16384, 16384), Shape(8192, 8192, 8192))) == (
        Shape(8192, 8192, 8192),
    )
    for suite in ("ladder", *shapes.CLASSES):
        members = shapes.SUITES[suite]
        assert all(shape.flops <= shapes.QUICK_FLOPS for shape in shapes.quick(members))


def test_inputs_have_the_layouts_strides():
    for layout in shapes.LAYOUTS:
        for batch in (0, 3):
            shape = Shape(5, 6, 7, layout, batch)
            a, b = timing.make_inputs(shape, torch.float16, torch.device("cpu"))
            lead = (3,) if batch else ()
            assert a.shape == (*lead, 5, 7)
            assert b.shape == (*lead, 7, 6)
            assert a.stride()[-2:] == ((7, 1) if layout[0] == "n" else (1, 5))
            assert b.stride()[-2:] == ((6, 1) if layout[1] == "n" else (1, 7))


# The method


def test_samples_outgrow_the_l2_and_last_a_millisecond():
    l2 = 60e6
    for members in shapes.SUITES.values():
        for shape in members:
            calls, sets = timing.plan_sample(shape, l2)
            assert 1 <= sets <= calls <= timing.MAX_CALLS
            if shape.bytes * timing.MAX_SETS >= 2 * l2 and sets < calls:
                assert sets * shape.bytes > 2 * l2
            seconds = max(shape.flops / 500e12, shape.bytes / 3e12, 4e-6)
            assert calls == timing.MAX_CALLS or calls * seconds > 0.5e-3


def test_cpu_samples_are_checked():
    shape = Shape(33, 17, 65, "tn")
    halved = {
        "torch": torch.matmul,
        "half": lambda a, b, out: torch.mul(torch.matmul(a, b), 0.5, out=out),
        "idle": lambda a, b, out: out,
    }
    samples = timing.time_cpu(shape, torch.bfloat16, halved, rounds=3)
    assert samples["torch"].error <= 1
    assert samples["half"].error > 1
    assert samples["idle"].error == math.inf  # its output keeps the NaN put in beforehand
    assert all(sample.us > 0 for sample in samples.values())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_bound_allows_one_rounding_and_no_second(dtype):
    torch.manual_seed(0)
    a = torch.randn(64, 512).to(dtype)
    b = torch.randn(512, 96).to(dtype)
    exact = a.double() @ b.double()
    once = exact.to(dtype)
    ulp = torch.finfo(dtype).eps * once.abs()
    assert check.errors(a, b, [once])[0] <= 1
    assert check.errors(a, b, [(once.float() + 1.5 * ulp.float()).to(dtype)])[0] > 1


def test_errors_of_special_values():
    a = torch.tensor([[math.inf, 0.0, -math.inf], [1.0, 2.0, 3.0]], dtype=torch.bfloat16)
    b = torch.tensor([[0.75], [0.25], [-0.5]], dtype=torch.bfloat16)
    right = (a.float() @ b.float()).bfloat16()
    nan = right.clone()
    nan[1] = math.nan
    assert check.errors(a, b, [right, nan]) == [0.0, math.inf]
    empty = torch.empty(0, 1, dtype=torch.bfloat16)
    assert check.errors(a[:0], b, [empty]) == [0.0]


def test_errors_are_found_in_every_chunk(monkeypatch):
    monkeypatch.setattr(check, "_CHUNK_ELEMENTS", 64)
    a, b = timing.make_inputs(Shape(50, 16, 8, "nn", 2), torch.float16, torch.device("cpu"))
    out = torch.matmul(a, b)
    assert check.errors(a, b, [out])[0] <= 1
    out[1, 49, 15] += 1
    assert check.errors(a, b, [out])[0] > 1


# Records


def test_csv_keeps_every_column(tmp_path):
    shape = Shape(1024, 64, 1024, "nn", 96)
    rows = measured_rows(shape, {"torch": 40.0, "cublas": 50.0, "auto": 20.0}, "batched")
    path = tmp_path / records.file_name(FACTS, ["batched"])
    assert path.name == "nvidia-h200-batched-20261130T080000Z.csv"
    records.write(path, rows)
    with path.open(newline="") as file:
        header = next(csv.reader(file))
    assert tuple(header) == records.COLUMNS
    back = records.read(path)
    assert back == rows
    auto = back[2]
    assert records.shape_of(auto) == shape
    assert float(auto["ratio_torch"]) == pytest.approx(2.0)
    assert float(auto["ratio_cublas"]) == pytest.approx(2.5)
    assert float(auto["tflops"]) == pytest.approx(
        96 * 2 * 1024 * 64 * 1024 / 20e-6 / 1e12, rel=1e-5
    )
    moved = 96 * 2 * (1024 * 1024 + 1024 * 64 + 1024 * 64)
    assert float(auto["tbs"]) == pytest.approx(moved / 20e-6 / 1e12, rel=1e-5)
    assert all(auto[column] == value for column, value in FACTS.items())


def test_other_csvs_are_left_alone(tmp_path):
    (tmp_path / "profile.csv").write_text("gpu,kernel\nx,y\n")
    (tmp_path / "empty.csv").write_text("")
    assert records.recorded(tmp_path) == []


def test_newest_measurement_counts(tmp_path):
    shape = Shape(8, 8, 8)
    old = measured_rows(shape, {"torch": 5.0, "auto": 4.0}, date="2026-11-29T08:00:00Z")
    new = measured_rows(shape, {"torch": 5.0, "auto": 2.0})
    records.write(tmp_path / "b.csv", old)
    records.write(tmp_path / "a.csv", new)
    found = records.newest(records.recorded(tmp_path), kernel="auto")
    assert found[shape, "bf16", "auto"]["time_us"] == "2"


def test_wrong_results_are_marked_and_baselines_are_not():
    errors = {"torch": 18.0, "cublas": math.nan, "auto": math.nan, "sm80": 1.0}
    rows = measured_rows(Shape(8, 8, 8), dict.fromkeys(errors, 1.0), errors=errors)
    assert [records.is_wrong(row) for row in rows] == [False, False, True, False]
    lines = list(map(records.line, rows))
    assert "outside the bound" in lines[0]
    assert lines[2].endswith("WRONG")
    assert records.summary(rows)[-1] == "4 measurements, 1 wrong"


def test_ladder_table_stands_beside_the_known_ratios():
    table = records.ladder_table(ladder_rows("bf16"))
    naive = next(line for line in table if line.startswith("sm80_naive")).split()
    assert naive == ["sm80_naive", "420.00", "0.405", "327.2", "0.79"]
    assert [line.split()[0] for line in table[1:-1]] == ["torch", *shapes.LADDER_KERNELS]
    assert "33.54" in table[-1]


# The command


def chosen(*argv):
    return bench.problems(bench.parse([*argv, "--device", "cpu"]))


def test_problems_that_are_asked_for():
    assert {suite for suite, _ in chosen()} == set(shapes.SUITES)
    for run in (shapes.SUITES, ("ladder", *shapes.CLASSES)):  # the second: a GPU without WGMMA
        assert records.file_name(FACTS, run) == "nvidia-h200-all-20261130T080000Z.csv"
    assert (
        chosen("--ladder") == chosen("--suite", "ladder") == [("ladder", Shape(4096, 4096, 4096))]
    )
    sized = chosen("--ladder", "--shape", "8192x8192x8192:nn")
    assert sized == [("ladder", Shape(8192, 8192, 8192))]
    both = chosen("--shape", "4x5x6:nt", "--layout", "nn", "tt")
    assert both == [("custom", Shape(4, 5, 6, "nn")), ("custom", Shape(4, 5, 6, "tt"))]
    with pytest.raises(SystemExit, match="--shape"):
        chosen("--suite", "mid", "--shape", "4x4x4")


def test_candidates():
    assert bench.candidates("mid", []) == ["torch", "cublas", "auto"]
    assert bench.candidates("ladder", []) == ["torch", *shapes.LADDER_KERNELS]
    assert bench.candidates("mid", ["sm80", "cublas"]) == ["torch", "cublas", "sm80"]


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["--shape", "4x4"], "want MxNxK:layout"),
        (["--suite", "huge"], "huge"),
        (["--device", "sofa"], "sofa"),
    ],
)
def test_bad_arguments_are_named(argv, text, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench.parse(argv)
    assert stopped.value.code == 2
    assert text in capsys.readouterr().err


def test_cuda_is_not_promised_where_there_is_none(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert bench.parse([]).device.type == "cpu"
    with pytest.raises(SystemExit):
        bench.parse(["--device", "cuda"])
    assert "has no CUDA" in capsys.readouterr().err


def test_run_without_a_gpu():
    command = [sys.executable, str(ROOT / "benchmarks" / "bench.py"), "--device", "cpu"]
    command += ["--suite", "ladder", "ladder-sm90"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{4 * len(shapes.CPU_SHAPES)} measurements, 0 wrong" in done.stdout
    assert "timed and checked here" in done.stdout
    assert "not run here" in done.stdout or "no plan:" in done.stdout
    assert "ladder-sm90: its kernels run on compute capability 9.0 only" in done.stdout


@pytest.mark.parametrize(
    ("error", "refused", "status"),
    [(0.9, {}, 0), (1.5, {}, 1), (0.9, {"auto": "no"}, 1), (0.9, {"sm80": "no"}, 0)],
)
def test_a_gpu_run_writes_its_csv_and_judges(error, refused, status, tmp_path, monkeypatch, capsys):
    def measure(args, suite, shape, dtype, facts):
        us = {"torch": 3.0, "cublas": 4.0, "sm80": 2.0}
        errors = {"torch": 9.0, "cublas": 0.9, "sm80": error}
        return records.rows(shape, dtype, suite, "cold", us, errors, facts), refused

    monkeypatch.setattr(bench, "measure", measure)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(environment, "describe", lambda device: dict(FACTS))
    args = bench.parse(["--ladder", "--suite", "mid", "--device", "cpu", "--out", str(tmp_path)])
    assert bench.run_gpu(args) == status
    rows = records.recorded(tmp_path)
    assert len(rows) == 2 * 3 * (1 + len(shapes.SUITES["mid"]))
    told = capsys.readouterr().out
    assert f"wrote {tmp_path}" in told
    assert ("WRONG" in told) == (error > 1)


class PlanOfSplitK:
    kernel, splits, repack_a, repack_b, predicted_us = "sm80_64x64", 4, False, True, 12.34


def test_plan_is_beside_what_was_recorded(tmp_path, monkeypatch):
    import vitamin_hgemm

    asked = []

    def plan(m, n, k, **options):
        asked.append((m, n, k, options))
        return PlanOfSplitK

    monkeypatch.setattr(vitamin_hgemm, "plan", plan)
    shape = Shape(16, 4096, 4096, "nt")
    records.write(tmp_path / "r.csv", measured_rows(shape, {"torch": 9.0, "auto": 6.0}, "decode"))
    lines = no_gpu.plan_lines(["bf16", "fp16"], [("decode", shape)], tmp_path)
    assert "not run here" in lines[0]
    assert lines[2].split() == [
        *("16x4096x4096:nt", "sm80_64x64", "split-K", "4", "copy", "b", "12.3"),
        *("6.0", "1.500", "-", "-"),
    ]
    assert "2026-11-30 at commit abc1234" in lines[3]
    assert asked[0][3]["device"] == "H200"
    assert {options["dtype"] for *_, options in asked} == {torch.bfloat16, torch.float16}
    nothing = no_gpu.plan_lines(["bf16"], [("decode", shape)], tmp_path / "none")
    assert nothing[-1].startswith("recorded: no measurement")


def test_recorded_ladder_is_the_newest_run(tmp_path):
    old, new = ladder_rows("bf16", "2026-11-01T00:00:00Z"), ladder_rows("bf16")
    records.write(tmp_path / "r.csv", old[:-1] + new[:-1])
    lines = no_gpu.ladder_lines(["bf16", "fp16"], tmp_path)
    assert "recorded on an H200 2026-11-30" in lines[0]
    assert len([line for line in lines if line.startswith("sm80_naive")]) == 1


def test_smi_reading_of_one_gpu():
    text = "GPU-aa, 1980, 101.5, 30, 580.1\nGPU-bb, 1500, 684.00, 61, 580.1\n"
    reading = environment.parse_smi(text, "bb")
    assert reading == {
        "sm_clock_mhz": "1500", "power_w": "684.00", "temperature_c": "61", "driver": "580.1"
    }  # fmt: skip
    assert environment.parse_smi(text.splitlines()[0], "cc")["sm_clock_mhz"] == "1980"
    assert set(environment.parse_smi(text, "cc").values()) == {""}
    assert set(environment.parse_smi("NVIDIA-SMI has failed", "aa").values()) == {""}
    assert set(environment.read_smi(torch.device("cpu"))) == set(reading)


def test_commit_can_be_given(monkeypatch):
    monkeypatch.setenv("VITAMIN_COMMIT", "f00dfee")
    assert environment.commit() == "f00dfee"


def test_benchmark_scripts_leave_the_standard_librarys_profile_alone():
    for name in ("bench", "plot", "profile", "profiled", "studies", "tables"):
        command = f"import runpy, sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); "
        command += f"runpy.run_path({str(ROOT / 'benchmarks' / (name + '.py'))!r}, run_name='x'); "
        command += "import cProfile"
        done = subprocess.run(
            [sys.executable, "-c", command], capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.returncode == 0, done.stderr
