"""Cases 7, 8 and 10: more tiles, batches and elements than 16- or 31-bit counters hold."""

import torch
from calls import Failures, batched, choosers, kernel_names, need_memory
from reference import operand

BEYOND = 2**31 + 64


def huge(elements, dtype, device):
    """Random storage of more than 2³¹ elements, small enough in value for any fp16 sum."""
    return torch.empty(elements, dtype=dtype, device=device).uniform_(-1, 1)


def test_case_07_more_row_tiles_than_a_grid_axis(device, dtype):
    need_memory(8)
    with Failures() as failures:
        a, b = operand(8388353, 1, dtype, device), operand(1, 2, dtype, device)
        failures.check_all(a, b)
        failures.check_all(b.t(), a.t())
        a, b = operand(8388353, 8, dtype, device), operand(8, 8, dtype, device)
        failures.check_all(a, b)
        failures.check_all(b, operand(8, 8388360, dtype, device))


def test_case_08_batch_over_65535(device, dtype):
    need_memory(8)
    with Failures() as failures:
        a = operand(8, 64, dtype, device, batch=(65536,))
        b = operand(64, 8, dtype, device, batch=(65536,))
        for name in kernel_names():
            if batched(name):
                failures.check(name, a, b)
        for name in choosers():
            failures.check(name, a.mT, b.mT)
            failures.check(name, b, a)


def test_case_10_offset_over_2_31(device, dtype):
    """K = 1 in batches, leading dimensions and bases that lie beyond 2³¹ elements."""
    need_memory(24)
    base = huge(2 * BEYOND, dtype, device)
    with Failures() as failures:
        a = base.as_strided((3, 100, 1), (BEYOND // 2, 1, 1))
        b = base.as_strided((3, 1, 72), (2**30, 1, 1), BEYOND - 2**31)
        failures.check_all(a, b)
        failures.check_all(base[BEYOND:].as_strided((130, 64), (64, 1)), b[0].expand(64, 72))
        tall = base.as_strided((2, 64), (BEYOND, 1))
        failures.check_all(tall, operand(64, 72, dtype, device))
        failures.check_all(operand(72, 2, dtype, device), tall)
        failures.check_all(operand(72, 64, dtype, device), tall.t())
        out = base.as_strided((2, 64), (BEYOND, 1))
        failures.check(
            "auto", operand(2, 40, dtype, device), operand(40, 64, dtype, device), out=out
        )


def test_case_10_exactly_2_31_outputs(device, dtype):
    need_memory(40)
    for m, n in [(65536, 32768), (65536 + 8, 32768 + 24)]:
        with Failures() as failures:
            a, b = operand(m, 1, dtype, device), operand(1, n, dtype, device)
            failures.check("auto", a, b)


def test_case_10_operands_over_2_31(device, dtype):
    """M·K, K·N, and each of M, N and K alone."""
    need_memory(48)
    rows = 2**20 + 8
    with Failures() as failures:
        wide = huge(rows * 2056, dtype, device).view(rows, 2056)
        failures.check("auto", wide, operand(2056, 8, dtype, device))
        failures.check("auto", operand(8, 2056, dtype, device), wide.t())
        del wide
        line, other = huge(BEYOND, dtype, device), huge(BEYOND, dtype, device)
        failures.check("auto", line[None], other[:, None])
        del other
        failures.check("auto", line[:, None], operand(1, 1, dtype, device))
        failures.check("auto", operand(2, 1, dtype, device), line[None])
