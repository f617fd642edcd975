"""Calls leave nothing behind in host memory, whichever way they take through the dispatcher."""

import resource
from pathlib import Path

import pytest
import torch

import vitamin_hgemm

STATM = Path("/proc/self/statm")
CALLS = 20_000
SLACK = 1 << 20  # bytes: 50 a call

pytestmark = pytest.mark.skipif(not STATM.exists(), reason="needs Linux's /proc")


def resident_bytes():
    return int(STATM.read_text().split()[1]) * resource.getpagesize()


def refused(call):
    def attempt():
        try:
            call()
        except RuntimeError:
            return
        raise AssertionError("the call was not refused")

    return attempt


def new(*shape):
    return torch.randn(shape, dtype=torch.bfloat16)


A, B, BIAS, OUT = new(4, 4), new(4, 4), new(4), new(4, 4)
OPTIONS = dict(bias=BIAS, activation="gelu", out_dtype=torch.float32)
hgemm = vitamin_hgemm.hgemm
CASES = {
    "plain": lambda: hgemm(A, B),
    "options": lambda: hgemm(A, B, **OPTIONS),
    "out": lambda: hgemm(A, B, out=OUT),
    "wrong shape": refused(lambda: hgemm(A, B[:3], **OPTIONS)),
    "wrong name": refused(lambda: hgemm(A, B, activation="one that is not in the list")),
}


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("call", CASES.values(), ids=CASES)
def test_nothing_is_kept(call, mode):
    with mode():
        for _ in range(CALLS // 4):
            call()
        before = resident_bytes()
        for _ in range(CALLS):
            call()
        assert resident_bytes() - before < SLACK
