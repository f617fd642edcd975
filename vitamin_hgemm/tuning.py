"""Measured choices of kernels: tune(shapes) times the ways to run them, on this machine's GPU.

>>> import vitamin_hgemm
>>> vitamin_hgemm.tuning.tune(["16x4096x14336:nt"])  # doctest: +SKIP

What is found holds from then on for "auto" in this process, and stands in a JSON file. A process
that is started with VITAMIN_HGEMM_TUNING set to that file's path begins with it; in another,
load() reads it.

A choice is taken for products of the same extents, dtypes, layouts and alignment on a GPU of the
same name, and only where it is one of the ways that plan() lists: else the cost model decides.
Choices change which kernel runs, and with it the order in which a sum is taken, never the bound on
its error.
"""

import contextlib
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from . import _overrides, _tuning_file, planning
from ._library import planner
from ._overrides import Way
from ._race import Course, race
from ._tuning_file import ENVIRONMENT, Entry, UnusableError, default_path

__all__ = ["ENVIRONMENT", "Tuned", "clear", "default_path", "load", "parse_shape", "tune"]

BY_PREDICTION = 8  # of the cheapest candidates are timed; of the other kernels the cheapest way
CLEARLY = 1.01  # as much faster than the model's choice is what replaces it

_SHAPE = re.compile(r"(?:(\d+)x)?(\d+)x(\d+)x(\d+)(?::([nt]{2}))?")
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Tuned:
    """What tune() found for a problem. Times are in microseconds."""

    problem: str
    kernel: str
    splits: int  # parts that K is cut into
    us: float
    model_kernel: str  # what the cost model would take
    model_splits: int
    model_us: float | None  # None: it could not be timed
    timed: int  # ways that were timed

    @property
    def speedup(self) -> float:
        """Over the model's choice; 1 where that was kept."""
        return self.model_us / self.us if self.model_us else 1.0

    def __str__(self) -> str:
        text = f"{self.problem}: {_way_text(self.kernel, self.splits)} {self.us:.1f} us"
        if (self.kernel, self.splits) == (self.model_kernel, self.model_splits):
            return f"{text}, as the model has it"
        model = _way_text(self.model_kernel, self.model_splits)
        us = f"{self.model_us:.1f} us" if self.model_us else "not timed"
        return f"{text}, {self.speedup:.2f} x the model's {model} ({us})"


def _way_text(kernel, splits):
    return kernel if splits == 1 else f"{kernel}, K in {splits},"


def parse_shape(text: str) -> tuple[int, int, int, int, str | None]:
    """batch, m, n, k and layout (None if there is none) of "4096x4096x4096:nt" or "8x64x64x64".

    Raises:
        ValueError: it is no such text, or an extent is 0.
    """
    match = _SHAPE.fullmatch(text.strip().lower())
    if not match:
        raise ValueError(
            f"shape is {text!r}; wanted MxNxK or BATCHxMxNxK, with a layout as in 64x64x64:nt"
        )
    extents = tuple(int(number or 1) for number in match.groups()[:4])
    if 0 in extents:
        raise ValueError(f"shape is {text!r}; wanted extents of 1 or more")
    return *extents, match[5]


def _read_shape(shape, layout):
    """The arguments of plan()."""
    if isinstance(shape, str):
        batch, m, n, k, own_layout = parse_shape(shape)
        return dict(m=m, n=n, k=k, batch=batch, layout=own_layout or layout)
    extents = tuple(shape)
    if len(extents) not in (3, 4):
        raise ValueError(f"shape is {shape!r}; wanted (m, n, k) or (batch, m, n, k)")
    batch, m, n, k = extents if len(extents) == 4 else (1, *extents)
    if not all(isinstance(extent, int) and extent > 0 for extent in extents):
        raise ValueError(f"shape is {shape!r}; wanted integers of 1 or more")
    return dict(m=m, n=n, k=k, batch=batch, layout=layout)


def _find_gpu(device):
    """The CUDA device and its facts."""
    if not torch.cuda.is_available():
        raise RuntimeError("tuning needs a CUDA device, and torch sees none")
    try:
        found = torch.device("cuda" if device is None else device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or found.type != "cuda":
        raise ValueError(f"device is {device!r}; wanted a CUDA device")
    index = torch.cuda.current_device() if found.index is None else found.index
    return torch.device("cuda", index), planning.device_facts(index)


def _warn(text):
    warnings.warn(f"vitamin_hgemm: {text}", stacklevel=3)


def _file_path(path, gpu=None):
    """The path given, else that of the environment, else the user's file of that GPU."""
    path = path or os.environ.get(ENVIRONMENT)
    if not path:
        path = default_path(gpu or _find_gpu(None)[1].name)
    return Path(path).expanduser()


def _ways_to_time(plan):
    """The model's choice first; what "auto" takes now, where that is another, last."""
    ways, kernels = [], set()
    for i, candidate in enumerate(plan.candidates):
        if i < BY_PREDICTION or candidate.kernel not in kernels:
            ways.append(Way(candidate.kernel, candidate.splits))
            kernels.add(candidate.kernel)
    now = Way(plan.kernel, plan.splits)
    return ways if now in ways else [*ways, now]


def _winner(us, model):
    best = min(us, key=us.get)
    return model if model in us and us[model] <= CLEARLY * us[best] else best


def _tune_one(problem, options, device, facts):
    """The entry of the problem and what is told of it. The choice is applied."""
    plan = planning.plan(**problem, **options, device=facts)
    key = tuple(planner().problem_key(planning.read_problem(**problem, **options)))
    ways = _ways_to_time(plan)
    course = Course(
        **problem,
        **options,
        device=device,
        l2_bytes=facts.l2_bytes,
        predicted_us=plan.candidates[0].predicted_us,
    )
    before = _overrides.get(facts.name, key)

    def force(way):
        _overrides.put(facts.name, key, way)
        now = planning.plan(**problem, **options, device=facts)
        if (now.override, now.kernel, now.splits) != ("tuned", way.kernel, way.splits):
            raise RuntimeError(f"{way} is not taken up: too many choices are held")

    try:
        outcome = race(course, ways, force)
    finally:
        _overrides.put(facts.name, key, before)
    for way, error in outcome.wrong.items():
        text = _way_text(way.kernel, way.splits)
        _warn(f"{text} is wrong at {plan.problem} ({error:.3g} x the bound): left out")
    if not outcome.us:
        reasons = list(outcome.failed.values())
        raise RuntimeError(
            f"none of {len(ways)} ways to run {plan.problem} could be timed: "
            + (reasons[0] if reasons else "all results are wrong")
        )
    model, us = ways[0], outcome.us
    best = _winner(us, model)
    _overrides.put(facts.name, key, best)
    told = Tuned(
        plan.problem, best.kernel, best.splits, us[best],
        model.kernel, model.splits, us.get(model), len(us),
    )  # fmt: skip
    return Entry(key, best, us[best], us.get(model)), told


class _Progress:
    """A bar of tqdm's where that is installed, else a line a problem; both on stderr."""

    def __init__(self, total: int, shown: bool):
        self._total, self._shown, self._done, self._bar = total, shown, 0, None
        if shown:
            try:
                from tqdm import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=total, unit="problem", file=sys.stderr)

    def __enter__(self):
        return self

    def start(self, text: str) -> None:
        if self._bar is not None:
            self._bar.set_description(text)
        elif self._shown:
            print(f"[{self._done + 1}/{self._total}] {text}", file=sys.stderr, flush=True)

    def step(self) -> None:
        self._done += 1
        if self._bar is not None:
            self._bar.update()

    def __exit__(self, *_):
        if self._bar is not None:
            self._bar.close()


def _prepare_file(path, gpu):
    """Before time is spent: whether the file can be written, and what is lost of the present one.

    Raises OSError.
    """
    _tuning_file.prepare(path)
    try:
        present = _tuning_file.read(path)[0]
    except FileNotFoundError:
        return
    except UnusableError as reason:
        _warn(f"{path} will be replaced: {reason}")
        return
    if present != gpu:
        _warn(f"{path} will be replaced: it is of {present}, this is {gpu}")


def tune(
    shapes: Iterable[str | tuple[int, ...]],
    *,
    dtype: torch.dtype = torch.bfloat16,
    layout: str = "nn",
    out_dtype: torch.dtype | None = None,
    device: torch.device | str | int | None = None,
    path: str | os.PathLike | None = None,
    progress: bool = True,
) -> list[Tuned]:
    """Times the ways to run products, and has "auto" take the fastest from now on.

    For each shape the eight ways that the cost model finds cheapest are timed, and one of every
    other production kernel: as CUDA graphs, on random inputs with tight rows that no cache holds,
    after their results have been checked. The model's choice stays where nothing is more than 1 %
    faster. A shape takes seconds, and memory for up to 24 sets of operands.

    Args:
        shapes: (m, n, k) or (batch, m, n, k), or texts such as "4096x4096x4096:nt" and
            "8x64x64x64", whose own layout goes before `layout`.
        dtype: of a and b, torch.float16 or torch.bfloat16.
        layout: how a and b are stored, as in plan(): "nt" is `x @ weight.mT`.
        out_dtype: None for dtype, or torch.float32; a choice holds for one of them.
        device: a CUDA device, None for the current one.
        path: the file to keep the choices in; None for the one that VITAMIN_HGEMM_TUNING names,
            else default_path() of the GPU. It is written after each shape, together with what
            others have written meanwhile. A file of another GPU or version is replaced, with a
            warning.
        progress: whether to show progress on stderr, with tqdm's bar where tqdm is installed.

    Returns:
        A Tuned for each shape, in their order.

    Raises:
        ValueError: an argument is unusable; nothing has been run.
        OSError: the file can't be written.
        RuntimeError: there is no CUDA device, no way to run a problem could be timed, or the
            planning module was not built for this Python.

    While a shape is being timed, calls of the same problem from other threads take part in the
    trial: their kernel may change from call to call.
    """
    options = dict(dtype=dtype, out_dtype=out_dtype)
    problems = [_read_shape(shape, layout) for shape in shapes]
    for problem in problems:
        planning.read_problem(**problem, **options)
    device, facts = _find_gpu(device)
    file = _file_path(path, facts.name)
    found = []
    with _one_at_a_time, _Progress(len(problems), progress) as shown:
        _prepare_file(file, facts.name)
        for problem in problems:
            shown.start("{batch} x {m} x {n} x {k} {layout}".format(**problem))
            entry, told = _tune_one(problem, options, device, facts)
            _tuning_file.merge(file, facts.name, [entry])
            found.append(told)
            shown.step()
    return found


def _read_file(path):
    """GPU, entries and number of malformed ones; None, with a warning, if there is no using it."""
    try:
        return _tuning_file.read(path)
    except FileNotFoundError:
        _warn(f"{path} is ignored: there is no such file")
    except UnusableError as reason:
        _warn(f"{path} is ignored: {reason}")
    return None


def _apply(path, gpu, entries, malformed):
    """How many entries could be applied; a warning tells of the others."""
    applied = sum(_overrides.put(gpu, entry.key, entry.way) for entry in entries)
    ignored = malformed + len(entries) - applied
    if ignored:
        _warn(f"{ignored} entries of {path} are ignored: they name no kernel or no problem")
    return applied


def _is_foreign(path, gpu):
    """Whether a file is of a GPU that is not here, with a warning."""
    visible = {torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())}
    if gpu in visible:
        return False
    _warn(f"{path} is ignored: it is of {gpu}, here is {', '.join(sorted(visible))}")
    return True


def load(path: str | os.PathLike | None = None) -> int:
    """Has "auto" take the choices that tune() has left in a file.

    They are added to those that hold already. A file that is missing, damaged or of another version
    of the package, or of a GPU that is none of the visible ones, is ignored with a warning. Where
    there is no GPU at all, plan() follows the choices for the GPU that the file is of.

    Args:
        path: as in tune().

    Returns:
        How many choices have been applied.

    Raises:
        RuntimeError: there is no path, no VITAMIN_HGEMM_TUNING and no CUDA device.
    """
    path = _file_path(path)
    content = _read_file(path)
    if content is None or (torch.cuda.is_available() and _is_foreign(path, content[0])):
        return 0
    return _apply(path, *content)


def load_at_import() -> None:
    """What the environment names, if it exists. CUDA isn't initialised, nor is anything raised."""
    path = os.environ.get(ENVIRONMENT)
    if not path or not os.path.exists(os.path.expanduser(path)):
        return
    path = _file_path(path)
    content = _read_file(path)
    if content is None:
        return
    _apply(path, *content)
    # Choices for other GPUs are idle; once CUDA is up, that is said.
    torch.cuda._lazy_call(lambda: _tell_if_foreign(path, content[0]))


def _tell_if_foreign(path, gpu):
    # Whatever is raised here, and be it a warning that is an error, would keep CUDA from starting.
    with contextlib.suppress(Exception):
        _is_foreign(path, gpu)


def clear() -> None:
    """Forgets all choices in this process. Files stay as they are."""
    _overrides.clear()
