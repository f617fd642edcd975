"""Tables and map of the production Hopper kernel, and the tables of the ruler's runs."""

import pytest
from measurements import measured_rows

from benchmarks import fit, plot, plot_portfolio, portfolio, records, shapes, tables
from vitamin_hgemm import kernels

RULER = "gpu,torch,commit,date,class,dtype,layout,m,n,k,batch,torch_us,vitamin_us,ratio,err"


def timed(shape, us, suite, splits, torch_us=20.0):
    """Rows of one run that forced a number of K parts."""
    rows = measured_rows(shapes.parse_shape(shape), {"torch": torch_us} | us, suite)
    return [row | {"splits": "" if row["kernel"] == "torch" else str(splits)} for row in rows]


def tile_rows():
    shape = "16x4096x4096:nt"
    rows = timed(shape, {"sm90_16x128x64": 12.0, "sm90_64x128x64": 15.0}, "decode", 1)
    rows += timed(shape, {"sm90_16x128x64": 10.0, "sm90_64x128x64": 18.0}, "decode", 2, 22.0)
    rows += timed("4096x2056x4096:nn", {"sm90_128x256x64_2x1": 100.0}, "unaligned", 1)
    rows += timed("4096x2072x4096:nn", {"sm90_128x256x64_2x1": 101.0}, "unaligned", 1)
    rows += timed("3x64x64x64:nn", {"sm90_128x64x64": 5.0}, "batched", 1)
    return rows + timed("2048x2048x2048:nn", {"sm90_128x256x64_2x1": 25.0}, "large", 1)


def test_every_tile_of_the_family_has_a_title():
    assert list(portfolio.TILES) == [k["name"] for k in kernels() if k["family"] == "sm90"]
    for name, title in portfolio.TILES.items():
        tile, *cluster = title.split()
        assert name in ("_".join([f"sm90_{tile}x64", *cluster]), f"sm90_{title}")


def test_best_parts_of_each_tile_and_best_tile_of_each_problem():
    problems = {str(p.shape): p for p in portfolio.measured(tile_rows())}
    assert next(iter(problems)) == "2048x2048x2048:nn"  # class by class
    small = problems["16x4096x4096:nt"]
    assert small.rows["sm90_16x128x64"]["splits"] == "2"
    assert small.rows["sm90_64x128x64"]["splits"] == "1"
    assert small.best["time_us"] == "10"
    assert small.torch_us == pytest.approx(22.0)
    again = timed("16x4096x4096:nt", {"sm90_16x128x64": 14.0}, "decode", 2)
    (later,) = portfolio.measured([*tile_rows(), *again])[1:2]
    assert later.best["time_us"] == "12"


def test_tables_of_tiles_and_ruler(tmp_path):
    records.write(tmp_path / "tiles.csv", tile_rows(), records.SPLIT_COLUMNS)
    (tmp_path / "ruler.csv").write_text(
        f"{RULER}\n"
        "NVIDIA H200,2.11,abc,2026-11-30,mid,bf16,nt,512,512,512,0,4,8,0.5,0.9\n"
        "NVIDIA H200,2.11,abc,2026-11-30,mid,bf16,nt,128,512,512,0,4,2,2,1.1\n"
        "NVIDIA H200,2.11,abc,2026-11-30,sweep,bf16,nt,7,5,3,0,4,1,4,0.9\n"
    )
    made = tables.make_tables(sorted(tmp_path.glob("*.csv")), None)
    tiles = "\n".join(made["tiles-sm90"])
    line = next(line for line in tiles.splitlines() if "16x4096x4096" in line)
    cells = dict(zip(tiles.splitlines()[0].split(" | "), line.split(" | "), strict=True))
    assert cells["fastest"] == "16x128 /2: 10.0" and cells["second"] == "64x128: 15.0"
    assert cells["third"] == "-" and line.endswith(" | 2.20 |")
    assert tiles.index("2048x2048") < tiles.index("16x4096")
    ruler = "\n".join(made["ruler"])
    assert (
        "| mid | bf16 | 2 | 1.000 | 0.50 at 512x512x512:nt | 2.00 at 128x512x512:nt | 1 |" in ruler
    )
    assert "| all of these | bf16 | 2 | 1.000 |" in ruler
    assert "| random | bf16 | 1 | 4.000 |" in ruler
    problems = "\n".join(made["ruler-problems"])
    assert "| 512x512x512:nt | mid | bf16 | 4.0 | 8.0 | 34 | 0.20 | 0.500 | 0.90 |" in problems
    assert "7x5x3" not in problems
    # Neither file's rows pass for those of a suite.
    assert not made["summary"] and not made["mid"] and not made["decode"]
    assert not made["study-ring"]


def test_recorded_files_are_told_apart():
    files = sorted(records.RESULTS.glob("*.csv"))
    found = [path.name for path in files if records.read(path, records.SPLIT_COLUMNS)]
    assert found == ["sm90-tiles-h200.csv"]
    assert all("splits" not in row for row in records.read_all(files))
    assert fit.GPU in records.read(records.RESULTS / found[0], records.SPLIT_COLUMNS)[0]["gpu"]


def test_widths_that_are_no_multiples_of_64_share_colours():
    legend, colors = plot_portfolio.LEGEND, plot_portfolio.COLORS
    assert legend["sm90_128x208x64_2x1"] == legend["sm90_192x112x64_2x1"] == "rows x other widths"
    assert legend["sm90_208x128x64_1x2"] == legend["sm90_48x128x64"] == "other widths x columns"
    assert legend["sm90_128x128x64_4x2"] == legend["sm90_128x128x64"] == "128x128"
    others = {title.split()[0] for title in portfolio.TITLES} & set(colors)
    assert len(set(colors.values())) == len(colors) == len(others) + 2
    assert {"128x256", "128x64", "32x128", "16x64", "stream", "once"} < others


def test_map_has_a_dot_a_place(tmp_path):
    pytest.importorskip("matplotlib")
    panels = [plot_portfolio.points(tile_rows(), ks) for _, ks in plot_portfolio.PANELS]
    shown = [[str(problem.shape) for problem in panel] for panel in panels]
    assert shown == [["2048x2048x2048:nn"], ["16x4096x4096:nt", "4096x2056x4096:nn"], []]
    records.write(tmp_path / "tiles.csv", tile_rows(), records.SPLIT_COLUMNS)
    images = tmp_path / "images"
    assert plot.main([str(tmp_path / "tiles.csv"), "--out", str(images)]) == 0
    assert [path.name for path in images.iterdir()] == ["hopper-tiles.png"]
    assert (images / "hopper-tiles.png").read_bytes().startswith(b"\x89PNG")
