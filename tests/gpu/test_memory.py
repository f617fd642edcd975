"""Device memory: workspace of the stated size from the caching allocator, and nothing else."""

import gc
import random

import pytest
import torch
from calls import choosers, duty, kernel_names, measure_memory
from reference import operand

import vitamin_hgemm

SPLIT_K = [(16, 24, 16384), (3, 4096, 4096), (64, 64, 65536), (128, 130, 8191)]
OTHERS = [(64, 64, 64), (255, 257, 259), (1024, 1024, 1024), (1023, 1025, 1027), (4095, 4095, 512)]


def run_and_measure(a, b, **options):
    """hgemm, or hgemm.out if `out` is given: the result, and the most bytes that it requested."""
    run = torch.ops.vitamin.hgemm.out if "out" in options else torch.ops.vitamin.hgemm
    run(a, b, **options)  # torch allocates cuBLAS's own workspace once
    return measure_memory(lambda: run(a, b, **options))


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_workspace_is_what_plan_says(device, dtype, layout):
    wrong, with_workspace = [], 0
    for m, n, k in SPLIT_K + OTHERS:
        a = operand(m, k, dtype, device, layout=layout[0])
        b = operand(k, n, dtype, device, layout=layout[1])
        out = torch.empty(m, n, dtype=dtype, device=device)
        for name in kernel_names():
            if not duty(name, a, b):
                continue
            plan = vitamin_hgemm.plan(m, n, k, dtype=dtype, layout=layout, kernel=name)
            with_workspace += plan.workspace_bytes > 0
            _, used = run_and_measure(a, b, kernel=name, out=out)
            if used != plan.workspace_bytes:
                wrong.append(f"{name} {(m, n, k)}: {used} bytes, not {plan.workspace_bytes}")
    assert not wrong, "\n".join(wrong)
    assert with_workspace


def test_functional_form_allocates_its_result(device, dtype):
    for m, n, k in SPLIT_K + OTHERS:
        a, b = operand(m, k, dtype, device), operand(k, n, dtype, device)
        plan = vitamin_hgemm.plan(m, n, k, dtype=dtype)
        out, used = run_and_measure(a, b)
        planned = out.numel() * out.itemsize + plan.workspace_bytes
        assert used == planned, f"{(m, n, k)}: {used} bytes, not {planned}"


def random_products(count, dtype, device):
    for _ in range(count):
        m, n, k = (int(2 ** random.uniform(0, 11)) for _ in range(3))
        layout = random.choice("nt"), random.choice("nt")
        a = operand(m, k, dtype, device, layout=layout[0], offset=random.choice((0, 2, 8)))
        b = operand(k, n, dtype, device, layout=layout[1], pad=random.choice((0, 1, 8)))
        for name in choosers():
            torch.ops.vitamin.hgemm(a, b, kernel=name)
            torch.ops.vitamin.hgemm(a, b, kernel=name, out_dtype=torch.float32)


def settle():
    gc.collect()
    torch.cuda.synchronize()
    torch.cuda.empty_cache()


def test_nothing_is_held_outside_the_caching_allocator(device, dtype):
    """Free device memory is what it was, once code is loaded and the cache is emptied."""
    random_products(300, dtype, device)
    settle()
    free, _ = torch.cuda.mem_get_info(device)
    reserved = torch.cuda.memory_reserved(device)
    random_products(200, dtype, device)
    settle()
    held = free - torch.cuda.mem_get_info(device)[0]
    held -= torch.cuda.memory_reserved(device) - reserved
    assert held <= 2**22, f"{held} bytes of device memory are held outside the caching allocator"


def test_many_shapes_do_not_leak(device, dtype):
    settle()
    allocated = torch.cuda.memory_allocated(device)
    random_products(300, dtype, device)
    settle()
    assert torch.cuda.memory_allocated(device) == allocated


def test_refused_calls_do_not_leak(device, dtype):
    a = operand(64, 64, dtype, device)
    bad = operand(65, 64, dtype, device)
    settle()
    allocated = torch.cuda.memory_allocated(device)
    for _ in range(20):
        for options in ({}, {"kernel": "no such kernel"}, {"activation": "no such activation"}):
            with pytest.raises(RuntimeError):
                torch.ops.vitamin.hgemm(a, bad if not options else a, **options)
    settle()
    assert torch.cuda.memory_allocated(device) == allocated
