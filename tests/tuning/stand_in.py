"""A stand-in for the course of vitamin_hgemm.tuning, and what its tests share."""

import json
import warnings
from typing import ClassVar

import torch

import vitamin_hgemm
from vitamin_hgemm import _tuning_file, planning, tuning
from vitamin_hgemm._library import planner
from vitamin_hgemm._overrides import Way
from vitamin_hgemm._tuning_file import Entry

GPU = "NVIDIA H200"
SHAPE = (320, 4096, 4096)
HOST = dict(dtype=torch.bfloat16, out_dtype=None)


def plan(shape=SHAPE, **options):
    return vitamin_hgemm.plan(*shape, **({"layout": "nt", "device": "H200"} | options))


def key_of(shape=SHAPE, **options):
    problem = dict(zip("mnk", shape, strict=True)) | {"layout": "nt"} | HOST | options
    return tuple(planner().problem_key(planning.read_problem(**problem)))


def ways_of(found):
    return [Way(candidate.kernel, candidate.splits) for candidate in found.candidates]


def way_of(found):
    return Way(found.kernel, found.splits)


def entry(shape=SHAPE, way=None, **options):
    return Entry(key_of(shape, **options), way or ways_of(plan(shape, **options))[-1], 2.0, 3.0)


def written(path, **changes):
    """A file of one choice that the model would not make, with changes to its content."""
    _tuning_file.merge(path, GPU, [entry()])
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps(content))
    return path


def quiet_load(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return tuning.load(path)


class FakeCourse:
    """Stands for _race.Course: what "auto" would run takes the time that `us` has for it."""

    us_of: ClassVar[dict] = {}  # by way
    errors: ClassVar[dict] = {}  # by kernel, as what follows
    refusals: ClassVar[dict] = {}
    made: ClassVar[list] = []

    def __init__(self, m, n, k, *, batch, layout, dtype, out_dtype, device, l2_bytes, predicted_us):
        self.problem = dict(batch=batch, layout=layout, dtype=dtype, out_dtype=out_dtype)
        self.extents = (m, n, k)
        self.samples = {}
        self.made.append(self)

    def capture(self):
        now = plan(self.extents, **self.problem)
        if now.kernel in self.refusals:
            raise RuntimeError(self.refusals[now.kernel])
        return way_of(now)

    def error(self, way):
        return self.errors.get(way.kernel, 0.5)

    def us(self, way):
        """The first sample is of cold clocks."""
        self.samples[way] = self.samples.get(way, 0) + 1
        return self.us_of.get(way, 100.0) * (3 if self.samples[way] == 1 else 1)


def tune(path, shapes=("320x4096x4096:nt",), **options):
    return tuning.tune(shapes, path=path, progress=False, **options)
