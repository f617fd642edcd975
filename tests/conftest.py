"""What every test shares: the GPU marker, the devices, and a seed that is new in each run."""

import os
import random
import secrets
import zlib
from collections import Counter
from pathlib import Path

import hypothesis
import pytest
import torch

GPU_TESTS = Path(__file__).parent / "gpu"

hypothesis.settings.register_profile(
    "vitamin",
    deadline=None,
    max_examples=int(os.environ.get("VITAMIN_FUZZ_EXAMPLES", "60")),
    database=None,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("vitamin")


def pytest_addoption(parser):
    parser.addoption("--seed", type=int, help="seed of the random inputs (default: a new one)")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "gpu: needs a CUDA device of compute capability 8.0 or newer"
    )
    config.addinivalue_line("markers", "multi_gpu: needs two CUDA devices")
    if config.getoption("--seed") is None:
        config.option.seed = secrets.randbits(31)


def pytest_report_header(config):
    return f"inputs: --seed {config.getoption('--seed')}; GPU: {why_no_gpu() or gpu_name()}"


def gpu_name():
    return f"{torch.cuda.get_device_name()} x {torch.cuda.device_count()}"


def why_no_gpu():
    """Empty where GPU tests can run, else the reason why they are skipped."""
    if not torch.cuda.is_available():
        return "no CUDA device"
    if torch.cuda.get_device_capability() < (8, 0):
        return "the CUDA device is older than sm_80"
    return ""


def pytest_collection_modifyitems(items):
    no_gpu = why_no_gpu()
    for item in items:
        if GPU_TESTS in item.path.parents:
            item.add_marker(pytest.mark.gpu)
        if item.get_closest_marker("gpu") and no_gpu:
            item.add_marker(pytest.mark.skip(reason=f"GPU test: {no_gpu}"))
        elif item.get_closest_marker("multi_gpu") and torch.cuda.device_count() < 2:
            item.add_marker(pytest.mark.skip(reason="GPU test: fewer than two CUDA devices"))


def pytest_terminal_summary(terminalreporter):
    """How many GPU tests were skipped, by reason."""
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    ]
    for reason, count in Counter(r for r in reasons if r.startswith("GPU test: ")).items():
        terminalreporter.write_line(f"{count} skipped - {reason}")


@pytest.fixture(autouse=True)
def seed(request):
    """Seeds every generator from the run's seed and the test's name, and returns that number."""
    value = (request.config.getoption("--seed") + zlib.crc32(request.node.nodeid.encode())) % 2**31
    random.seed(value)
    torch.manual_seed(value)
    return value


@pytest.fixture
def device():
    """The current CUDA device."""
    if why_no_gpu():
        pytest.skip(f"GPU test: {why_no_gpu()}")
    return torch.device("cuda", torch.cuda.current_device())


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def any_device(request):
    """The CPU and, where there is one, the current CUDA device."""
    if request.param == "cpu":
        return torch.device("cpu")
    return request.getfixturevalue("device")


@pytest.fixture(params=[torch.float16, torch.bfloat16], ids=["fp16", "bf16"])
def dtype(request):
    return request.param
