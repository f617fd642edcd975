"""Measured choices in both compiled parts: the op library, which calls follow, and plan()."""

import ctypes
import threading
from dataclasses import dataclass

from ._library import op_library_path, planner

# What the numbers of a problem's key are, in the order of ProblemKey (csrc/dispatch/overrides.h).
FIELDS = (
    "m", "n", "k", "batch", "a_batches", "b_batches", "dtype", "out_f32",
    "a_layout", "b_layout", "c_layout", "a_align", "b_align", "c_align",
)  # fmt: skip

Key = tuple[int, ...]
_Numbers = ctypes.c_int64 * len(FIELDS)

_ops = ctypes.CDLL(str(op_library_path()))
_ops.vitamin_set_override.argtypes = [ctypes.c_char_p, _Numbers, ctypes.c_char_p, ctypes.c_int]
_ops.vitamin_set_override.restype = ctypes.c_bool
_ops.vitamin_remove_override.argtypes = [ctypes.c_char_p, _Numbers]
_ops.vitamin_remove_override.restype = None
_ops.vitamin_clear_overrides.restype = None

_lock = threading.Lock()
_put: dict[tuple[str, Key], "Way"] = {}


@dataclass(frozen=True)
class Way:
    """How a problem is run: by which kernel, and in how many parts of K."""

    kernel: str
    splits: int


def _planners():
    """The planning module, where it is built."""
    try:
        return [planner()]
    except RuntimeError:
        return []


def get(gpu: str, key: Key) -> Way | None:
    """What put() left for the problem."""
    with _lock:
        return _put.get((gpu, key))


def put(gpu: str, key: Key, way: Way | None) -> bool:
    """Has "auto" run the problem so on that GPU, where it can; None: as if there had been no put().

    False if there is no such kernel or no room for one more; nothing has changed then.
    """
    name, numbers = gpu.encode(), _Numbers(*key)
    with _lock:
        if way is None:
            _ops.vitamin_remove_override(name, numbers)
            for part in _planners():
                part.remove_override(gpu, key)
            _put.pop((gpu, key), None)
            return True
        if not _ops.vitamin_set_override(name, numbers, way.kernel.encode(), way.splits):
            return False
        for part in _planners():
            part.set_override(gpu, key, way.kernel, way.splits)
        _put[gpu, key] = way
        return True


def clear() -> None:
    """As if put() had never been called."""
    with _lock:
        _ops.vitamin_clear_overrides()
        for part in _planners():
            part.clear_overrides()
        _put.clear()
