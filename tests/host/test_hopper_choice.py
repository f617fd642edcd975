"""When the production kernels of the Hopper path are chosen, and how they are launched. No GPU is
needed."""

import itertools
import random

import pytest
import torch
from calls import (
    CLUSTER_OF,
    HOPPER_KERNELS,
    HOPPER_ONCE,
    HOPPER_SHALLOW,
    HOPPER_STREAM,
    HOPPER_TILES,
    LAYOUTS,
    MOST_K,
    most_parts,
    production,
    table,
)

from vitamin_hgemm.planning import PRESETS, plan

HOPPERS = [name for name, facts in PRESETS.items() if facts.cc == 90]
OTHERS = [name for name, facts in PRESETS.items() if facts.cc != 90]
STREAMS = (HOPPER_STREAM, HOPPER_SHALLOW)


@pytest.mark.parametrize("device", HOPPERS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_large_aligned_products_run_on_them(device, layout):
    for dtype in (torch.float16, torch.bfloat16):
        for m, n, k in [(4096, 4096, 4096), (8192, 8192, 8192), (2048, 16384, 1024)]:
            options = {"dtype": dtype, "layout": layout, "device": device}
            chosen = plan(m, n, k, **options)
            assert chosen.kernel in HOPPER_TILES
            assert chosen.splits == 1 and chosen.workspace_bytes == 0
            assert plan(m, n, k, kernel="sm90", **options).kernel == chosen.kernel


def test_auto_takes_the_cheaper_family():
    for m, n, k in [(4096, 4096, 4096), (16, 4096, 4096), (33, 40, 20000), (4095, 4095, 4095)]:
        costs = [plan(m, n, k, device="H200", kernel=f).predicted_us for f in ("sm90", "sm80")]
        assert plan(m, n, k, device="H200").predicted_us == min(costs)


@pytest.mark.parametrize("device", OTHERS)
def test_no_other_device_has_them(device):
    for _ in range(20):
        m, n, k = (int(2 ** random.uniform(1, 13)) for _ in range(3))
        names = {each.kernel for each in plan(m, n, k, device=device).candidates}
        assert names and names <= set(production("sm80"))
    with pytest.raises(RuntimeError, match=rf"'sm90' can't run this problem on {device}: .* 9\.0"):
        plan(4096, 4096, 4096, device=device, kernel="sm90")


def test_names_say_the_tile():
    for name in HOPPER_TILES:
        tile = "x".join(map(str, table()[name]["tile"]))
        cluster = "x".join(map(str, CLUSTER_OF[name]))
        assert name == f"sm90_{tile}" + ("" if cluster == "1x1" else f"_{cluster}")


def parts_chosen(name, device):
    """Numbers of parts that plan() has the kernel cut K into, for some products of ragged K."""
    tile_m, tile_n, _ = table()[name]["tile"]
    depths = (517, 773, 1029, 1541, 2051, 4099, 8195, 16387)
    chosen = set()
    for tiles, k in itertools.product((1, 17, 25, 40), depths):
        m, n, pitch = tile_m - 3, tiles * tile_n - 5, -(-k // 8) * 8
        options = {"layout": "nt", "lda": pitch, "ldb": pitch, "device": device, "kernel": name}
        chosen.add(plan(m, n, k, **options).splits)
    return chosen


@pytest.mark.parametrize("device", HOPPERS)
def test_parts_of_k_are_blocks_of_a_cluster(device):
    """Of 8 with those that share tiles, with no workspace, of 2 k-tiles at least."""
    chosen = set()
    for name in HOPPER_TILES:
        chosen |= parts_chosen(name, device)
        most = most_parts(name)
        deep = plan(16, 24, 65536, device=device, kernel=name)
        assert {each.splits for each in deep.candidates} == set(range(1, most + 1))
        assert all(each.workspace_bytes == 0 for each in deep.candidates)
        assert (deep.splits > 1) == (most > 1)
        shallow = plan(16, 24, 448, device=device, kernel=name)
        assert {each.splits for each in shallow.candidates} == set(range(1, min(3, most) + 1))
        full = plan(16384, 16384, 65536, device=device, kernel=name)
        assert {each.splits for each in full.candidates} == {1}
    assert chosen >= set(range(2, 9)), "a number of parts that plan() never chooses"


@pytest.mark.parametrize("device", HOPPERS)
def test_parts_of_k_run_at_the_same_time(device):
    """Never more blocks than the GPU holds, up to two an SM."""
    for name, clusters in itertools.product(HOPPER_TILES, (1, 7, 12, 20, 40, 60, 100)):
        tile_m, tile_n, _ = table()[name]["tile"]
        below, beside = CLUSTER_OF[name]
        m, n = tile_m * below, tile_n * beside * clusters
        planned = plan(m, n, 65536, device=device, kernel=name)
        most = max(each.splits for each in planned.candidates)
        assert most == 1 or below * beside * clusters * most <= 2 * PRESETS[device].sm_count


@pytest.mark.parametrize("device", HOPPERS)
def test_parts_of_k_of_few_rows_or_columns(device):
    """Blocks of a cluster too, each of 2 steps at least, until an SM has two blocks."""
    assert len(parts_chosen(HOPPER_STREAM, device)) > 2
    for (m, n, k), most in [
        ((16, 24, 65536), 8),
        ((24, 16, 448), 3),  # 7 steps of 64
        ((1000, 16, 448), 7),  # 14 of 32
        ((16, 24, 112), 3),  # 7 of 16, of columns
        ((16, 40000, 65536), 1),
    ]:
        planned = plan(m, n, k, device=device, kernel=HOPPER_STREAM)
        assert {each.splits for each in planned.candidates} == set(range(1, most + 1))
        assert all(each.workspace_bytes == 0 for each in planned.candidates)
    for name in (HOPPER_SHALLOW, HOPPER_ONCE):
        planned = plan(3, 5, 128, device=device, kernel=name)
        assert [each.splits for each in planned.candidates] == [1]


def test_what_they_take_by_name():
    """Any output and epilogue, batches of one stride, and no terms at all."""
    for name in HOPPER_KERNELS:
        for options in [
            {"ldc": 601, "align_offset": 16},
            {"out_dtype": torch.float32, "bias": True, "activation": "gelu"},
            {"batch": 96},
        ]:
            for layout in LAYOUTS:
                chosen = plan(256, 600, 64, layout=layout, device="H200", kernel=name, **options)
                assert chosen.kernel == name and chosen.workspace_bytes == 0
        assert plan(5, 7, 0, device="H200", kernel=name).kernel == name
        assert plan(1, 7, 64, ldb=8, device="H200", kernel=name).kernel == name


def test_what_those_for_few_rows_or_columns_take_and_refuse_by_name():
    """Any address and pitch of the smaller operand; of the larger one, what shared memory holds."""
    for name, layout in itertools.product(STREAMS, LAYOUTS):
        for m, n in [(3, 1000), (1000, 3)]:
            options = {"layout": layout, "lda": 1001, "ldb": 1003, "align_offset": 2}
            if name == HOPPER_SHALLOW:
                options["ldb" if m > n else "lda"] = 2**20 + 1
                options["lda" if m > n else "ldb"] = None
            chosen = plan(m, n, 117, device="H200", kernel=name, **options)
            assert chosen.kernel == name and chosen.workspace_bytes == 0
            assert not chosen.repack_a and not chosen.repack_b
    for (m, n, k), options, reason in [
        ((3, 1000, 129), {}, "K is above 128"),
        ((1000, 3, 128), {"lda": 160}, "rows of the larger operand lie too far apart"),
        ((3, 1000, 7), {"layout": "nt", "ldb": 400}, "rows of the larger operand lie too far"),
        ((1000, 3, 7), {"lda": 2**23}, "rows of the larger operand lie too far"),
    ]:
        with pytest.raises(RuntimeError, match=f"'{HOPPER_SHALLOW}' can't run .*: {reason}"):
            plan(m, n, k, device="H200", kernel=HOPPER_SHALLOW, **options)
        assert plan(m, n, k, device="H200", kernel=HOPPER_STREAM, **options).splits >= 1


def test_what_the_one_with_a_block_for_every_tile_takes_and_refuses_by_name():
    """Any address and pitch of either operand, and K up to 1024."""
    for layout in LAYOUTS:
        for (m, n, k), options in [
            ((65, 301, 117), {"lda": 1101, "ldb": 1103, "align_offset": 2}),
            ((300, 2, 1024), {"lda": 2**30 + 1, "ldb": 2**23, "ldc": 2**20 + 1}),
            ((1, 1, 0), {"batch": 70000, "out_dtype": torch.float32}),
        ]:
            options = {"layout": layout, "device": "H200", "kernel": HOPPER_ONCE} | options
            chosen = plan(m, n, k, **options)
            assert chosen.kernel == HOPPER_ONCE and chosen.workspace_bytes == 0
            assert not chosen.repack_a and not chosen.repack_b
            with pytest.raises(
                RuntimeError, match=f"'{HOPPER_ONCE}' can't run .*: K is above 1024"
            ):
                plan(m, n, 1025, **options)


def test_the_family_considers_them_wherever_they_run():
    for (m, n, k), options, shallow in [
        ((4096, 4096, 4096), {}, False),
        ((4096, 4096, 128), {}, True),
        ((5, 300, 129), {"layout": "nt"}, False),
        ((300, 5, 13), {"lda": 150}, True),
        ((300, 5, 13), {"lda": 160}, False),
        ((7, 9, 128), {"batch": 50, "align_offset": 2}, True),
    ]:
        family = plan(m, n, k, device="H200", kernel="sm90", **options)
        kernels = {each.kernel for each in family.candidates}
        wanted = {HOPPER_STREAM} | ({HOPPER_SHALLOW} if shallow else set())
        assert kernels & {*STREAMS, HOPPER_ONCE} == wanted | ({HOPPER_ONCE} if k <= 1024 else set())


def test_auto_takes_them_for_few_rows_of_any_alignment():
    for (m, n, k), kernel in [
        ((2, 20569856, 13), HOPPER_SHALLOW),
        ((1, 4095, 4095), HOPPER_STREAM),
    ]:
        assert plan(m, n, k, layout="nt", device="H200").kernel == kernel


def test_badly_aligned_rows_are_refused_by_name_and_copied_by_the_family():
    any_align = {*STREAMS, HOPPER_ONCE}
    for (m, n, k), options, which, padded in [
        ((4095, 4096, 4095), {}, "a", 4095 * 4096),
        ((512, 640, 504), {"lda": 505}, "a", 512 * 512),
        ((512, 640, 56), {"lda": 57}, "a", 512 * 56),
        ((512, 640, 512), {"lda": 513}, "a", 512 * 512),
        ((512, 640, 520), {"lda": 521}, "a", 512 * 576),
        ((640, 513, 512), {}, "b", 512 * 576),
        ((640, 511, 512), {}, "b", 512 * 512),
        ((640, 75, 512), {}, "b", 512 * 96),
        ((640, 45, 512), {}, "b", 512 * 48),
    ]:
        assert plan(m, n, k, device="H200", kernel=HOPPER_STREAM, **options).workspace_bytes == 0
        for name in HOPPER_TILES:
            with pytest.raises(RuntimeError, match=f"rows of {which} are not 16-byte aligned"):
                plan(m, n, k, device="H200", kernel=name, **options)
        family = plan(m, n, k, device="H200", kernel="sm90", **options)
        wanted = {name for name in HOPPER_KERNELS if k <= MOST_K.get(name, k)}
        assert {each.kernel for each in family.candidates} == wanted
        for each in family.candidates:
            copied = which if each.kernel not in any_align else ""
            assert (each.repack_a, each.repack_b) == (copied == "a", copied == "b")
            assert each.workspace_bytes == (2 * padded if copied else 0)


def test_shallow_products_of_odd_rows_are_not_copied_first():
    for m, n, k in [(3, 59, 2), (310, 7, 10), (5, 4000, 2)]:
        chosen = plan(m, n, k, device="H200", layout="nn")
        assert table()[chosen.kernel]["any_align"]
        assert not chosen.repack_a and not chosen.repack_b
    chosen = plan(4095, 4095, 4095, device="H200")
    assert not table()[chosen.kernel]["any_align"] and chosen.repack_a and chosen.repack_b


def test_what_is_too_large_for_them_is_left_to_the_others():
    for shape, reason in [
        ((2**31, 8, 8), "an extent is 2.31 - 512 or more"),
        ((8, 2**31 - 512, 8), "an extent is 2.31 - 512 or more"),
        ((2**22, 2**22, 64), "c has too many tiles"),
    ]:
        for name in HOPPER_KERNELS:
            with pytest.raises(RuntimeError, match=f"'{name}' can't run .*: {reason}"):
                plan(*shape, device="H200", kernel=name)
        assert plan(*shape, device="H200", kernel="sm90").kernel in production("sm80")
    with pytest.raises(RuntimeError, match=r"a stride is 2.40 bytes or more"):
        plan(8, 8, 8, lda=2**39, device="H200", kernel=HOPPER_TILES[0])
