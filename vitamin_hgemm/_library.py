"""Loads the op library, which defines torch.ops.vitamin, and the optional planning module."""

import importlib
from pathlib import Path

import torch

MIN_TORCH = (2, 11)
OP_LIBRARY = "_ops.abi3.so"


def op_library_path() -> Path:
    return Path(__file__).with_name(OP_LIBRARY)


def load_ops() -> None:
    """Registers the ops of torch.ops.vitamin.

    Raises:
        ImportError: torch is too old for the op library, or the library is missing or broken.
    """
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < MIN_TORCH:
        wanted = ".".join(map(str, MIN_TORCH))
        raise ImportError(
            f"vitamin_hgemm needs torch {wanted} or newer, this is {torch.__version__}"
        )
    path = op_library_path()
    if not path.exists():
        raise ImportError(
            f"vitamin_hgemm has not been built: {OP_LIBRARY} is missing from {path.parent}. "
            "Build it in the checkout with: pip install --no-build-isolation -e ."
        )
    try:
        torch.ops.load_library(str(path))
    except OSError as error:
        raise ImportError(
            f"{path} does not load with torch {torch.__version__}: {error}"
        ) from error


def planner():
    """The pybind11 module behind kernels() and plan().

    Raises:
        RuntimeError: it was not built for this Python. The ops work without it.
    """
    try:
        return importlib.import_module("vitamin_hgemm._C")
    except ImportError as error:
        raise RuntimeError(
            "the planning module of vitamin_hgemm (_C) was not built for this Python, so kernels() "
            f"and plan() are not available; the ops are. It says: {error}"
        ) from error
