"""No choices from outside, and an H200 that isn't there."""

import pytest
import torch
from stand_in import GPU, FakeCourse

from vitamin_hgemm import planning, tuning


@pytest.fixture(autouse=True)
def no_choices(monkeypatch, tmp_path):
    """No choice and no file before, none after."""
    monkeypatch.delenv(tuning.ENVIRONMENT, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    tuning.clear()
    yield
    tuning.clear()


@pytest.fixture
def fake_gpu(monkeypatch):
    """An H200 whose kernels take the times that the test sets."""
    facts = planning.PRESETS["H200"]
    facts = planning.DeviceFacts(**(vars(facts) | {"name": GPU}))
    for name in ("us_of", "errors", "refusals"):
        monkeypatch.setattr(FakeCourse, name, {})
    monkeypatch.setattr(FakeCourse, "made", [])
    monkeypatch.setattr(tuning, "_find_gpu", lambda device: (torch.device("cuda", 0), facts))
    monkeypatch.setattr(tuning, "Course", FakeCourse)
    return FakeCourse
