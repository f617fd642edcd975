"""How tune() times the ways to run one problem: side by side, on inputs that no cache still holds.

A way is one CUDA graph of several calls of "auto" that walk through enough input sets to exceed
twice the L2. What the graph's last call writes is checked. The graphs are replayed in turn, so that
clocks and temperature are the same for all; the figure is the median of the samples.
"""

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch

from ._overrides import Way

ROUNDS = 11
CLOSE = 1.25  # times the best first sample: what the rounds can still bring to the front
SAMPLE_US = 1000  # work in one sample, where a call is shorter
MAX_CALLS = 64
MAX_SETS = 24
CHECKED_ELEMENTS = 1 << 26  # of the result, and of a, at once: bounds the memory of a check


@dataclass
class Outcome:
    """Microseconds a call of each way, and why those that are left out were."""

    us: dict[Way, float]
    failed: dict[Way, str]
    wrong: dict[Way, float]  # error over the bound


def race(course, ways: list[Way], force: Callable[[Way], object]) -> Outcome:
    """Times the ways on a Course, or on what stands for one; force(way) has "auto" take it.

    A way whose force() or capture() raises a RuntimeError is left out, one with wrong results too.
    """
    outcome = Outcome({}, {}, {})
    graphs = {}
    for way in ways:
        try:
            force(way)
            graph = course.capture()
        except torch.AcceleratorError:
            raise  # the GPU's state is lost
        except RuntimeError as error:
            outcome.failed[way] = str(error).splitlines()[0]
            continue
        error = course.error(graph)
        if error <= 1:
            graphs[way] = graph
        else:
            outcome.wrong[way] = error
    for graph in graphs.values():
        course.us(graph)
    outcome.us = {way: course.us(graph) for way, graph in graphs.items()}
    limit = CLOSE * min(outcome.us.values(), default=0)
    samples = {way: [] for way, us in outcome.us.items() if us <= limit}
    for _ in range(ROUNDS):
        for way, taken in samples.items():
            taken.append(course.us(graphs[way]))
    outcome.us |= {way: statistics.median(taken) for way, taken in samples.items()}
    return outcome


def _bound(ref, magnitude, k, dtype):
    """Largest |out - ref|: one rounding to dtype, and the noise of a float32 sum."""
    info = torch.finfo(dtype)
    rounding = 1.01 * info.eps / 2 * ref.abs() + info.smallest_normal * info.eps / 2
    return rounding + 16 * math.sqrt(max(k, 1)) * 2.0**-24 * magnitude


def worst_error(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> float:
    """Largest error of out [..., m, n] as a @ b, over its bound; NaN counts as infinite."""
    m, k = a.shape[-2:]
    step = max(1, CHECKED_ELEMENTS // max(1, max(out.numel(), a.numel()) // max(1, m)))
    b = b.float()
    worst = 0.0
    for start in range(0, m, step):
        part, got = a[..., start : start + step, :].float(), out[..., start : start + step, :]
        ref = part @ b
        limit = _bound(ref, part.abs() @ b.abs(), k, out.dtype)
        ratio = (got.float() - ref).abs() / limit
        worst = max(worst, ratio.nan_to_num(nan=math.inf).max().item())
    return worst


class Course:
    """One problem on one GPU. Tight rows; layout as in plan(); batch 1 means plain matrices."""

    def __init__(self, m, n, k, *, batch, layout, dtype, out_dtype, device, l2_bytes, predicted_us):
        self._device = device
        itemsize = 2 if out_dtype is None else 4
        bytes_a_call = batch * (2 * (m * k + k * n) + itemsize * m * n)
        sets = max(1, min(MAX_SETS, int(2 * l2_bytes / bytes_a_call) + 1))
        self.calls = max(1, min(MAX_CALLS, int(SAMPLE_US / max(predicted_us, 1.0))))
        if predicted_us < SAMPLE_US / 5:
            self.calls = max(self.calls, sets)
        generator = torch.Generator(device).manual_seed(0)  # the caller's stays as it is
        leading = (batch,) if batch > 1 else ()

        def operand(rows, cols, kind):
            stored = (rows, cols) if kind == "n" else (cols, rows)
            x = torch.randn(*leading, *stored, dtype=dtype, device=device, generator=generator)
            return x if kind == "n" else x.mT

        self.inputs = [
            (operand(m, k, layout[0]), operand(k, n, layout[1]))
            for _ in range(min(sets, self.calls))
        ]
        self._options = dict(out_dtype=out_dtype)
        self.out = torch.empty(*leading, m, n, dtype=out_dtype or dtype, device=device)
        self._pool = torch.cuda.graph_pool_handle()

    def _call(self, i):
        a, b = self.inputs[i % len(self.inputs)]
        torch.ops.vitamin.hgemm.out(a, b, out=self.out, **self._options)

    @torch.inference_mode()
    def capture(self) -> torch.cuda.CUDAGraph:
        """The calls as "auto" runs them now."""
        with torch.cuda.device(self._device), torch.autocast("cuda", enabled=False):
            for i in range(len(self.inputs)):
                self._call(i)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            # Their workspaces are free again at a capture's end: the graphs share them.
            with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
                for i in range(self.calls):
                    self._call(i)
            return graph

    @torch.inference_mode()
    def error(self, graph: torch.cuda.CUDAGraph) -> float:
        """Largest error over the bound of the last call's result."""
        with torch.cuda.device(self._device), torch.autocast("cuda", enabled=False):
            self.out.fill_(math.nan)
            graph.replay()
            return worst_error(*self.inputs[(self.calls - 1) % len(self.inputs)], self.out)

    def us(self, graph: torch.cuda.CUDAGraph) -> float:
        """Microseconds a call, of one replay."""
        with torch.cuda.device(self._device):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            return start.elapsed_time(end) * 1e3 / self.calls
