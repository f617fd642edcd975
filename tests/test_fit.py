"""The Hopper cost model in Python, and the fit of its constants."""

import contextlib
import itertools
import math
import random

import pytest
from calls import (
    CLUSTER_OF,
    HOPPER_ONCE,
    HOPPER_SHALLOW,
    HOPPER_STREAM,
    HOPPER_SWAPPED,
    HOPPER_TILES,
    MOST_K,
    most_parts,
)

from benchmarks import fit, model_sm90, model_streams, records, shapes
from vitamin_hgemm.planning import device_facts, kernels, plan

H200 = device_facts("H200")
GIVEN = model_sm90.fixed(H200)
TILES = [kernel for kernel in kernels() if kernel["name"] in HOPPER_TILES]
NAMES = [kernel["name"] for kernel in TILES]


def test_names_tell_the_tiles():
    for kernel in TILES:
        tile = model_sm90.tile_of(kernel["name"])
        sides = (tile.n, tile.m) if tile.swapped else (tile.m, tile.n)
        assert (*sides, model_sm90.TILE_K) == tuple(kernel["tile"])
        assert not kernel["any_align"]
        assert tile.cluster == CLUSTER_OF[kernel["name"]]
    assert set(NAMES) == set(HOPPER_TILES)
    assert {name for name in NAMES if model_sm90.tile_of(name).swapped} == set(HOPPER_SWAPPED)
    for name in ("sm80_128x128x64", "sm90_v11_hilbert", HOPPER_STREAM, "torch"):
        with pytest.raises(ValueError, match=name):
            model_sm90.tile_of(name)


def test_clusters_that_an_h200_holds():
    assert [GIVEN.slots(blocks) for blocks in range(1, 9)] == [132, 66, 39, 30, 22, 17, 15, 15]


def compare(shape, name, ways, constants):
    """Holds ways of 1, 2 and more parts against plan(); how many predictions there were."""
    options = {"batch": max(shape.batch, 1), "layout": shape.layout, "device": H200}
    candidates = plan(shape.m, shape.n, shape.k, kernel=name, **options).candidates
    assert {c.splits for c in candidates} == {way.splits for way in ways if way.allowed}, shape
    for candidate in candidates:
        predicted = ways[candidate.splits - 1].predict(constants)
        assert predicted == pytest.approx(candidate.predicted_us, rel=1e-6), (shape, candidate)
    return len(candidates)


@pytest.mark.parametrize("name", NAMES)
def test_python_and_cpp_predict_the_same(name):
    """Over half of a grid, another half for each kernel."""
    constants = model_streams.read_constants()
    grid = itertools.product(
        (1, 16, 72, 128, 1000, 4096), (2, 8, 100, 513, 2056, 4096), (8, 200, 1024, 4112),
        shapes.LAYOUTS, (0, 3),
    )  # fmt: skip
    half = random.Random(name).sample(list(grid), 576)
    compared = 0
    for shape in itertools.starmap(shapes.Shape, half):
        parts = range(1, most_parts(name) + 1)
        ways = [model_streams.way(shape, name, splits, GIVEN) for splits in parts]
        # A row that is not 16-byte-aligned is refused.
        with contextlib.suppress(RuntimeError):
            compared += compare(shape, name, ways, constants)
    assert compared > 300


@pytest.mark.parametrize("name", [HOPPER_STREAM, HOPPER_SHALLOW, HOPPER_ONCE])
@pytest.mark.parametrize("layout", shapes.LAYOUTS)
def test_python_and_cpp_predict_the_same_for_few_rows_or_columns(name, layout):
    """Either side is the thin one; rows begin at every multiple of 2 bytes."""
    constants = model_streams.read_constants()
    most = most_parts(name)
    thin = (1, 2, 3, 5, 8, 12, 16, 17, 40)
    wide = (1, 2, 24, 59, 130, 1001, 4096, 4100, 70001, 270336)
    depths = (1, 2, 7, 8, 13, 32, 36, 64, 100, 128, 129, 517, 1023, 4096, 4098, 65544)
    compared = 0
    for *extents, k, batch in itertools.product(thin, wide, depths, (0, 3)):
        for m, n in (extents, reversed(extents)):
            shape = shapes.Shape(m, n, k, layout, batch)
            ways = [model_streams.way(shape, name, splits, GIVEN) for splits in range(1, most + 1)]
            if ways[0].allowed:
                compared += compare(shape, name, ways, constants)
            else:
                with pytest.raises(RuntimeError, match=f"K is above {MOST_K[name]}"):
                    plan(m, n, k, layout=layout, device=H200, kernel=name)
    assert compared > 3000


def made_up_rows(constants):
    """Times that constants predict, of a few problems and tiles."""
    rows = []
    for i, shape in enumerate(map(shapes.parse_shape, ("16x4096x4096:nt", "512x512x4096:nn"))):
        for name in ("sm90_128x64x64", "sm90_64x128x64", "sm90_16x128x64"):
            for splits in (1, 2):
                way = model_sm90.Way(shape, name, splits, GIVEN)
                us = {"torch": 20.0, name: way.predict(constants) * (1 + 0.01 * i)}
                facts = {"gpu": "NVIDIA H200", "date": "2026-11-30"}
                for row in records.rows(shape, "bf16", "mid", "cold", us, dict(us), facts):
                    rows.append(row | {"splits": "" if row["kernel"] == "torch" else str(splits)})
    return rows


def test_fit_recovers_what_made_the_times(tmp_path):
    start = model_streams.read_constants()
    true = start | {"kBeginUs": start["kBeginUs"] + 2, "kTileCycles": 3000.0}
    path = tmp_path / "tiles.csv"
    records.write(path, made_up_rows(true), records.SPLIT_COLUMNS)
    found = fit.Fit(fit.read_times([path], GIVEN))
    assert {one.way.kernel for one in found.timed} == {row["kernel"] for row in made_up_rows(true)
                                                       if row["kernel"] != "torch"}  # fmt: skip
    assert len(found.groups) == 2
    fitted = fit.search(found, start, 400, 3)
    assert fitted == fit.search(found, start, 400, 3)
    assert found.error(found.predict(fitted)) < found.error(found.predict(start)) / 3
    held = set(start) - set(found.shown(start))
    assert {"kCrookedRow", "kRowsStore"} <= held
    assert all(fitted[name] == start[name] for name in held)


def test_regret_is_what_the_least_prediction_loses():
    shape = shapes.Shape(16, 4096, 4096, "nt")
    constants = model_streams.read_constants()
    ways = [model_sm90.Way(shape, name, 1, GIVEN) for name in NAMES[-2:]]
    predicted = [way.predict(constants) for way in ways]
    fast, slow = (2.0, 3.0) if predicted[0] > predicted[1] else (3.0, 2.0)
    found = fit.Fit([fit.Timed(shape, way, us) for way, us in zip(ways, (fast, slow), strict=True)])
    assert found.regret(predicted) == pytest.approx(1.5)
    assert found.weights[predicted.index(min(predicted))] == pytest.approx((2 / 3) ** 3)
    told = fit.report(found, constants, constants)
    assert any("16x4096x4096:nt" in line and "1.50" in line for line in told)


def test_ways_that_select_never_takes_are_left_out(tmp_path):
    shape = shapes.Shape(512, 4096, 4096, "nt")  # 64 tiles of 128x256, 128 of 128x128
    names = ("sm90_128x256x64", "sm90_128x128x64")
    wide, narrow = (model_sm90.Way(shape, name, 2, GIVEN) for name in names)
    assert wide.allowed and not narrow.allowed
    assert not model_sm90.Way(shape, names[0], 4, GIVEN).allowed
    assert not model_sm90.Way(shape, "sm90_128x256x64_2x1", 4, GIVEN).allowed
    facts = {"gpu": "NVIDIA H200", "date": "2026-11-30"}
    us = dict(zip(names, (30.0, 31.0), strict=True))
    rows = records.rows(shape, "bf16", "mid", "cold", us, us, facts)
    path = tmp_path / "tiles.csv"
    records.write(path, [row | {"splits": "2"} for row in rows], records.SPLIT_COLUMNS)
    assert [one.way.kernel for one in fit.read_times([path], GIVEN)] == [names[0]]


def test_command_runs_on_the_recorded_times_and_on_none(tmp_path, capsys):
    assert fit.main(["--steps", "2"]) == 0
    told = capsys.readouterr().out
    constants = model_streams.read_constants()
    assert all(f"\n{name} " in told for name in constants)
    error = next(line.split() for line in told.splitlines() if line.startswith("error"))
    assert 0 < float(error[1]) < 0.12 and 0 < float(error[2]) < 0.12
    regret = next(line.split() for line in told.splitlines() if line.startswith("regret"))
    assert 1 <= float(regret[1]) < 1.04 and math.isfinite(float(regret[2]))
    other = tmp_path / "other.csv"
    other.write_text("gpu,splits\nNVIDIA H200,2\n")
    assert fit.main([str(other)]) == 2
    assert "no times" in capsys.readouterr().err
