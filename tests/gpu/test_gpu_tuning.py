"""vitamin_hgemm.tuning on a GPU: what is tuned runs, here and in the next process."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from calls import Failures, choose
from reference import assert_close
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

import vitamin_hgemm
from vitamin_hgemm import planning, tuning
from vitamin_hgemm._overrides import Way
from vitamin_hgemm._race import Course

pytestmark = pytest.mark.gpu

TESTS = Path(__file__).parents[1]
SHAPES = ["128x128x128:nt", "16x512x1024:nt", "257x264x272:nn", "3x64x72x80:tn", "65x67x69:tt"]


@pytest.fixture(autouse=True)
def no_choices(monkeypatch):
    monkeypatch.delenv(tuning.ENVIRONMENT, raising=False)
    tuning.clear()
    yield
    tuning.clear()


def problem_of(shape):
    batch, m, n, k, layout = tuning.parse_shape(shape)
    return dict(m=m, n=n, k=k, batch=batch, layout=layout or "nn")


def operands(shape, dtype, device):
    batch, m, n, k, layout = tuning.parse_shape(shape)
    leading = (batch,) if batch > 1 else ()
    a = torch.randn(*leading, *((m, k) if layout[0] == "n" else (k, m)), device=device).to(dtype)
    b = torch.randn(*leading, *((k, n) if layout[1] == "n" else (n, k)), device=device).to(dtype)
    return a if layout[0] == "n" else a.mT, b if layout[1] == "n" else b.mT


def launched(call):
    """The names of the CUDA kernels that a call runs."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as told:
        call()
        torch.cuda.synchronize()
    kernels = [e for e in told.events() if e.device_type == DeviceType.CUDA]
    return [event.name for event in kernels]


def test_auto_runs_the_kernel_that_is_chosen(device):
    """Each kernel of the candidates, by the names of the CUDA kernels."""
    shape = "512x512x512:nt"
    a, b = operands(shape, torch.bfloat16, device)
    plan = vitamin_hgemm.plan(512, 512, 512, layout="nt", device=device)
    if not launched(lambda: vitamin_hgemm.hgemm(a, b)):
        pytest.skip("the profiler sees no kernels here")
    for kernel in {candidate.kernel for candidate in plan.candidates}:
        named = vitamin_hgemm.plan(512, 512, 512, layout="nt", device=device, kernel=kernel)
        choose(problem_of(shape), Way(kernel, named.splits), device)
        by_name = launched(lambda name=kernel: vitamin_hgemm.hgemm(a, b, kernel=name))
        assert launched(lambda: vitamin_hgemm.hgemm(a, b)) == by_name, kernel


def test_every_way_that_can_be_chosen_is_right(device, dtype):
    with Failures() as failures:
        for shape in SHAPES:
            a, b = operands(shape, dtype, device)
            problem = problem_of(shape) | {"dtype": dtype}
            for candidate in vitamin_hgemm.plan(**problem, device=device).candidates:
                choose(problem, Way(candidate.kernel, candidate.splits), device)
                failures.check("auto", a, b, must=True, what=f"as {candidate}")


def run_with_choices(code, path):
    """A fresh process that begins with the choices of a file."""
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {tuning.ENVIRONMENT: str(path), "PYTHONPATH": str(TESTS.parent)},
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip


def test_tuned_choices_hold_here_and_in_the_next_process(device, dtype, tmp_path):
    path = tmp_path / "t.json"
    found = tuning.tune(SHAPES, dtype=dtype, device=device, path=path, progress=False)
    for shape, one in zip(SHAPES, found, strict=True):
        assert 0 < one.us <= (one.model_us or one.us) and one.timed > 1
        plan = vitamin_hgemm.plan(**problem_of(shape), dtype=dtype, device=device)
        assert (plan.override, plan.kernel, plan.splits) == ("tuned", one.kernel, one.splits)
        a, b = operands(shape, dtype, device)
        assert_close(vitamin_hgemm.hgemm(a, b), a, b, what=str(one))
    code = (
        "import json, sys, torch, vitamin_hgemm as v\n"
        f"problems = {[problem_of(shape) for shape in SHAPES]!r}\n"
        f"plans = [v.plan(**p, dtype={dtype}, device={device.index}) for p in problems]\n"
        "print(json.dumps([[p.override, p.kernel, p.splits] for p in plans]))"
    )
    run = run_with_choices(code, path)
    assert json.loads(run.stdout) == [["tuned", one.kernel, one.splits] for one in found]
    assert "ignored" not in run.stderr
    tuning.clear()
    assert tuning.load(path) == len(SHAPES)


def test_a_file_of_another_gpu_is_told_when_cuda_comes_up(device, tmp_path):
    path = tmp_path / "t.json"
    tuning.tune(SHAPES[:1], device=device, path=path, progress=False)
    path.write_text(path.read_text().replace(torch.cuda.get_device_name(device), "NVIDIA None"))
    code = (
        "import torch, vitamin_hgemm\n"
        "assert not torch.cuda.is_initialized()\n"
        "torch.zeros(1, device='cuda')"
    )
    run = run_with_choices(code, path)
    assert "is ignored: it is of NVIDIA None" in run.stderr


def test_captured_graphs_keep_what_they_captured(device):
    shape = "16x512x1024:nt"
    a, b = operands(shape, torch.bfloat16, device)
    out = torch.empty(16, 512, dtype=torch.bfloat16, device=device)
    vitamin_hgemm.hgemm(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        vitamin_hgemm.hgemm(a, b, out=out)
    graph.replay()
    bits = out.clone()
    for candidate in vitamin_hgemm.plan(16, 512, 1024, layout="nt", device=device).candidates:
        choose(problem_of(shape), Way(candidate.kernel, candidate.splits), device)
        vitamin_hgemm.hgemm(a, b)
        out.fill_(torch.nan)
        graph.replay()
        assert torch.equal(out.view(torch.int16), bits.view(torch.int16)), candidate


def test_other_threads_calls_stay_right_while_it_is_tuned(device, tmp_path):
    shape = "128x128x128:nt"
    a, b = operands(shape, torch.bfloat16, device)
    done, failed = threading.Event(), []

    def work():
        with torch.cuda.stream(torch.cuda.Stream()):
            while not done.is_set() and not failed:
                try:
                    assert_close(vitamin_hgemm.hgemm(a, b), a, b)
                except (AssertionError, RuntimeError) as error:
                    failed.append(error)

    torch.cuda.synchronize()
    thread = threading.Thread(target=work)
    thread.start()
    try:
        tuning.tune([shape], device=device, path=tmp_path / "t.json", progress=False)
    finally:
        done.set()
        thread.join()
    assert not failed, failed[0]


def test_the_callers_state_is_left_alone(device, tmp_path):
    state = torch.cuda.get_rng_state(device)
    tuning.tune(SHAPES[:1], path=tmp_path / "t.json", progress=False)
    assert torch.equal(state, torch.cuda.get_rng_state(device))
    assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()


def test_a_course_checks_what_it_times(device):
    options = dict(batch=1, layout="nt", dtype=torch.bfloat16, out_dtype=None, device=device)
    l2_bytes = planning.device_facts(device).l2_bytes
    course = Course(256, 264, 272, l2_bytes=l2_bytes, predicted_us=5.0, **options)
    assert len({a.data_ptr() for a, _ in course.inputs}) == len(course.inputs) <= course.calls
    graph = course.capture()
    assert course.error(graph) <= 1
    assert 0 < course.us(graph) < 1e4
    idle = torch.cuda.CUDAGraph()
    with torch.cuda.graph(idle):
        course.out.add_(0)
    assert course.error(idle) == float("inf")
