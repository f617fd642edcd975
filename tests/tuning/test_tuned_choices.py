"""What a measured choice holds for, and what it changes."""

import pytest
import torch
from stand_in import GPU, SHAPE, key_of, plan, way_of, ways_of

from vitamin_hgemm import _overrides, tuning
from vitamin_hgemm._overrides import FIELDS, Way


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (dict(m=641), {"m"}),
        (dict(n=4096 + 64), {"n"}),
        (dict(k=8192), {"k"}),
        (dict(batch=3), {"batch", "a_batches", "b_batches"}),
        (dict(dtype=torch.float16), {"dtype"}),
        (dict(out_dtype=torch.float32), {"out_f32"}),
        (dict(layout="tt"), {"a_layout"}),
        (dict(layout="nn"), {"b_layout"}),
        (dict(align_offset=4), {"a_align", "b_align", "c_align"}),
        (dict(lda=4104), {"a_align"}),
        (dict(ldb=4097), {"b_align"}),
        (dict(ldc=4100), {"c_align"}),
        (dict(lda=4128, bias=True, activation="gelu"), set()),
    ],
    ids=lambda value: str(sorted(value) if isinstance(value, set) else value),
)
def test_each_number_of_a_key_is_what_its_field_says(options, changed):
    before, after = key_of(), key_of(**options)
    pairs = zip(FIELDS, before, after, strict=True)
    assert {name for name, x, y in pairs if x != y} == changed
    assert before[:4] == (*SHAPE, 1)


def test_a_choice_decides_and_plan_says_so():
    model = plan()
    assert model.override is None
    way = ways_of(model)[5]
    assert _overrides.put(GPU, key_of(), way)
    tuned = plan()
    assert (tuned.override, way_of(tuned)) == ("tuned", way)
    assert tuned.candidates == model.candidates
    assert tuned.reason.startswith("tuned") and model.kernel in tuned.reason
    assert tuned.reason in str(tuned) and tuned.as_dict()["override"] == "tuned"
    assert tuned.predicted_us == model.candidates[5].predicted_us
    for options in (dict(kernel="sm90"), dict(device="H100"), dict(dtype=torch.float16)):
        assert plan(**options).override is None
    _overrides.put(GPU, key_of(), way_of(model))
    assert "the model agrees" in plan().reason
    tuning.clear()
    assert plan() == model


def test_a_choice_that_no_candidate_is_leaves_it_to_the_model():
    model = plan()
    for way in (Way("sm90_128x128x64", 7), Way("cublas", 1), Way("sm80_any_64x64x64", 1)):
        assert _overrides.put(GPU, key_of(), way)
        assert plan() == model
    assert not _overrides.put(GPU, key_of(), Way("sm90_gone", 1))


def test_choices_are_put_back_one_by_one():
    model = plan()
    way = next(way for way in ways_of(model)[1:] if way.splits == 1)  # the other shape has it too
    _overrides.put(GPU, key_of(), way)
    _overrides.put(GPU, key_of(m=641), way)
    assert _overrides.get(GPU, key_of()) == way
    _overrides.put(GPU, key_of(), None)
    assert _overrides.get(GPU, key_of()) is None and plan() == model
    assert plan((641, 4096, 4096)).override == "tuned"
