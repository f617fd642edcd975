"""Sizes and strides to kernel problems, on the host: every address of random views is followed."""

import ctypes
import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

SOURCE = Path(__file__).with_name("shapes_library.cpp")
CSRC = SOURCE.parents[2] / "csrc"
ROW, COL, STRIDED = range(3)
EXAMPLES = settings(max_examples=300, deadline=None)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = next(
        filter(None, map(shutil.which, (os.environ.get("CXX", ""), "c++", "g++"))), None
    )
    if compiler is None:
        pytest.skip("no C++ compiler")
    path = tmp_path_factory.mktemp("host") / "shapes.so"
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-I{CSRC}"]
    sources = [SOURCE, CSRC / "dispatch" / "shapes.cpp"]
    subprocess.run([compiler, *flags, *sources, "-o", path], check=True)
    return ctypes.CDLL(str(path))


def numbers(values):
    return (ctypes.c_int64 * max(1, len(values)))(*values)


def dims_of(tensor):
    return numbers([tensor.dim(), *tensor.shape, *tensor.stride()])


class Problem:
    """What build_problem made of three tensors; addresses count in elements of each."""

    def __init__(self, library, a, b, c, address=1 << 20):
        result = (ctypes.c_int64 * 400)()
        places = []
        for tensor in (a, b, c):
            places += [address + tensor.storage_offset() * tensor.itemsize, tensor.itemsize]
        count = library.build(dims_of(a), dims_of(b), dims_of(c), numbers(places), result)
        assert count > 0
        values = iter(result[:count])
        take = lambda n: tuple(itertools.islice(values, n))  # noqa: E731
        self.m, self.n, self.k = take(3)
        self.a, self.b, self.c = take(4), take(4), take(4)
        self.batch_dims, self.outer_dims = take(2)
        self.dims = [take(4) for _ in range(self.batch_dims + self.outer_dims)]

    def products(self):
        """Address of each result element: those of its row of a and its column of b."""
        found = {}
        for index in itertools.product(*(range(size) for size, *_ in self.dims)):
            a, b, c = (
                sum(i * d[w] for i, d in zip(index, self.dims, strict=True)) for w in (1, 2, 3)
            )
            for i, j in itertools.product(range(self.m), range(self.n)):
                at = c + i * self.c[0] + j * self.c[1]
                row = tuple(a + i * self.a[0] + p * self.a[1] for p in range(self.k))
                column = tuple(b + p * self.b[0] + j * self.b[1] for p in range(self.k))
                assert at not in found
                found[at] = (row, column)
        return found


def addresses(tensor):
    """The offset of every element from the first, in the tensor's shape."""
    total = torch.zeros(tensor.shape, dtype=torch.int64)
    for dim, stride in enumerate(tensor.stride()):
        steps = torch.arange(tensor.shape[dim]) * stride
        total += steps.reshape([-1] + [1] * (tensor.dim() - dim - 1))
    return total


def wanted_products(a, b, c):
    rows, columns = addresses(a), addresses(b)
    rows = rows[None] if a.dim() == 1 else rows
    columns = columns[:, None] if b.dim() == 1 else columns
    batch = torch.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
    m, n = rows.shape[-2], columns.shape[-1]
    rows = rows.expand(*batch, *rows.shape[-2:])
    columns = columns.expand(*batch, *columns.shape[-2:]).mT
    at = addresses(c).reshape(*batch, m, n)
    wanted = {}
    for index in itertools.product(*map(range, at.shape)):
        *outer, i, j = index
        row, column = rows[(*outer, i)], columns[(*outer, j)]
        wanted[at[index].item()] = (tuple(row.tolist()), tuple(column.tolist()))
    return wanted


@st.composite
def views(draw, shape, may_repeat=True):
    """A tensor of that shape: some order of dimensions, steps, gaps, an offset, repeats."""
    repeated = [may_repeat and size > 1 and draw(st.integers(0, 9)) == 0 for size in shape]
    own = [1 if repeats else size for size, repeats in zip(shape, repeated, strict=True)]
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 1, 2])) for _ in shape]
    gaps = [draw(st.sampled_from([0, 0, 0, 1, 8])) for _ in shape]
    stored = [own[dim] * steps[dim] + gaps[dim] for dim in order]
    offset = draw(st.sampled_from([0, 0, 1, 4, 8]))
    count = torch.Size(stored).numel()
    tensor = torch.empty(count + offset, dtype=torch.float16)[offset:].reshape(stored)
    tensor = tensor.permute([order.index(dim) for dim in range(len(shape))])
    for dim, size in enumerate(own):
        tensor = tensor.narrow(dim, 0, size * steps[dim])
        tensor = tensor[(slice(None),) * dim + (slice(None, None, steps[dim]),)]
    return tensor.expand(shape)


@st.composite
def operands(draw):
    m, n, k = (draw(st.integers(1, 4)) for _ in range(3))
    batch = draw(st.lists(st.integers(1, 3), max_size=6))
    a_shape, b_shape = (
        [size if draw(st.booleans()) else 1 for size in batch[draw(st.integers(0, len(batch))) :]]
        for _ in "ab"
    )
    a_shape, b_shape = [*a_shape, m, k], [*b_shape, k, n]
    if draw(st.integers(0, 7)) == 0:
        a_shape = [k]
    if draw(st.integers(0, 7)) == 0:
        b_shape = [k]
    a, b = draw(views(a_shape)), draw(views(b_shape))
    c_shape = torch.matmul(torch.empty(a_shape), torch.empty(b_shape)).shape
    return a, b, draw(views(list(c_shape), may_repeat=False))


@EXAMPLES
@given(operands())
def test_every_product_is_at_its_place(library, tensors):
    problem = Problem(library, *tensors)
    assert problem.products() == wanted_products(*tensors)
    assert problem.batch_dims <= 4


@EXAMPLES
@given(operands())
def test_layout_and_alignment_are_true(library, tensors):
    problem = Problem(library, *tensors)
    extents = ((problem.m, problem.k), (problem.k, problem.n), (problem.m, problem.n))
    matrices = (problem.a, problem.b, problem.c)
    for which, (tensor, matrix, extent) in enumerate(zip(tensors, matrices, extents, strict=True)):
        row_stride, col_stride, layout, align = matrix
        if layout == ROW:
            assert col_stride == 1
        if layout == COL:
            assert row_stride == 1
        if layout == STRIDED:
            assert min(extent) > 1 and row_stride != 1 and col_stride != 1
        walked = [tensor.storage_offset()]
        walked += [d[1 + which] for d in problem.dims]
        walked += [row_stride] if layout != COL and extent[0] > 1 else []
        walked += [col_stride] if layout != ROW and extent[1] > 1 else []
        common = 16
        while any(step * tensor.itemsize % common for step in walked):
            common //= 2
        assert align == common


@pytest.mark.parametrize(
    ("a", "layout"),
    [
        (torch.empty(2, 1).t(), ROW),  # [1, 2] with strides (1, 1)
        (torch.empty(1, 8), ROW),
        (torch.empty(8, 1), COL),  # one column: its rows are what is contiguous
        (torch.empty(8, 1).as_strided((8, 1), (1, 7)), COL),
        (torch.empty(64).as_strided((1, 8), (1, 3)), COL),  # nothing is contiguous: no matter
        (torch.empty(64).as_strided((8, 1), (3, 1)), ROW),
        (torch.empty(64).as_strided((4, 4), (1, 1)), ROW),  # rows that overlap
        (torch.empty(64).as_strided((4, 4), (0, 1)), ROW),
        (torch.empty(64).as_strided((4, 4), (0, 0)), STRIDED),
        (torch.empty(64).as_strided((4, 4), (8, 2)), STRIDED),
        (torch.empty(1, 1), ROW),
    ],
)
def test_the_useful_index_is_the_contiguous_one(library, a, layout):
    b = torch.empty(a.shape[1], 3)
    c = torch.empty(a.shape[0], 3)
    assert Problem(library, a, b, c).a[2] == layout


def test_unused_leading_dimensions_are_aligned_ones(library):
    a, b = torch.empty(1, 5, dtype=torch.float16), torch.empty(5, 1, dtype=torch.float16)
    problem = Problem(library, a, b, torch.empty(1, 1, dtype=torch.float16))
    assert problem.a == (8, 1, ROW, 16)
    assert problem.b == (1, 8, COL, 16)


def test_rows_of_all_batches_become_one_matrix(library):
    a, b = torch.empty(5, 6, 7, 16), torch.empty(16, 8)
    problem = Problem(library, a, b, torch.empty(5, 6, 7, 8))
    assert (problem.m, problem.dims) == (5 * 6 * 7, [])
    padded = torch.empty(5, 6, 9, 16)[:, :, :7]
    problem = Problem(library, padded, b, torch.empty(5, 6, 7, 8))
    assert (problem.m, problem.dims) == (7, [(30, 9 * 16, 0, 7 * 8)])


def test_batches_that_dont_fit_are_left_to_the_host(library):
    sizes = [2, 3, 2, 3, 2, 3]
    a = torch.empty(*[size + 1 for size in sizes], 4, 5)[(*[slice(0, size) for size in sizes],)]
    b = torch.empty(*sizes, 5, 6)
    problem = Problem(library, a, b, torch.empty(*sizes, 4, 6))
    assert (problem.batch_dims, problem.outer_dims) == (4, 2)
    assert [d[0] for d in problem.dims] == sizes


def bytes_of(tensor):
    starts = ((addresses(tensor) + tensor.storage_offset()) * tensor.itemsize).flatten().tolist()
    return {start + i for start in starts for i in range(tensor.itemsize)}


@EXAMPLES
@given(st.lists(st.integers(1, 3), min_size=1, max_size=3).flatmap(lambda s: views(list(s))))
def test_views_that_overlap_themselves_are_found(library, view):
    overlaps = len(bytes_of(view)) < view.numel() * view.itemsize
    assert bool(library.overlaps_itself(dims_of(view), view.itemsize)) == overlaps


def overlap(library, x, y):
    places = [ctypes.c_int64((1 << 20) + t.storage_offset() * t.itemsize) for t in (x, y)]
    sizes = [ctypes.c_int64(t.itemsize) for t in (x, y)]
    return bool(library.overlaps(dims_of(x), places[0], sizes[0], dims_of(y), places[1], sizes[1]))


@st.composite
def boxes(draw, base):
    """A view of `base` between two random corners."""
    corners = []
    for size in base.shape:
        start = draw(st.integers(0, size - 1))
        corners.append(slice(start, draw(st.integers(start + 1, size))))
    return base[tuple(corners)]


BASE = torch.empty(6, 8, 4, dtype=torch.float16)


@EXAMPLES
@given(boxes(BASE), boxes(BASE))
def test_views_that_share_bytes_are_found(library, x, y):
    assert overlap(library, x, y) == bool(bytes_of(x) & bytes_of(y))


@pytest.mark.parametrize(
    ("x", "y", "shared"),
    [
        (lambda t: t[:, :4], lambda t: t[:, 4:], False),  # columns of one buffer
        (lambda t: t[:, :5], lambda t: t[:, 4:], True),
        (lambda t: t[::2], lambda t: t[1::2], False),  # every other row
        (lambda t: t[:, ::2], lambda t: t[:, 1::2], False),
        (lambda t: t[:3], lambda t: t[3:], False),
        (lambda t: t, lambda t: t[2:3, 2:3], True),
        (lambda t: t[:, 0], lambda t: t[:, 1], False),
        (lambda t: t[:0], lambda t: t, False),
        (lambda t: t.t()[:4], lambda t: t[:, 4:], False),
    ],
)
def test_neighbours_in_one_buffer(library, x, y, shared):
    buffer = torch.empty(6, 8, dtype=torch.float16)
    x, y = x(buffer), y(buffer)
    assert overlap(library, x, y) == shared
    assert overlap(library, y, x) == shared
