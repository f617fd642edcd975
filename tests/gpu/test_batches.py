"""Batched products: strided, broadcast, uncollapsible, empty, and more than a grid axis takes."""

import itertools

import pytest
import torch
from calls import LAYOUTS, Failures, batched, choosers, kernel_names, need_memory
from reference import assert_close, operand


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_kernel(device, dtype, layout):
    with Failures() as failures:
        for batch, m, n, k in [
            ((3,), 130, 136, 72),
            ((2, 3), 64, 64, 64),
            ((5,), 33, 65, 17),
            ((1,), 70, 40, 24),
            ((4,), 1, 64, 128),
            ((2,), 24, 16, 5000),
            ((2, 1, 3), 9, 7, 5),
        ]:
            for pad in (0, 5):
                a = operand(m, k, dtype, device, layout=layout[0], batch=batch, pad=pad)
                b = operand(k, n, dtype, device, layout=layout[1], batch=batch, pad=pad)
                bias = torch.randn(n, dtype=dtype, device=device)
                failures.check_all(a, b)
                failures.check_all(a, b, bias=bias, activation="silu")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_broadcasting(device, dtype, layout):
    pairs = [
        ((), (3,)),
        ((3,), ()),
        ((1,), (4,)),
        ((2, 1), (1, 3)),
        ((2, 3), (3,)),
        ((5, 1, 2), (3, 1)),
    ]
    with Failures() as failures:
        for (a_batch, b_batch), (m, n, k) in itertools.product(pairs, [(40, 72, 64), (7, 5, 9)]):
            a = operand(m, k, dtype, device, layout=layout[0], batch=a_batch)
            b = operand(k, n, dtype, device, layout=layout[1], batch=b_batch)
            failures.check_all(a, b)


def test_batch_dimensions_that_do_not_collapse(device, dtype):
    """Five batch dimensions, permuted, stepped, sliced, expanded, and exchanged with the rows."""
    x = torch.randn(4, 6, 3, 5, 2, 24, 40, dtype=dtype, device=device)
    y = torch.randn(4, 6, 3, 5, 2, 40, 16, dtype=dtype, device=device)
    order = (4, 2, 0, 3, 1, 5, 6)
    with Failures() as failures:
        for a, b in [
            (x.permute(order), y.permute(order)),
            (x.permute(order), y.permute(order).contiguous()),
            (x[::2, ::3], y[1::2, ::3]),
            (x[:, :, :, :, 1], y[:, :, :, :, 0]),
            (x[:1].expand_as(x), y),
            (x[:, :, :1].expand_as(x), y[:, :1].expand_as(y)),
            (x.transpose(0, -2), y[0]),
            (x.transpose(1, -1), y[:, :1, :, :, :, :6]),
        ]:
            for name in choosers():
                failures.check(name, a, b)
            shape = (*torch.broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
            out = torch.empty(*reversed(shape), dtype=dtype, device=device).permute(
                *reversed(range(len(shape)))
            )
            failures.check("auto", a, b, out=out)


def test_vectors(device, dtype):
    """1-D operands are a row and a column, as in torch.matmul."""
    x, y = (torch.randn(n, dtype=dtype, device=device) for n in (72, 130))
    rows = torch.randn(3, 130, 72, dtype=dtype, device=device)
    for name in choosers():
        for a, b in [(x, x), (rows[0], x), (x, rows[1].t()), (rows, x), (y, rows), (x, rows.mT)]:
            out = torch.ops.vitamin.hgemm(a, b, kernel=name)
            assert out.shape == torch.matmul(a, b).shape
            assert_close(out, a, b, what=f"{name} {tuple(a.shape)} @ {tuple(b.shape)}")


def test_empty_batches(device, dtype):
    for a_shape, b_shape in [
        ((0, 4, 5), (0, 5, 6)),
        ((0, 4, 5), (5, 6)),
        ((3, 0, 4, 5), (1, 5, 6)),
    ]:
        a = torch.randn(a_shape, dtype=dtype, device=device)
        b = torch.randn(b_shape, dtype=dtype, device=device)
        assert torch.ops.vitamin.hgemm(a, b).shape == torch.matmul(a, b).shape


def test_more_than_65535(device, dtype):
    """Contiguous, transposed and broadcast batches, and as a product of dimensions."""
    need_memory(8)
    with Failures() as failures:
        for a_batch, b_batch, m, n, k in [
            ((65536,), (65536,), 8, 64, 8),
            ((70001,), (), 3, 5, 7),
            ((), (70001,), 5, 3, 70),
            ((300, 1), (1, 301), 4, 9, 16),
            ((2, 40000), (40000,), 1, 8, 8),
        ]:
            for layout in ("nn", "tt"):
                a = operand(m, k, dtype, device, layout=layout[0], batch=a_batch)
                b = operand(k, n, dtype, device, layout=layout[1], batch=b_batch)
                for name in kernel_names():
                    if batched(name):
                        failures.check(name, a, b)
