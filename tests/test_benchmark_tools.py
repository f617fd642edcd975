"""The plots of the benchmark, and what its profile reads from ncu."""

import csv
import sys

import pytest
import torch
from measurements import ladder_rows, measured_rows

from benchmarks import host, metrics, ncu, plot, profile, profiled, records, shapes, tables

# Plots


def test_plots_are_small_pictures(tmp_path):
    pytest.importorskip("matplotlib")
    rows = ladder_rows("bf16") + ladder_rows("fp16")
    for dtype in ("bf16", "fp16"):
        for suite in shapes.CLASSES:
            for i, shape in enumerate(shapes.SUITES[suite]):
                us = {"torch": 20.0, "cublas": 21.0, "auto": 10.0 + i}
                rows += measured_rows(shape, us, suite, dtype)
    records.write(tmp_path / "all.csv", rows)
    images = tmp_path / "images"
    assert plot.main([str(tmp_path / "all.csv"), "--out", str(images)]) == 0
    made = {path.name for path in images.iterdir()}
    assert made == {"ladder.png", "roofline.png", *(f"ratio-{s}.png" for s in shapes.CLASSES)}
    for path in images.iterdir():
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size < 150_000


def test_a_title_names_the_run_that_is_drawn(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    newer = {"date": "2099-01-01T00:00:00Z", "commit": "newer"}
    rows = ladder_rows("bf16")
    for suite in ("large", "custom"):
        shape = shapes.SUITES["large"][0]
        us = {"torch": 20.0, "auto": 10.0}
        rows += [row | newer for row in measured_rows(shape, us, suite)]
    records.write(tmp_path / "all.csv", rows)
    titles = {}
    monkeypatch.setattr(
        plot,
        "save",
        lambda plt, figure, path: titles.update({path.stem: figure.axes[0].get_title()}),
    )
    assert plot.main([str(tmp_path / "all.csv"), "--out", str(tmp_path)]) == 0
    assert {name for name, title in titles.items() if "newer" in title} == set(titles) - {"ladder"}
    assert set(titles) == {"ladder", "roofline", "ratio-large"}


def test_ladder_bars_are_in_order_with_the_known_ratio():
    bars = plot.ladder_bars(ladder_rows("bf16") + ladder_rows("fp16"))
    assert [kernel for kernel, _ in bars] == ["torch", *shapes.LADDER_KERNELS]
    assert dict(bars)["sm80_bcf"] == {"bf16": 170 / 350, "fp16": 170 / 350, "known": 0.94} | {
        "bf16": pytest.approx(170 / 350, rel=1e-4),
        "fp16": pytest.approx(170 / 350, rel=1e-4),
    }
    assert "known" not in dict(bars)["sm80"]


def test_nothing_to_plot(tmp_path, capsys):
    records.write(tmp_path / "cpu.csv", measured_rows(shapes.Shape(8, 8, 8), {"torch": 1.0}, "cpu"))
    assert plot.main([str(tmp_path / "cpu.csv")]) == 2
    assert "no measurement" in capsys.readouterr().err


# ncu

NAMES = """
Device NVIDIA H200 (GH100)
-------------------------- ----------- --------- ------------------
Metric Name                Metric Type Metric Unit Metric Description
gpu__time_duration                                          Counter  ns  time
l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld            Counter      wavefronts
l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld        Counter      conflicts
smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldsm Counter
smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm Counter
sm__pipe_tensor_op_hmma_cycles_active                       Counter
lts__t_sector_hit_rate                                      Ratio
dram__bytes_op_read                                         Counter
"""

RAW = """==PROF== Connected to process 77 (/usr/bin/python3)
==PROF== Profiling "vectorized_elementwise_kernel" - 0: 0%....100% - 12 passes
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",\
"Grid Size","Device","CC","gpu__time_duration.sum","ld","wf","memory_l1_wavefronts_shared"
"","","","","","","","","","","","ns","","","Mbyte"
"0","77","python3","h","void atan_kernel_cuda(int)","1","7","(128, 1, 1)","(1, 1, 1)","0",\
"9.0","1,300","0","0","0"
"1","77","python3","h","void naive<float, 2>()","1","7","(256, 1, 1)","(8, 4, 1)","0",\
"9.0","412,345","1,000","4,000","n/a"
"2","77","python3","h","void reduce()","1","7","(256, 1, 1)","(8, 4, 1)","0",\
"9.0","5,000","7","7","7"
"3","77","python3","h","void atan_kernel_cuda(int)","1","7","(128, 1, 1)","(1, 1, 1)","0",\
"9.0","1,300","0","0","0"
"4","77","python3","h","void atan_kernel_cuda(int)","1","7","(128, 1, 1)","(1, 1, 1)","0",\
"9.0","1,300","0","0","1.5 (1; 2)"
==PROF== Disconnected from process 77
"""


def test_metrics_are_chosen_by_what_the_gpu_offers():
    names = ncu.parse_names(NAMES)
    chosen_metrics = ncu.choose(metrics.LADDER.metrics, names)
    assert chosen_metrics["time_ns"] == "gpu__time_duration.sum"
    assert chosen_metrics["ldmatrix_conflicts"].startswith("smsp__sass_l1tex_data_bank_conflicts")
    assert chosen_metrics["tensor_pct"].startswith("sm__pipe_tensor_op_hmma")
    assert chosen_metrics["dram_read_bytes"] == "dram__bytes_op_read.sum"
    assert "store_conflicts" not in chosen_metrics
    # Nothing of the source and launch collections is listed: they are tried all the same.
    assert chosen_metrics["shared_wavefronts"] == "memory_l1_wavefronts_shared"
    assert chosen_metrics["registers"] == "launch__registers_per_thread"


def test_unknown_metrics_are_dropped_and_the_next_name_tried():
    known = metrics.LADDER.metrics
    everything = ncu.choose(known, set())
    assert set(everything) == set(known)
    log = (
        "==PROF== sm__warps_active is fine\n"
        "==ERROR== Failed to find metric dram__bytes_read.sum\n"
        "==ERROR== Failed to find metric memory_l1_wavefronts_shared.\n"
    )
    refused = ncu.complained(log, everything.values())
    assert refused == {"dram__bytes_read.sum", "memory_l1_wavefronts_shared"}
    again = ncu.choose(known, set(), refused)
    assert again["dram_read_bytes"] == "dram__bytes_op_read.sum"
    assert "shared_wavefronts" not in again


def test_raw_page_is_read_launch_by_launch():
    launches = ncu.parse_raw(RAW)
    assert len(launches) == 5
    assert launches[1].name == "void naive<float, 2>()"
    assert launches[1].values["gpu__time_duration.sum"] == 412345
    assert "memory_l1_wavefronts_shared" not in launches[1].values
    assert launches[4].values["memory_l1_wavefronts_shared"] == 1.5e6
    assert ncu.parse_raw("==ERROR== nothing was profiled") == []
    grouped = ncu.groups(launches)
    assert [[one.name for one in group] for group in grouped] == [
        ["void naive<float, 2>()", "void reduce()"],
        [],
    ]


def test_conflict_shares_come_from_the_longest_launch():
    chosen_metrics = {"time_ns": "gpu__time_duration.sum", "load_conflicts": "ld"}
    chosen_metrics |= {"load_wavefronts": "wf", "store_conflicts": "absent"}
    group = ncu.groups(ncu.parse_raw(RAW))[0]
    main = profiled.longest(group, chosen_metrics)
    assert main.name == "void naive<float, 2>()"
    values = profiled.columns_of(main, chosen_metrics, metrics.LADDER)
    assert values["load_conflict_pct"] == 25.0
    assert "store_conflict_pct" not in values
    shape = shapes.Shape(8, 8, 8)
    naive, refused = (profiled.Case("bf16", shape, name) for name in ("sm80_naive", "sm80"))
    read = [(naive, profiled.Reading(2, main.name, values)), (refused, None)]
    table = profile.table_lines(metrics.LADDER, read)
    assert table[2].split()[:5] == ["bf16", "sm80_naive", "412.3", "-", "25.00"]
    assert "can't run" in table[3]


FAKE_NCU = """#!{python}
import pathlib, sys
arguments = sys.argv[1:]
if "--query-metrics" in arguments:
    sys.exit()
asked = arguments[arguments.index("--metrics") + 1].split(",")
log = pathlib.Path(arguments[arguments.index("--log-file") + 1])
if "dram__bytes_read.sum" in asked:
    log.write_text("==ERROR== Failed to find metric dram__bytes_read.sum\\n")
    sys.exit(1)
if "launch" not in arguments:
    print("==ERROR== no permission to read the counters")
    sys.exit(1)
known = dict.fromkeys(asked, "7") | {{"dram__bytes_write.sum": "n/a"}}
known |= {{"lts__t_sector_hit_rate.pct": "n/a"}}
rows = [["ID", "Kernel Name", *asked], ["", "", *[""] * len(asked)]]
rows.append(["0", "kernel", *(known[metric] for metric in asked)])
log.write_text("\\n".join(",".join('"' + cell + '"' for cell in row) for row in rows))
"""


def test_profiling_goes_on_without_the_metrics_that_ncu_lacks(tmp_path):
    fake = tmp_path / "ncu"
    fake.write_text(FAKE_NCU.format(python=sys.executable))
    fake.chmod(0o755)
    known = metrics.LADDER.metrics
    launches, chosen_metrics = ncu.profile(str(fake), ["python", "launch"], known)
    assert len(launches) == 1
    assert chosen_metrics["dram_read_bytes"] == "dram__bytes_op_read.sum"  # refused: the next name
    assert chosen_metrics["dram_write_bytes"] == "dram__bytes_op_write.sum"  # n/a: the next name
    assert "l2_hit_pct" not in chosen_metrics  # n/a, and there is no other name
    assert launches[0].values[chosen_metrics["time_ns"]] == 7
    with pytest.raises(ncu.NcuError, match="no permission"):
        ncu.profile(str(fake), ["python"], known)


def test_profile_says_what_it_misses(capsys):
    assert profile.main(["--ncu", "/nowhere/ncu"]) == 2
    assert "Nsight Compute" in capsys.readouterr().err


# Host time


def test_host_times_every_way_of_calling(tmp_path, capsys):
    options = ["--runs", "1", "--repeats", "3", "--device", "cpu", "--out", str(tmp_path)]
    assert host.main(options) == 0
    (path,) = tmp_path.glob("*host*.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["call"] for row in rows[:4]] == list(host.ways(torch.bfloat16, "cpu"))
    assert [row["dtype"] for row in rows] == ["bf16"] * 4 + ["fp16"] * 4
    for row in rows:
        assert float(row["ratio"]) == pytest.approx(
            float(row["torch_us"]) / float(row["vitamin_us"]), rel=1e-2
        )
    assert "recording a gradient" in capsys.readouterr().out
    assert records.recorded(tmp_path) == []


# Tables


def test_tables_are_written_between_their_lines(tmp_path):
    results = tmp_path / "results"
    rows = ladder_rows("bf16") + ladder_rows("fp16")
    shape = shapes.Shape(8192, 8192, 1024)
    errors = {"torch": 2.5, "cublas": 0.9, "auto": 0.75}
    us = {"torch": 240.0, "cublas": 230.0, "auto": 200.0}
    rows += measured_rows(shape, us, "large", errors=errors)
    records.write(results / "a.csv", rows)
    (results / "profile.csv").write_text(
        "gpu,driver,torch,cublas,commit,date,dtype,kernel,cuda_kernel,time_ns,"
        + ",".join(column for column in tables.PROFILE if column != "time_ns")
        + "\nNVIDIA H200,580,2.11,13.1,abc,2026-11-30,bf16,sm80_bcf,void k(),350000,60.5,0.14"
        + "," * (len(tables.PROFILE) - 3)
        + "\n"
    )
    page = tmp_path / "page.md"
    (results / "h200-host.csv").write_text(
        "gpu,driver,torch,cublas,commit,date,dtype,call,torch_us,vitamin_us,ratio\n"
        "NVIDIA H200,580,2.11,13.1,abc,2026-11-30,bf16,no_grad,11.1,7.7,1.442\n"
        "cpu: some,,2.11,,abc,2026-12-01,bf16,no_grad,99,99,1\n"
    )
    names = ("summary", "exactness", "ladder", "large", "mid", "profile", "host")
    page.write_text("".join(f"# {n}\n<!-- table: {n} -->\nstale\n<!-- end -->\n" for n in names))
    assert tables.main(["--page", str(page), "--results", str(results)]) == 0
    text = page.read_text()
    assert "stale" not in text
    at = "1.20 at 8192x8192x1024:nn"
    assert f"| large | bf16 | cold | 1 | 1.20 | {at} | {at} | 0 |" in text
    assert "| 8192x8192x1024:nn | bf16 | 2.50 | 0.75 |" in text
    assert "| `sm80_bcf` | 350.0 | 0.486 | 393 | 350.0 | 0.486 | 393 | 0.94 |" in text
    # cublasLt's best time is the recorded one of this shape.
    line = "| 8192x8192x1024:nn | bf16 | 240.0 | 230.0 | 205.1 | 200.0 |"
    assert f"{line} 687 | 0.84 | 1.20 | 1.15 | 0.75 | 2.50 |" in text
    assert "| `sm80_bcf` | bf16 | 350.0 | 60.5 | 0.14 |" in text
    assert "| no_grad | bf16 | 11.1 | 7.7 | 1.44 |" in text and "| 99.0 |" not in text
    assert "# mid\n<!-- table: mid -->\n\nNot measured yet.\n" in text
    assert tables.main(["--page", str(page), "--results", str(results)]) == 0
    assert page.read_text() == text


def test_the_docs_have_a_place_for_every_table():
    text = (tables.HERE.parent / "docs" / "benchmarks.md").read_text()
    for name in ("summary", "exactness", "ladder", "profile", "host", *shapes.CLASSES):
        assert text.count(f"<!-- table: {name} -->\n") == 1
