"""Cases that went wrong in other libraries, each with the rest of its kind.

On the CPU and on the GPU, there by every kernel that takes the case. Cases 7, 8 and 10 are in
gpu/test_cases_large.py, case 16 in gpu/test_graphs.py.
"""

import functools
import itertools
import math
import random

import pytest
import torch
from calls import (
    LAYOUTS,
    Failures,
    call,
    choosers,
    kernel_names,
    layout_of,
    measure_memory,
    padded,
    padded_pairs,
)
from reference import Guarded, assert_close, nan_filled_empty, operand


def new(*shape, dtype, device):
    return torch.randn(*shape, dtype=dtype, device=device)


def test_case_01_no_terms(any_device, dtype):
    """K = 0: zeros, or the bias, in place of whatever `out` held."""
    for batch, m, n in [((10,), 1, 43200), ((), 1, 1), ((), 300, 17), ((3, 2), 7, 130)]:
        a = new(*batch, m, 0, dtype=dtype, device=any_device)
        b = new(*batch, 0, n, dtype=dtype, device=any_device)
        bias = new(n, dtype=dtype, device=any_device)
        for name in choosers(any_device):
            out = new(*batch, m, n, dtype=dtype, device=any_device)
            call(name, a, b, out)
            assert out.eq(0).all(), name
            call(name, a, b, out, bias=bias, activation="relu")
            assert torch.equal(out, bias.relu().expand_as(out)), name


def test_case_02_odd_everything(any_device, dtype):
    with Failures() as failures:
        odd = [tuple(2 * random.randrange(70) + 1 for _ in range(3)) for _ in range(6)]
        for m, n, k in [(2, 4, 3), (1, 705, 705), (705, 1, 705), (705, 705, 1), *odd]:
            for layout in LAYOUTS:
                a = operand(m, k, dtype, any_device, layout=layout[0])
                b = operand(k, n, dtype, any_device, layout=layout[1])
                failures.check_all(a, b)


def test_case_03_odd_row_pitch(any_device, dtype):
    """One operand or both in rows of 65 and other odd pitches, stored either way."""
    with Failures() as failures:
        for pad_a, pad_b, layout in itertools.product((0, 1, 13), (0, 1, 57), LAYOUTS):
            a = operand(64, 64, dtype, any_device, layout=layout[0], pad=pad_a)
            b = operand(64, 64, dtype, any_device, layout=layout[1], pad=pad_b)
            failures.check_all(a, b)


def test_case_04_column_major_times_wide_pitch(any_device, dtype):
    with Failures() as failures:
        widths = (7920, 7913, 64) if any_device.type == "cuda" else (64, 63)
        a = operand(1024, 2048, dtype, any_device, layout="t")
        base = new(2048, 7920, dtype=dtype, device=any_device)
        assert a.stride() == (1, 1024) and base.stride() == (7920, 1)
        for n in widths:
            failures.check_all(a, base[:, :n])


def test_case_05_base_aligned_less_than_the_rows(any_device, dtype):
    """Bases of every alignment below 16 bytes, with rows that are multiples of 16."""
    with Failures() as failures:
        for at_a, at_b, layout in itertools.product((0, 8, 2), (0, 8, 4, 2), LAYOUTS):
            a = operand(128, 64, dtype, any_device, layout=layout[0], offset=at_a)
            b = operand(64, 72, dtype, any_device, layout=layout[1], offset=at_b)
            failures.check_all(a, b)


def test_case_06_tall_and_narrow_with_bias(any_device, dtype):
    with Failures() as failures:
        for m, n, k in [(655360, 10, 10), (100003, 3, 1), (10, 100003, 10)]:
            a, b = operand(m, k, dtype, any_device), operand(k, n, dtype, any_device)
            failures.check_all(a, b, bias=new(n, dtype=dtype, device=any_device))


def test_case_09_broadcast_batch(any_device, dtype):
    rows, columns = (128, 1152) if any_device.type == "cuda" else (8, 72)
    with Failures() as failures:
        a = new(rows, columns, 1, 8, dtype=dtype, device=any_device)
        b = new(columns, 8, 160, dtype=dtype, device=any_device)
        failures.check("auto", a, b)
        failures.check("auto", b.mT, a.mT)
        failures.check_all(a[:3, :5], b[:5])


def test_case_11_padding_of_k_makes_no_nan(any_device, dtype):
    """Infinities beside the padding of K and of the tile, for each K of a k-tile and beyond."""
    a = torch.tensor([[math.inf, 0, -math.inf]], dtype=dtype, device=any_device)
    b = torch.tensor([[0.7891], [0.2041], [-0.1982]], dtype=dtype, device=any_device)
    with Failures() as failures:
        failures.check_all(a, b)
        assert torch.ops.vitamin.hgemm(a, b).item() == math.inf
        for k in (*range(1, 34), *random.sample(range(34, 130), 12)):
            a = operand(20, k, dtype, any_device, pad=-k % 8)
            b = operand(k, 24, dtype, any_device)
            a[:, -1] = math.inf
            b[-1, ::2] = -math.inf
            failures.check_all(a, b)
            failures.check_all(b.mT, a.mT)
            failures.check_all(a, padded(k, 24, dtype, any_device, "t", values=b))


def test_case_12_nothing_of_an_old_output_shows(any_device, dtype):
    """NaN in `out` is overwritten, and an output that is allocated comes complete."""
    with Failures() as failures:
        for m, n, k in [(5, 7, 3), (65, 33, 0), (130, 129, 70), (1, 300, 20), (16, 24, 3000)]:
            a, b = operand(m, k, dtype, any_device), operand(k, n, dtype, any_device)
            failures.check_all(a, b)
            pairs = padded_pairs(m, n, k, dtype, any_device)
            for name in kernel_names(any_device):
                a, b = pairs[layout_of(name)]
                with nan_filled_empty():
                    assert torch.empty(1, dtype=dtype, device=any_device).isnan()
                    try:
                        out = torch.ops.vitamin.hgemm(a, b, kernel=name)
                    except RuntimeError:
                        assert name not in choosers(any_device), name
                        continue
                assert not out.isnan().any(), name


def test_case_13_integers_are_exact(any_device, dtype):
    shapes = [(8, 12288, 8192), (8, 16384, 16384), (129, 65, 4097)]
    if any_device.type == "cpu":
        shapes = [(8, 1228, 8192), (8, 164, 16384), (129, 65, 4097)]
    for m, n, k in shapes:
        a = torch.randint(-3, 4, (m, k), device=any_device).to(dtype)
        b = torch.randint(-3, 4, (n, k), device=any_device).to(dtype)
        exact = a.float() @ b.float().t()
        for name in choosers(any_device):
            for b_kn in (b.t(), b.t().contiguous()):
                wide = torch.ops.vitamin.hgemm(a, b_kn, kernel=name, out_dtype=torch.float32)
                assert torch.equal(wide, exact), name
                assert torch.equal(torch.ops.vitamin.hgemm(a, b_kn, kernel=name), exact.to(dtype))


def test_case_14_column_major_at_every_stage_count(any_device, dtype):
    """K and N that end within a tile, by every kernel there is."""
    with Failures() as failures:
        for (m, n, k), layout in itertools.product(
            [(504, 104, 100), (504, 136, 249), (504, 137, 248)], LAYOUTS
        ):
            for pad in (0, 8, 7):
                a = operand(m, k, dtype, any_device, layout=layout[0], pad=pad)
                b = operand(k, n, dtype, any_device, layout=layout[1], pad=pad)
                failures.check_all(a, b)


def test_case_15_degenerate_strides(any_device, dtype):
    """Extents of 1 with any stride, stride 0, and a stride of 1 that is not the contiguous one."""

    def make(*shape):
        return new(*shape, dtype=dtype, device=any_device)

    with Failures() as failures:
        for a, b in [
            (make(2, 1).t(), make(2, 32)),
            (make(1, 2), make(2, 1).expand(2, 2)),
            (make(40, 1).expand(40, 24), make(24, 9)),
            (make(1, 24).expand(40, 24), make(24, 1).expand(24, 9)),
            (make(300).as_strided((1, 24), (1, 7)), make(24, 9)),
            (make(300).as_strided((24, 1), (7, 1)), make(1, 9)),
            (make(300).as_strided((1, 1), (1, 1)), make(300).as_strided((1, 17), (1, 3))),
            (make(9, 24), make(300).as_strided((24, 1), (1, 1))),
            (make(9, 24), make(300).as_strided((24, 1), (3, 1))),
            (make(300).as_strided((9, 24), (1, 1)), make(300).as_strided((24, 17), (1, 1))),
            (make(300).as_strided((5, 9, 24), (3, 1, 1)), make(24, 9)),
            (make(1, 9, 24).expand(6, 9, 24), make(6, 24, 9)),
        ]:
            failures.check_all(a, b)


@pytest.mark.gpu
def test_case_15_overlapping_views_are_not_materialised(device, dtype):
    """Sliding windows and broadcast batches: no scratch of the size that the view spells out."""
    for batch, rows, k, n in [(512, 1024, 256, 8), (64, 1024, 512, 1024)]:
        shape = (batch, rows, k)
        windows = new(2**17, dtype=dtype, device=device).as_strided(shape, (64, 1, 1))
        repeated = new(1, rows, k, dtype=dtype, device=device).expand(shape)
        transposed = new(1, k, rows, dtype=dtype, device=device).mT.expand(shape)
        b = new(k, n, dtype=dtype, device=device)
        out = torch.empty(batch, rows, n, dtype=dtype, device=device)
        for a in (windows, repeated, transposed):
            run = functools.partial(torch.ops.vitamin.hgemm.out, a, b, out=out)
            _, extra = measure_memory(run, device)
            assert extra < 2 * a.numel() // 16, f"{shape}/{a.stride()}: {extra} bytes of scratch"
            assert_close(out, a, b)


def test_case_17_transposed_and_row_strided_out(any_device, dtype):
    with Failures() as failures:
        for m, n, k in [(64, 64, 64), (33, 70, 40), (1, 9, 8), (130, 129, 65)]:
            pairs = padded_pairs(m, n, k, dtype, any_device)
            for strides in [(1, m), (1, m + 5), (n + 3, 1), (2 * n, 2), (n, 1)]:
                for name in kernel_names(any_device):
                    a, b = pairs[layout_of(name)]
                    guarded = Guarded((m, n), dtype, any_device, strides=strides)
                    failures.check(name, a, b, out=guarded.view)
                    guarded.assert_around_untouched(name)


def test_case_18_strided_five_dimensions(any_device, dtype):
    """What torch.compile's padding of matrix products makes of a 5-D input."""
    base = new(4 * 6400, dtype=dtype, device=any_device)
    a = base.as_strided((2, 4, 7, 7, 32), (6400, 1600, 224, 32, 1))
    with Failures() as failures:
        for n in (96, 33):
            failures.check_all(a, new(32, n, dtype=dtype, device=any_device))
            failures.check_all(a, operand(32, n, dtype, any_device, layout="t"))
            failures.check_all(a, new(4, 1, 32, n, dtype=dtype, device=any_device))
            failures.check_all(a.transpose(1, 3), new(32, n, dtype=dtype, device=any_device))


def test_case_19_numerics(any_device, dtype):
    """No sum is rounded on the way, however K is cut: where torch.matmul itself rounds."""
    large = any_device.type == "cuda"
    with Failures() as failures:
        for m, n, k, layout, pad in [
            (546, 9728 if large else 97, 2560, "tn", 0),
            (1483, 1387 if large else 138, 9, "nn", 1),
            (1483, 1387 if large else 138, 9, "tt", 2),
            (16, 24, 116, "nt", 0),
            (8, 24, 1544, "nn", 0),
            (48, 40, 65536, "tn", 0),
            (5, 7, 300001, "nt", 0),
        ]:
            a = operand(m, k, dtype, any_device, layout=layout[0], pad=pad)
            b = operand(k, n, dtype, any_device, layout=layout[1], pad=pad)
            failures.check_all(a, b)
            failures.check("auto", a, b, out_dtype=torch.float32)


def test_case_19_cancellation(any_device, dtype):
    """Large terms that cancel exactly leave the small ones, if sums are kept in fp32."""
    k = 4096
    a = operand(70, 2 * k, dtype, any_device)
    b = operand(2 * k, 40, dtype, any_device)
    a[:, k:] = a[:, :k]
    b[k:] = -b[:k]
    a[:, -1] += 1
    with Failures() as failures:
        failures.check_all(a, b)


def test_case_20_writes_stay_within_out(any_device, dtype):
    """`out` 2, 6 and 14 bytes past alignment, and in padded rows."""
    with Failures() as failures:
        for m, n, k in [(64, 64, 64), (63, 61, 33), (1, 1, 1), (130, 257, 40), (16, 24, 3000)]:
            pairs = padded_pairs(m, n, k, dtype, any_device)
            bias = new(n, dtype=dtype, device=any_device)
            for offset, pad in itertools.product((0, 2, 6, 14), (0, 1, 4, 8)):
                for name in kernel_names(any_device):
                    a, b = pairs[layout_of(name)]
                    guarded = Guarded((m, n), dtype, any_device, offset=offset, pad=pad)
                    failures.check(name, a, b, out=guarded.view, bias=bias)
                    guarded.assert_around_untouched(f"{name} at {offset} bytes, pad {pad}")
