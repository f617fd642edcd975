"""Case 16 and its kind: CUDA graphs, streams and threads."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from calls import Failures, duty, kernel_names, layout_of
from reference import assert_close, operand

import vitamin_hgemm

SPLIT_K = (16, 24, 16384)
SHAPES = [(128, 128, 128), SPLIT_K, (65, 67, 69), (300, 200, 1000), (1, 515, 4097)]

FIRST_CALL = """
import sys, threading
import torch
import vitamin_hgemm
sys.path[:0] = [{tests!r}]
from reference import assert_close

a, b = (torch.randn(72, 72, dtype=torch.float16, device="cuda") for _ in range(2))
{body}
torch.cuda.synchronize()
"""

ON_THE_AUTOGRAD_THREAD = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, grad):
        return torch.ops.vitamin.hgemm(a, b)

x = torch.ones(72, 72, dtype=torch.float16, device="cuda", requires_grad=True)
Square.apply(x).sum().backward()
assert_close(x.grad, a, b)
"""

IN_A_NEW_THREAD_AND_STREAM = """
done = []

def work():
    with torch.cuda.stream(torch.cuda.Stream()):
        done.append(torch.ops.vitamin.hgemm(a, b))
        torch.cuda.current_stream().synchronize()

torch.cuda.synchronize()
thread = threading.Thread(target=work)
thread.start()
thread.join()
assert_close(done[0], a, b)
"""

IN_A_CAPTURE = """
out = torch.zeros(72, 72, dtype=torch.float16, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    torch.ops.vitamin.hgemm.out(a, b, out=out)
graph.replay()
assert_close(out, a, b)
"""


@pytest.mark.parametrize("body", [ON_THE_AUTOGRAD_THREAD, IN_A_NEW_THREAD_AND_STREAM, IN_A_CAPTURE])
def test_case_16_first_call_of_the_process(device, body):
    script = FIRST_CALL.format(tests=str(Path(__file__).parents[1]), body=body)
    package = str(Path(vitamin_hgemm.__file__).parents[1])
    path = os.pathsep.join([package, os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr


class Captured:
    """A product in a CUDA graph, with its operands and its output."""

    def __init__(self, m, n, k, dtype, device, kernel="auto", stream=None):
        layout = layout_of(kernel)
        self.a = operand(m, k, dtype, device, layout=layout[0])
        self.b = operand(k, n, dtype, device, layout=layout[1])
        self.out = torch.empty(m, n, dtype=dtype, device=device)
        torch.ops.vitamin.hgemm.out(self.a, self.b, kernel=kernel, out=self.out)
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=stream):
            torch.ops.vitamin.hgemm.out(self.a, self.b, kernel=kernel, out=self.out)

    def replay_and_check(self, what=""):
        """Replays it on new values and NaN in the output."""
        self.a.normal_()
        self.b.normal_()
        self.out.fill_(torch.nan)
        self.graph.replay()
        assert_close(self.out, self.a, self.b, what=what)


def test_every_kernel_is_captured(device, dtype):
    """No kernel synchronises, allocates outside the pool, or reads its arguments late."""
    for m, n, k in SHAPES:
        a = operand(m, k, dtype, device)
        for name in kernel_names():
            b = operand(k, n, dtype, device, layout=layout_of(name)[1])
            if duty(name, a, b):
                Captured(m, n, k, dtype, device, name).replay_and_check(f"{name} {(m, n, k)}")


def test_case_16_two_graphs_on_one_stream(device, dtype):
    stream = torch.cuda.Stream()
    for shape in SHAPES:
        first = Captured(*shape, dtype, device, stream=stream)
        second = Captured(*shape, dtype, device, stream=stream)
        second.replay_and_check("both alive")
        del first
        gc.collect()
        torch.cuda.empty_cache()
        junk = [torch.full((2**20,), torch.nan, device=device) for _ in range(8)]
        for _ in range(3):
            second.replay_and_check("the other one deleted")
        del junk


@pytest.mark.parametrize("name", ["auto", "sm80"])
def test_case_16_split_k_replayed(device, dtype, name):
    """Counters and partial sums are fresh in each replay, and the bits the same."""
    captured = Captured(*SPLIT_K, dtype, device, name)
    for _ in range(3):
        captured.replay_and_check()
    outs = []
    for _ in range(3):
        captured.out.fill_(torch.nan)
        captured.graph.replay()
        outs.append(captured.out.clone())
    assert torch.equal(outs[0], outs[1]) and torch.equal(outs[0], outs[2])


def test_case_16_other_shapes_between_replays(device, dtype):
    """Larger workspaces, in eager calls and in other graphs, leave a captured one alone."""
    captured = [Captured(*shape, dtype, device) for shape in SHAPES]
    with Failures() as failures:
        for m, n, k in [(16, 24, 65536), (64, 64, 32768), (4095, 257, 1023), (8, 8, 8)]:
            a, b = operand(m, k, dtype, device), operand(k, n, dtype, device)
            failures.check("auto", a, b)
            for each in captured:
                each.replay_and_check(f"after {(m, n, k)}")


def test_case_16_repeated_captures_do_not_leak(device, dtype):
    def capture():
        for shape in (SPLIT_K, (511, 513, 515)):
            Captured(*shape, dtype, device).replay_and_check()
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved(device), torch.cuda.mem_get_info(device)[0]

    for _ in range(3):
        reserved, free = capture()
    for _ in range(20):
        reserved_later, free_later = capture()
    assert reserved_later <= reserved
    assert free_later >= free - 2**21, f"{free - free_later} bytes of device memory are gone"


@pytest.mark.parametrize("name", ["auto", "sm80"])
def test_several_calls_in_one_graph(device, dtype, name):
    """Workspace that one call gives back may be the next one's: stream order keeps them apart."""
    chain = [operand(72, 72, dtype, device) / 8 for _ in range(6)]
    wide = operand(72, 16384, dtype, device)
    deep = operand(16384, 72, dtype, device)
    outs = [torch.empty(72, 72, dtype=dtype, device=device) for _ in range(8)]

    def work():
        torch.ops.vitamin.hgemm.out(wide, deep, kernel=name, out=outs[0])
        for i, x in enumerate(chain):
            torch.ops.vitamin.hgemm.out(outs[i], x, kernel=name, out=outs[i + 1])
        torch.ops.vitamin.hgemm.out(wide, deep, kernel=name, out=outs[7])

    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    for out in outs:
        out.fill_(torch.nan)
    graph.replay()
    for i, x in enumerate(chain):
        assert_close(outs[i + 1], outs[i], x, what=f"call {i}")
    assert_close(outs[0], wide, deep)
    assert torch.equal(outs[0], outs[7])


def test_eight_streams_at_once(device, dtype):
    """Products of each kind, in flight together, on streams that know nothing of each other."""
    work = []
    for i in range(8):
        for shape in SHAPES:
            m, n, k = (extent + (i if extent > 1 else 0) for extent in shape)
            work.append((i, operand(m, k, dtype, device), operand(k, n, dtype, device)))
    streams = [torch.cuda.Stream() for _ in range(8)]
    torch.cuda.synchronize()
    outs = []
    for _ in range(3):
        for i, a, b in work:
            with torch.cuda.stream(streams[i]):
                outs.append((torch.ops.vitamin.hgemm(a, b), a, b))
    torch.cuda.synchronize()
    for out, a, b in outs:
        assert_close(out, a, b)


def test_eight_threads_at_once(device, dtype):
    """Each in a stream of its own, through the same caches."""
    results, errors = [], []

    def work(index):
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for m, n, k in SHAPES * 5:
                    a = torch.randn(m + index, k, dtype=dtype, device=device)
                    b = torch.randn(k, n, dtype=dtype, device=device)
                    results.append((torch.ops.vitamin.hgemm(a, b), a, b))
                torch.cuda.current_stream().synchronize()
        except RuntimeError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert len(results) == 8 * 5 * len(SHAPES)
    for out, a, b in results:
        assert_close(out, a, b)


def test_runs_on_the_current_stream(device, dtype):
    """Work queued before it in its stream is seen by it, and what follows sees its result."""
    a, b = operand(256, 256, dtype, device), operand(256, 256, dtype, device)
    late = torch.zeros_like(a)
    stream = torch.cuda.Stream()
    late.copy_(torch.ops.vitamin.hgemm(late, b) * 2)  # loads the code
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(100_000_000)
        late.copy_(a)
        doubled = torch.ops.vitamin.hgemm(late, b) * 2
    assert not stream.query()
    stream.synchronize()
    assert_close(doubled / 2, a, b)
