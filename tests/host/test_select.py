"""The choice of a kernel, on every preset device and over random problems. No GPU is needed."""

import dataclasses
import random

import pytest
import torch
from calls import (
    AMPERE_STEPS,
    FAMILIES,
    HOPPER_STEPS,
    HOPPER_STUDIES,
    layout_of,
    most_parts,
    production,
    table,
)

from vitamin_hgemm.planning import PRESETS, plan

LAYOUTS = ("nn", "nt", "tn", "tt")
SMALL_SHARED = [name for name, facts in PRESETS.items() if facts.smem_per_block < 100 * 1024]
CHOICES = [(kernel, device) for kernel in ("auto", "sm80") for device in PRESETS]
CHOICES += [("sm90", name) for name, facts in PRESETS.items() if facts.cc == 90]


def random_problem():
    """Arguments of plan(), from vectors to large matrices, aligned or not."""

    def extent():
        value = int(2 ** random.uniform(0, 14)) + 1
        quantum = random.choice((1, 2, 4, 8, 8, 8, 64))
        return -(-value // quantum) * quantum

    m, n, k = extent(), extent(), extent()
    layout = random.choice(LAYOUTS)
    pad = random.choice((0, 0, 0, 1, 8))
    return (m, n, k), {
        "batch": random.choice((1, 1, 1, 3, 700)),
        "dtype": random.choice((torch.float16, torch.bfloat16)),
        "layout": layout,
        "lda": (k if layout[0] == "n" else m) + pad,
        "ldb": (n if layout[1] == "n" else k) + pad,
        "align_offset": random.choice((0, 0, 0, 2, 4, 8)),
        "bias": random.choice((False, True)),
        "activation": random.choice(("none", "relu", "gelu", "gelu_tanh", "silu")),
        "out_dtype": random.choice((None, torch.float32)),
    }


def rows_aligned(options, which):
    """Whether stored rows, the base and the batch stride of a or b are multiples of 16 bytes."""
    return options["align_offset"] % 16 == 0 and options[f"ld{which}"] % 8 == 0


def check_launch(launch, shape, options, facts):
    """What holds of every choice and every candidate."""
    m, n, k = shape
    entry = table()[launch.kernel]
    assert entry["min_cc"] <= facts.cc and facts.cc <= (entry["max_cc"] or facts.cc)
    assert entry["smem_bytes"] <= facts.smem_per_block, f"{launch.kernel} does not fit"
    assert entry["family"] in FAMILIES, "auto never calls cuBLAS, nor a step of the ladder"
    assert 1 <= launch.splits <= -(-k // entry["tile"][2])
    if entry["family"] == "sm90":
        # Parts of a tile are blocks of a cluster, as those that share tiles are.
        assert launch.splits <= most_parts(launch.kernel)
    for which, repacked in (("a", launch.repack_a), ("b", launch.repack_b)):
        assert entry["any_align"] or repacked or rows_aligned(options, which), launch
        assert not (repacked and rows_aligned(options, which)), "copied for nothing"
    in_workspace = launch.splits > 1 and entry["family"] == "sm80"
    least = in_workspace * launch.splits * m * n * 4
    least += launch.repack_a * m * k * 2 + launch.repack_b * k * n * 2
    assert launch.workspace_bytes >= least
    assert (launch.workspace_bytes > 0) == (least > 0)
    assert launch.predicted_us > 0


@pytest.mark.parametrize(("kernel", "device"), CHOICES)
def test_every_choice_fits_the_problem_and_the_device(kernel, device):
    facts = PRESETS[device]
    for _ in range(60):
        shape, options = random_problem()
        if min(shape) < 2:
            continue
        chosen = plan(*shape, device=device, kernel=kernel, **options)
        assert chosen.reason and chosen.candidates
        check_launch(chosen, shape, options, facts)
        for candidate in chosen.candidates:
            check_launch(candidate, shape, options, facts)
            assert candidate.predicted_us >= max(candidate.tensor_us, candidate.memory_us)
        costs = [candidate.predicted_us for candidate in chosen.candidates]
        assert costs == sorted(costs)
        cheapest = chosen.candidates[0]
        assert (chosen.kernel, chosen.splits) == (cheapest.kernel, cheapest.splits)
        assert chosen.workspace_bytes == cheapest.workspace_bytes


def test_the_same_question_has_the_same_answer():
    for _ in range(30):
        shape, options = random_problem()
        assert plan(*shape, device="H200", **options) == plan(*shape, device="H200", **options)


def test_a_named_kernel_is_the_one_that_is_chosen():
    for name, entry in table().items():
        chosen = plan(512, 512, 128, layout=layout_of(name), device="H200", kernel=name)
        assert chosen.kernel == name
        assert {candidate.kernel for candidate in chosen.candidates} <= {name}
        if entry["family"] in ("ladder", "study"):
            assert chosen.splits == 1 and chosen.workspace_bytes == 0


def test_tiles_too_large_for_small_parts_are_refused_by_name():
    """99 KB of shared memory: GeForce and Ada parts."""
    assert len(SMALL_SHARED) >= 5
    limit = PRESETS[SMALL_SHARED[0]].smem_per_block
    fits = [name for name in production("sm80") if table()[name]["smem_bytes"] <= limit]
    assert fits, "no production kernel runs on a 99 KB part"
    for device in SMALL_SHARED:
        for name, entry in table().items():
            if entry["max_cc"]:
                continue
            if entry["smem_bytes"] > PRESETS[device].smem_per_block:
                with pytest.raises(RuntimeError, match="shared memory"):
                    plan(512, 512, 512, device=device, kernel=name)
            else:
                assert plan(512, 512, 512, device=device, kernel=name).kernel == name


def test_the_ladder_says_what_it_cannot_do():
    """Both ladders and the studies: the operand that is in the way, and what is wrong with it."""
    for name in (*AMPERE_STEPS, *HOPPER_STEPS, *HOPPER_STUDIES):
        own = layout_of(name)
        for layout in set(LAYOUTS) - {own}:
            with pytest.raises(RuntimeError, match=r": (a|b) is (row|column)-major") as error:
                plan(128, 128, 128, device="H200", kernel=name, layout=layout)
            named = str(error.value).split(": ", 1)[1][0]
            assert layout["ab".index(named)] != own["ab".index(named)], str(error.value)
        unaligned = (({"lda": 129}, "a"), ({"ldb": 132}, "b"), ({"align_offset": 8}, "a"))
        for options, which in unaligned:
            with pytest.raises(RuntimeError, match=f"rows of {which} are not 16-byte aligned"):
                plan(128, 128, 128, device="H200", kernel=name, layout=own, **options)
        # Extents need not be multiples of anything when the rows are.
        odd = plan(127, 121, 119, lda=120, ldb=128, layout=own, device="H200", kernel=name)
        assert odd.kernel == name


def test_what_is_made_for_hopper_runs_there_only():
    """Refused on the host, with the reason, whatever else the device may have."""
    names = ("sm90", *production("sm90"), *HOPPER_STEPS, *HOPPER_STUDIES)
    others = [facts for facts in PRESETS.values() if facts.cc != 90]
    assert {80, 86, 89, 120} <= {facts.cc for facts in others}
    for facts in (*others, dataclasses.replace(PRESETS["H200"], cc=100)):
        of_device = rf"compute capability {facts.cc // 10}\.{facts.cc % 10}; wanted 9\.0"
        for name in names:
            with pytest.raises(RuntimeError, match=f"'{name}' can't run .*{of_device}"):
                plan(512, 512, 512, layout="nt", device=facts, kernel=name)
    for facts in PRESETS.values():
        for name in names if facts.cc == 90 else ():
            chosen = plan(512, 512, 128, layout="nt", device=facts, kernel=name).kernel
            assert chosen in (production(name) or [name])


def test_unknown_kernel_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"auto.*sm80"):
        plan(8, 8, 8, device="H200", kernel="sm81")


def test_a_deep_product_of_few_tiles_is_split_along_k():
    for m, n in ((16, 24), (64, 64), (128, 256)):
        chosen = plan(m, n, 65536, device="H200")
        assert chosen.splits > 1, chosen


def test_a_large_aligned_product_needs_no_workspace():
    for layout in LAYOUTS:
        chosen = plan(8192, 8192, 8192, layout=layout, device="H200")
        assert chosen.workspace_bytes == 0, chosen


def test_predictions_stay_above_what_the_memory_allows():
    for shape in ((4096, 4096, 4096), (16, 28672, 4096), (1, 4096, 14336), (8192, 8192, 64)):
        m, n, k = shape
        for device in ("H200", "A100", "RTX 4090"):
            facts = PRESETS[device]
            floor = 2e-6 * (m * k + k * n + m * n) / facts.dram_tbs
            for candidate in plan(*shape, layout="nt", device=device).candidates:
                assert candidate.predicted_us >= floor, (device, shape, candidate)


def test_more_than_2_31_elements():
    for shape in ((2**31 + 8, 8, 8), (8, 2**31 + 8, 8), (8, 8, 2**31 + 8), (2**20, 2**20, 64)):
        chosen = plan(*shape, device="H200")
        assert chosen.predicted_us > 0 and chosen.workspace_bytes < 2**31
