"""How a product is timed: candidates side by side, on inputs that no cache still holds.

On a GPU a candidate is one CUDA graph of several calls that walk through enough input sets to
exceed twice the L2. The graphs of all candidates are replayed in turn, sample by sample, so that
clocks and temperature are the same for all; the figure is the median of the samples. The output of
the very graph that is timed is checked: it is filled with NaN, the graph replayed, and the result
of its last call compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from benchmarks.check import errors
from benchmarks.shapes import Shape

Product = Callable[..., object]  # called as product(a, b, out=out)

SAMPLE_SECONDS = 1e-3  # work in one sample, where a call is shorter than that
MAX_CALLS = 64  # calls in one graph
MAX_SETS = 24
HOT_SECONDS = 3.0  # at the power cap before the hot samples
HOT_BURST_SECONDS = 0.25
COLD_ROUNDS = 11
HOT_ROUNDS = 5


@dataclass
class Sample:
    """One candidate's figure: microseconds a call, and its largest error over the bound."""

    us: float
    error: float


def make_inputs(shape: Shape, dtype: torch.dtype, device: torch.device) -> tuple:
    """Random normal a and b of the shape's layout, row pitch = extent."""
    batch = (shape.batch,) if shape.batch else ()

    def operand(rows: int, cols: int, stored: str) -> torch.Tensor:
        if stored == "n":
            return torch.randn(*batch, rows, cols, device=device, dtype=dtype)
        return torch.randn(*batch, cols, rows, device=device, dtype=dtype).transpose(-1, -2)

    return operand(shape.m, shape.k, shape.layout[0]), operand(shape.k, shape.n, shape.layout[1])


def make_output(shape: Shape, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    batch = (shape.batch,) if shape.batch else ()
    return torch.empty(*batch, shape.m, shape.n, device=device, dtype=dtype)


def plan_sample(shape: Shape, l2_bytes: float) -> tuple[int, int]:
    """Calls in one sample and input sets that they rotate through."""
    estimate = max(shape.flops / 500e12, shape.bytes / 3e12, 4e-6)  # seconds, of a fast kernel
    sets = max(1, min(MAX_SETS, int(2 * l2_bytes / shape.bytes) + 1))
    calls = max(1, min(MAX_CALLS, int(SAMPLE_SECONDS / estimate)))
    if estimate < 2e-4:
        calls = max(calls, sets)
    return calls, min(sets, calls)


class GpuRace:
    """The candidates of one problem on one GPU, captured and ready to be timed.

    Those that refuse the problem stand in `refused`, with the reason.
    """

    def __init__(self, shape: Shape, dtype: torch.dtype, device: torch.device, products: dict):
        l2_bytes = torch.cuda.get_device_properties(device).L2_cache_size
        self.device = device
        self.calls, sets = plan_sample(shape, l2_bytes)
        self.inputs = [make_inputs(shape, dtype, device) for _ in range(sets)]
        self.outs: dict[str, torch.Tensor] = {}
        self.graphs: dict[str, torch.cuda.CUDAGraph] = {}
        self.refused: dict[str, str] = {}
        for name, product in products.items():
            out = make_output(shape, dtype, device)
            try:
                product(*self.inputs[0], out=out)
            except torch.AcceleratorError:
                raise  # the GPU's state is lost: no refusal, and nothing after it would count
            except RuntimeError as refusal:
                self.refused[name] = str(refusal).splitlines()[0]
                continue
            self.outs[name] = out
            self.graphs[name] = self._capture(product, out)

    def _capture(self, product: Product, out: torch.Tensor) -> torch.cuda.CUDAGraph:
        for a, b in self.inputs:
            product(a, b, out=out)
        torch.cuda.synchronize(self.device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for i in range(self.calls):
                product(*self.inputs[i % len(self.inputs)], out=out)
        return graph

    def _replay_ms(self, graph: torch.cuda.CUDAGraph, replays: int) -> float:
        start = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    def _rounds(self, rounds: int, replays: dict[str, int]) -> dict[str, float]:
        samples: dict[str, list[float]] = {name: [] for name in self.graphs}
        for _ in range(rounds):
            for name, graph in self.graphs.items():
                ms = self._replay_ms(graph, replays[name])
                samples[name].append(ms * 1e3 / (replays[name] * self.calls))
        return {name: statistics.median(values) for name, values in samples.items()}

    def check(self) -> dict[str, float]:
        """Largest error over the bound of what each graph's last call leaves in its output."""
        for name, graph in self.graphs.items():
            self.outs[name].fill_(float("nan"))
            graph.replay()
        a, b = self.inputs[(self.calls - 1) % len(self.inputs)]
        return dict(zip(self.outs, errors(a, b, list(self.outs.values())), strict=True))

    def cold(self, rounds: int = COLD_ROUNDS) -> dict[str, float]:
        """Microseconds a call in short bursts, before the chip meets its power limit."""
        for graph in self.graphs.values():
            graph.replay()
            graph.replay()
        return self._rounds(rounds, dict.fromkeys(self.graphs, 1))

    def hot(self) -> dict[str, float]:
        """Microseconds a call in bursts of 0.25 s, after all candidates ran for 3 s."""
        replays = {}
        for name, graph in self.graphs.items():
            replays[name] = max(1, int(HOT_BURST_SECONDS * 1e3 / self._replay_ms(graph, 1)))
        start = time.perf_counter()
        while time.perf_counter() - start < HOT_SECONDS:
            for name, graph in self.graphs.items():
                self._replay_ms(graph, replays[name])
        return self._rounds(HOT_ROUNDS, replays)

    def keep_busy(self, name: str | None = None) -> None:
        """Runs a candidate (default: the last) for a moment, to read the clocks under its load."""
        self._replay_ms(self.graphs[name] if name else list(self.graphs.values())[-1], 4)


def time_cpu(shape: Shape, dtype: torch.dtype, products: dict, rounds: int) -> dict[str, Sample]:
    """The products on the CPU, alternated: median of single calls, outputs checked."""
    device = torch.device("cpu")
    a, b = make_inputs(shape, dtype, device)
    outs = {name: make_output(shape, dtype, device).fill_(float("nan")) for name in products}
    samples: dict[str, list[float]] = {name: [] for name in products}
    for _ in range(rounds + 1):
        for name, product in products.items():
            start = time.perf_counter()
            product(a, b, out=outs[name])
            samples[name].append((time.perf_counter() - start) * 1e6)
    worst = errors(a, b, list(outs.values()))
    return {
        name: Sample(statistics.median(samples[name][1:]), error)
        for name, error in zip(products, worst, strict=True)
    }
