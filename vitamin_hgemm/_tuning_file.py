"""The file in which tuned choices are kept: JSON, of one GPU and one version of the package.

    {"format": 1, "version": "0.1.0", "gpu": "NVIDIA H200", "entries": [{"m": 16, ...}, ...]}

An entry has the fields of a problem's key, `kernel` and `splits`, and for people what the choice
and the model's took in microseconds, `us` and `model_us`.
"""

import contextlib
import fcntl
import json
import math
import os
import re
from dataclasses import dataclass
from pathlib import Path

from ._overrides import FIELDS, Key, Way
from .version import __version__

FORMAT = 1
ENVIRONMENT = "VITAMIN_HGEMM_TUNING"

# Fields that are written as words: what their numbers are.
_WORDS = {"dtype": ("fp16", "bf16"), "out_f32": (False, True)}
_WORDS |= dict.fromkeys(("a_layout", "b_layout", "c_layout"), ("row", "col", "strided"))
_MOST = {"splits": 2**31 - 1}


class UnusableError(Exception):
    """Why a file is not used."""


@dataclass(frozen=True)
class Entry:
    """A problem and the fastest way to run it, with times in microseconds."""

    key: Key
    way: Way
    us: float | None = None
    model_us: float | None = None  # of the model's choice, if it was timed


def default_path(gpu: str) -> Path:
    """In the user's cache folder, a file for each kind of GPU."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    name = re.sub(r"[^a-z0-9]+", "-", gpu.lower()).strip("-")
    return Path(cache) / "vitamin_hgemm" / f"tuning-{name}.json"


def _is_name(value):
    """Whether it is a string that the compiled parts can be given."""
    return isinstance(value, str) and value.isascii() and "\0" not in value


def _integer(raw, name, least=0):
    value = raw[name]
    if type(value) is not int or not least <= value <= _MOST.get(name, 2**63 - 1):
        raise ValueError(name)
    return value


def _microseconds(raw, name):
    value = raw.get(name)
    known = type(value) in (int, float) and 0 < value < math.inf
    return float(value) if known else None


def _entry_of(raw):
    """Raises KeyError, TypeError or ValueError if it is no entry."""
    key = []
    for name in FIELDS:
        words = _WORDS.get(name)
        key.append(words.index(raw[name]) if words else _integer(raw, name))
    if not _is_name(raw["kernel"]):
        raise ValueError("kernel")
    way = Way(raw["kernel"], _integer(raw, "splits", least=1))
    return Entry(tuple(key), way, _microseconds(raw, "us"), _microseconds(raw, "model_us"))


def _json_of(entry):
    raw = {
        name: _WORDS[name][value] if name in _WORDS else value
        for name, value in zip(FIELDS, entry.key, strict=True)
    }
    times = {"us": entry.us, "model_us": entry.model_us}
    times = {name: round(value, 3) for name, value in times.items() if value is not None}
    return raw | {"kernel": entry.way.kernel, "splits": entry.way.splits} | times


def read(path: Path) -> tuple[str, list[Entry], int]:
    """The GPU, the entries, and how many more there are that are malformed.

    Raises:
        FileNotFoundError: there is no such file.
        UnusableError: it can't be read, or is of another format or version of the package.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise UnusableError(f"it can't be read ({error})") from error
    if not isinstance(content, dict):
        raise UnusableError("it is no tuning file")
    for name, wanted in (("format", FORMAT), ("version", __version__)):
        if content.get(name) != wanted:
            raise UnusableError(f"its {name} is {content.get(name)!r}; wanted {wanted!r}")
    gpu, listed = content.get("gpu"), content.get("entries")
    if not _is_name(gpu) or not isinstance(listed, list):
        raise UnusableError("it is no tuning file")
    entries, malformed = [], 0
    for raw in listed:
        try:
            entries.append(_entry_of(raw))
        except (KeyError, TypeError, ValueError):
            malformed += 1
    return gpu, entries, malformed


@contextlib.contextmanager
def _locked(path):
    """Alone among the processes and threads that write the file."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def prepare(path: Path) -> None:
    """Makes the folder. Raises OSError if files can't be written there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(f"{path.parent} can't be written")


def merge(path: Path, gpu: str, entries: list[Entry]) -> None:
    """Writes the entries beside those of other problems that the file has by now.

    What the file has of another GPU, version or format is dropped. Readers see the old file or the
    new one. Raises OSError.
    """
    path = Path(os.path.realpath(path))
    with _locked(path):
        try:
            gpu_before, before, _ = read(path)
        except (FileNotFoundError, UnusableError):
            gpu_before, before = gpu, []
        kept = {entry.key: entry for entry in before if gpu_before == gpu}
        kept |= {entry.key: entry for entry in entries}
        content = {"format": FORMAT, "version": __version__, "gpu": gpu}
        content["entries"] = [_json_of(kept[key]) for key in sorted(kept)]
        new = path.with_name(f"{path.name}.new")
        with new.open("w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
