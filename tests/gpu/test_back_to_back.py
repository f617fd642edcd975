"""Kernels that start before the one before them on the stream has ended: whatever follows whatever,
a product reads what came before it, and overwrites nothing that is still being read."""

import itertools
import random

import pytest
import torch
from calls import HOPPER_KERNELS, kernels_here, most_k
from reference import INT_OF

STEPS = 48
RUNS = 20
WIDTHS = (8, 64, 72, 136, 200, 256, 512, 1000, 2048)
ODD_WIDTHS = (33, 65, 127, 257, 515)  # their rows are badly aligned: operands are copied first

hgemm = torch.ops.vitamin.hgemm


class Chain:
    """Products each of which reads the output of the one before and overwrites that one's input.

    Before every fifth one, a kernel of torch changes what it reads.
    """

    def __init__(self, rows, kernels, widths, dtype, device):
        steps = random.choices(widths, k=STEPS + 1)
        self.start = torch.randn(rows, steps[0], dtype=dtype, device=device)
        room = rows * max(steps)
        self.buffers = [torch.empty(room, dtype=dtype, device=device) for _ in range(2)]
        self.steps = []
        for k, n in itertools.pairwise(steps):
            weight = torch.randn(k, n, dtype=dtype, device=device) / k**0.5
            if random.random() < 0.5:
                weight = weight.t().contiguous().t()
            self.steps.append((weight, random.choice([x for x in kernels if most_k(x, k) == k])))

    def run(self, between=lambda: None):
        x = self.start
        for i, (weight, kernel) in enumerate(self.steps):
            rows, n = x.shape[0], weight.shape[1]
            out = self.buffers[i % 2][: rows * n].view(rows, n)
            if i % 5 == 4:
                x.neg_()
            hgemm.out(x, weight, kernel=kernel, out=out)
            between()
            x = out
        return x


def bits(x):
    return x.clone().view(INT_OF[x.dtype])


def check(chain):
    expected = bits(chain.run(between=torch.cuda.synchronize))
    results = [bits(chain.run()) for _ in range(RUNS)]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = chain.run()
    for _ in range(RUNS):
        graph.replay()
        results.append(bits(captured))
    torch.cuda.synchronize()
    assert all(torch.equal(result, expected) for result in results)


@pytest.mark.parametrize("rows", [1, 7, 16, 64, 130, 700])
def test_chosen_kernels(device, dtype, rows):
    check(Chain(rows, ["auto", "sm80"], WIDTHS + ODD_WIDTHS, dtype, device))


@pytest.mark.parametrize("rows", [5, 64, 300])
def test_hopper_kernels(device, dtype, rows):
    kernels = [name for name in HOPPER_KERNELS if name in kernels_here(device)]
    if not kernels:
        pytest.skip("GPU test: the CUDA device is not sm_90")
    for _ in range(2):
        check(Chain(rows, kernels, WIDTHS, dtype, device))
