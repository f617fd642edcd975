"""kernels() and plan(): what they tell, for devices that need not be there."""

import dataclasses
import functools

import pytest
import torch
from calls import (
    AMPERE_STEPS,
    FAMILIES,
    HOPPER_KERNELS,
    HOPPER_STEPS,
    HOPPER_STUDIES,
    layout_of,
    measure_memory,
    production,
)

import vitamin_hgemm
from vitamin_hgemm import planning

PRESETS = planning.PRESETS
LAYOUTS = ("nn", "nt", "tn", "tt")


def test_kernels():
    table = vitamin_hgemm.kernels()
    names = [entry["name"] for entry in table]
    assert len(set(names)) == len(names)
    steps = [entry["name"] for entry in table if entry["family"] == "ladder"]
    assert steps == [*AMPERE_STEPS, *HOPPER_STEPS]
    studies = {entry["name"] for entry in table if entry["family"] == "study"}
    assert studies == set(HOPPER_STUDIES)
    assert {entry["family"] for entry in table} == {"cublas", "ladder", "study", *FAMILIES}
    assert set(production("sm90")) == set(HOPPER_KERNELS)
    for entry in table:
        assert set(entry) == {
            "name", "family", "what", "min_cc", "max_cc", "tile", "stages", "threads",
            "smem_bytes", "any_align", "layouts", "batched",
        }  # fmt: skip
        assert entry["what"] and entry["min_cc"] >= 80
        assert entry["layouts"] in ("all", "nn", "nt")
        if entry["family"] != "cublas":
            m, n, k = entry["tile"]
            assert m * n * k > 0 and entry["threads"] % 32 == 0
            assert 0 < entry["smem_bytes"] <= 227 * 1024


@pytest.mark.parametrize("device", PRESETS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_auto_takes_everything_without_cublas(device, layout, dtype):
    table = {entry["name"]: entry for entry in vitamin_hgemm.kernels()}
    families = FAMILIES if PRESETS[device].cc == 90 else ("sm80",)
    for m, n, k in [(4096, 4096, 4096), (1, 1, 1), (4095, 4097, 33), (16, 4096, 4096), (3, 5, 0)]:
        for batch in (1, 3):
            plan = vitamin_hgemm.plan(
                m, n, k, batch=batch, dtype=dtype, layout=layout, device=device
            )
            assert plan.predicted_us > 0 and plan.splits >= 1 and plan.reason
            assert plan.device is PRESETS[device]
            for candidate in (plan, *plan.candidates):
                entry = table[candidate.kernel]
                assert entry["family"] in families
                assert entry["smem_bytes"] <= PRESETS[device].smem_per_block
                # Parts of a split K meet in shared memory on Hopper.
                partial_sums = candidate.splits > 1 and entry["family"] == "sm80"
                needs = partial_sums or candidate.repack_a or candidate.repack_b
                assert (candidate.workspace_bytes > 0) == needs


def test_candidates_are_in_order_and_the_first_is_chosen():
    plan = vitamin_hgemm.plan(1000, 2000, 3000, device="A100")
    costs = [candidate.predicted_us for candidate in plan.candidates]
    assert len(costs) > 2 and costs == sorted(costs)
    for field in dataclasses.fields(planning.Candidate):
        if hasattr(plan, field.name):
            assert getattr(plan, field.name) == getattr(plan.candidates[0], field.name)


def test_same_question_same_answer():
    ask = lambda: vitamin_hgemm.plan(777, 555, 333, layout="tt", device="RTX 4090")  # noqa: E731
    assert ask() == ask()


def test_text_has_what_matters():
    plan = vitamin_hgemm.plan(
        4095, 4095, 4095, device="h200", batch=2, bias=True, activation="gelu",
        out_dtype=torch.float32, dtype=torch.float16,
    )  # fmt: skip
    text = str(plan)
    for word in (
        "2 x 4095 x 4095 x 4095 nn fp16", "bias", "gelu", "fp32", "H200", "sm_90", "132 SMs",
        plan.kernel, f"{plan.predicted_us:.1f} us", str(plan.workspace_bytes), plan.reason,
    ):  # fmt: skip
        assert word in text
    rows = [line.split()[0] for line in text.splitlines() if line.startswith(("  sm80", "  sm90"))]
    assert rows == [candidate.kernel for candidate in plan.candidates]


def test_plan_is_frozen_and_plain():
    plan = vitamin_hgemm.plan(64, 64, 64, device="A100")
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.kernel = "cublas"
    as_dict = plan.as_dict()
    assert as_dict["device"]["sm_count"] == 108
    assert as_dict["candidates"][0]["kernel"] == plan.kernel


def test_named_kernel_and_family():
    for entry in vitamin_hgemm.kernels():
        name = entry["name"]
        options = dict(layout=layout_of(name), device="H200", kernel=name)
        plan = vitamin_hgemm.plan(512, 512, 128, **options)
        assert plan.kernel == name
        modelled = plan.candidates != ()
        assert modelled == (entry["family"] in FAMILIES)
        assert (plan.predicted_us is not None) == modelled
        assert ("no model" in str(plan)) != modelled
    for device, family in (("A100", "sm80"), ("H200", "sm90")):
        by_family = vitamin_hgemm.plan(4096, 4096, 4096, device=device, kernel=family)
        assert by_family.kernel == vitamin_hgemm.plan(4096, 4096, 4096, device=device).kernel
        assert {candidate.kernel for candidate in by_family.candidates} <= set(production(family))


def test_named_kernel_that_cannot():
    with pytest.raises(RuntimeError, match=r"'sm80_naive' can't run this problem on A100: .+"):
        vitamin_hgemm.plan(512, 512, 512, layout="nt", device="A100", kernel="sm80_naive")
    with pytest.raises(RuntimeError, match=r"'sm80_naive' can't run this problem on A100: .+"):
        vitamin_hgemm.plan(512, 511, 512, device="A100", kernel="sm80_naive")
    tiles = [entry for entry in vitamin_hgemm.kernels() if entry["family"] == "sm80"]
    large = max(tiles, key=lambda entry: entry["smem_bytes"])
    assert large["smem_bytes"] > PRESETS["RTX 4090"].smem_per_block
    with pytest.raises(RuntimeError, match=r"can't run this problem on RTX 4090: .+"):
        vitamin_hgemm.plan(512, 512, 512, device="RTX 4090", kernel=large["name"])


def test_unknown_kernel():
    with pytest.raises(
        ValueError, match="kernel is 'sm70'; wanted one of auto, sm90, sm80, cublas, sm80_naive"
    ):
        vitamin_hgemm.plan(1, 1, 1, device="H200", kernel="sm70")


@pytest.mark.parametrize(
    "options, text",
    [
        (dict(m=-1), "m is -1; wanted 0 or more"),
        (dict(batch=-2), "batch is -2; wanted 0 or more"),
        (dict(align_offset=-2), "align_offset is -2; wanted 0 or more"),
        (dict(dtype=torch.float32), "dtype is torch.float32; wanted torch.float16 or"),
        (dict(layout="nx"), "layout is 'nx'; wanted nn, nt, tn or tt"),
        (dict(activation="swish"), "activation is 'swish'; wanted one of none, relu"),
        (dict(out_dtype=torch.float16), "out_dtype is torch.float16; wanted None or"),
        (dict(device="H2000"), "device is 'H2000'; wanted a CUDA device or one of H200, H100"),
        (dict(device="cpu"), "device is 'cpu'; wanted a CUDA device or one of"),
        (dict(lda=7), "lda is 7; wanted 8 or more"),
        (dict(layout="nt", ldb=7), "ldb is 7; wanted 8 or more"),
        (dict(ldc=7), "ldc is 7; wanted 8 or more"),
        (dict(m=8.0), "m is 8.0; wanted an integer"),
        (dict(n="8"), "n is '8'; wanted an integer"),
        (dict(k=True), "k is True; wanted an integer"),
        (dict(batch=None), "batch is None; wanted an integer"),
        (dict(lda=8.0), "lda is 8.0; wanted an integer"),
        (dict(lda=-1), "lda is -1; wanted 8 or more"),
        (dict(m=2**63), f"m is {2**63}; wanted at most {2**63 - 1}"),
        (dict(ldb=2**64), f"ldb is {2**64}; wanted at most {2**63 - 1}"),
        (dict(align_offset=2**64), "align_offset is 18446744073709551616; wanted at most"),
        (dict(align_offset=3), "align_offset is 3; wanted an even number of bytes"),
        (dict(k=2**31, m=2**31), f"a takes {2**63} bytes; wanted at most {2**63 - 1}"),
        (dict(k=2**31, n=2**31, layout="nt"), f"b takes {2**63} bytes; wanted at most"),
        (dict(m=2**31, n=2**31), f"the result takes {2**63} bytes; wanted at most"),
        (dict(m=2**30, n=2**31, out_dtype=torch.float32), "the result takes 922337"),
        (dict(lda=2**60), f"a takes {2**64} bytes"),
        (dict(batch=2**60), "a takes 147573952589676412928 bytes"),
        (dict(m=0, batch=0, n=2**62, k=2**62), "b takes "),
        (dict(m=1, n=1, k=1, batch=2**60), "the workspace for copies of a and b takes 3689"),
        (dict(m=2**53 - 2**49, k=513), "the workspace for copies of a and b takes 9727"),
        (dict(bias=2), "bias is 2; wanted True or False"),
        (dict(kernel=3), "kernel is 3; wanted one of auto, sm90, sm80"),
        (dict(kernel=None), "kernel is None; wanted one of auto, sm90, sm80"),
        (dict(dtype=[]), r"dtype is \[\]; wanted torch.float16 or"),
        (dict(device=3.5), "device is 3.5; wanted a CUDA device or one of H200"),
    ],
    ids=str,
)
def test_arguments_out_of_range(options, text):
    arguments = dict(m=8, n=8, k=8, device="H200") | options
    with pytest.raises(ValueError, match=text):
        vitamin_hgemm.plan(**arguments)


@pytest.mark.parametrize(
    "facts, text",
    [
        (dict(sm_count=0), "device.sm_count is 0; wanted 1 or more"),
        (dict(sm_count=2**40), "device.sm_count is 1099511627776; wanted at most 2147483647"),
        (dict(sm_count=1.5), "device.sm_count is 1.5; wanted an integer"),
        (dict(cc="90"), "device.cc is '90'; wanted an integer"),
        (dict(l2_bytes=-1), "device.l2_bytes is -1; wanted 0 or more"),
        (dict(sm_ghz=0.0), "device.sm_ghz is 0.0; wanted a finite number above 0"),
        (dict(sm_ghz=float("nan")), "device.sm_ghz is nan; wanted a finite number above 0"),
        (dict(dram_tbs=-4.8), "device.dram_tbs is -4.8; wanted a finite number above 0"),
        (dict(dram_tbs=float("inf")), "device.dram_tbs is inf; wanted a finite number above 0"),
        (dict(dram_tbs="4"), "device.dram_tbs is '4'; wanted a finite number above 0"),
        (dict(name=None), "device.name is None; wanted a string"),
    ],
    ids=str,
)
def test_facts_out_of_range(facts, text):
    device = dataclasses.replace(PRESETS["H200"], **facts)
    with pytest.raises(ValueError, match=text):
        vitamin_hgemm.plan(8, 8, 8, device=device)


def test_largest_sizes_are_planned():
    for m, n, k in [(2**30, 2**31, 1), (1, 1, 2**58), (2**58, 1, 1), (2**30, 2**30, 2**30)]:
        plan = vitamin_hgemm.plan(m, n, k, device="H200")
        assert all(c.workspace_bytes >= 0 for c in plan.candidates)
        assert 0 < plan.predicted_us < float("inf")


def test_empty_result_launches_nothing():
    plan = vitamin_hgemm.plan(0, 8, 8, device="H200")
    assert plan.kernel == "none" and plan.workspace_bytes == 0 and "empty" in plan.reason


def test_alignment_counts():
    def kernel(**options):
        return vitamin_hgemm.plan(64, 64, 64, device="H200", **options)

    entries = {entry["name"]: entry for entry in vitamin_hgemm.kernels()}
    assert not kernel(lda=72).repack_a
    for options in (dict(lda=65), dict(ldb=67), dict(align_offset=2), dict(align_offset=8)):
        plan = kernel(**options)
        assert entries[plan.kernel]["any_align"] or plan.repack_a or plan.repack_b


def test_default_device():
    facts = planning.device_facts()
    if torch.cuda.is_available():
        assert facts.name == torch.cuda.get_device_name()
    else:
        assert facts is PRESETS["H200"]
        with pytest.raises(ValueError, match="no CUDA device, only presets by name"):
            planning.device_facts("cuda")


@pytest.mark.gpu
def test_facts_of_the_device(device):
    by_index, by_name = planning.device_facts(device.index), planning.device_facts("cuda")
    assert by_index == by_name == planning.device_facts(device)
    with pytest.raises(ValueError, match=r"device is 'cuda:99'; there are [0-9]+ CUDA devices"):
        planning.device_facts("cuda:99")
    properties = torch.cuda.get_device_properties(device)
    assert by_index.cc == properties.major * 10 + properties.minor
    assert by_index.sm_count == properties.multi_processor_count
    for name, preset in PRESETS.items():
        if by_index.name.endswith(name):
            assert (by_index.cc, by_index.sm_count) == (preset.cc, preset.sm_count)
            assert by_index.smem_per_block == preset.smem_per_block
            assert by_index.l2_bytes == pytest.approx(preset.l2_bytes, rel=0.05)
            assert by_index.sm_ghz == pytest.approx(preset.sm_ghz, rel=0.05)
            assert by_index.dram_tbs == pytest.approx(preset.dram_tbs, rel=0.05)


@pytest.mark.gpu
def test_workspace_is_what_plan_says(device):
    """Splits and repacks take exactly the planned bytes from the caching allocator."""
    for m, n, k in [(4095, 4095, 4095), (64, 64, 65536), (512, 512, 512)]:
        a = torch.randn(m, k, device=device).bfloat16()
        b = torch.randn(k, n, device=device).bfloat16()
        out = torch.empty(m, n, device=device, dtype=torch.bfloat16)
        plan = vitamin_hgemm.plan(m, n, k, device=device)
        vitamin_hgemm.hgemm(a, b, out=out)
        _, taken = measure_memory(functools.partial(vitamin_hgemm.hgemm, a, b, out=out))
        assert taken == plan.workspace_bytes, (m, n, k)
