"""Two devices: a call runs on its tensors' device, whichever is current."""

import threading

import pytest
import torch
from calls import choosers, kernels_here, layout_of, measure_memory, padded_pairs
from reference import assert_close

pytestmark = pytest.mark.multi_gpu


@pytest.fixture
def other():
    return torch.device("cuda", (torch.cuda.current_device() + 1) % torch.cuda.device_count())


def test_runs_where_the_tensors_are(device, other, dtype):
    current = torch.cuda.current_device()
    for name in kernels_here():
        for where in (other, device):
            a, b = padded_pairs(128, 128, 128, dtype, where)[layout_of(name)]
            out = torch.ops.vitamin.hgemm(a, b, kernel=name)
            assert out.device == where
            assert_close(out, a, b, what=f"{name} on {where}")
            assert torch.cuda.current_device() == current


def test_split_k_workspace_is_on_that_device(device, other, dtype):
    a = torch.randn(16, 16384, dtype=dtype, device=other)
    b = torch.randn(16384, 24, dtype=dtype, device=other)
    out, requested = measure_memory(lambda: torch.ops.vitamin.hgemm(a, b), device)
    assert requested == 0, f"{requested} bytes on the current device"
    assert_close(out, a, b)


def test_mixed_devices_are_refused(device, other, dtype):
    a = torch.randn(16, 16, dtype=dtype, device=device)
    for name in choosers():
        with pytest.raises(RuntimeError, match=f"b is on {other} and a is on {device}"):
            torch.ops.vitamin.hgemm(a, a.to(other), kernel=name)


def test_uses_the_current_stream_of_that_device(device, other, dtype):
    a, b = (torch.randn(256, 256, dtype=dtype, device=other) for _ in range(2))
    late = torch.zeros_like(a)
    stream = torch.cuda.Stream(other)
    torch.cuda.synchronize(other)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(20_000_000)
        late.copy_(a)
        with torch.cuda.device(device):
            out = torch.ops.vitamin.hgemm(late, b)
    stream.synchronize()
    assert_close(out, a, b)


def test_both_at_once(device, other, dtype):
    results = []

    def work(where):
        for size in (64, 72, 129, 512) * 5:
            a, b = (torch.randn(size, size, dtype=dtype, device=where) for _ in range(2))
            results.append((torch.ops.vitamin.hgemm(a, b), a, b))

    threads = [threading.Thread(target=work, args=(where,)) for where in (device, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2 * 4 * 5
    for out, a, b in results:
        assert_close(out, a, b)
