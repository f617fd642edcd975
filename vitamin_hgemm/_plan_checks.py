"""What plan() refuses: arguments that no tensor and no GPU could have."""

import math

from ._numbers import ACTIVATIONS, KERNELS

_INT32, _INT64 = 2**31 - 1, 2**63 - 1

# More than all that a launch needs beside the copies of its operands.
_WORKSPACE_RESERVE = 2**31


def check_one_of(name, value, known, wanted=None):
    if value not in known:
        wanted = wanted or f"one of {', '.join(known)}"
        raise ValueError(f"{name} is {value!r}; wanted {wanted}")


def _check_int(name, value, least=0, most=_INT64):
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; wanted an integer")
    if value < least:
        raise ValueError(f"{name} is {value}; wanted {least} or more")
    if value > most:
        raise ValueError(f"{name} is {value}; wanted at most {most}")


def _check_bytes(what, size):
    if size > _INT64:
        raise ValueError(f"{what} takes {size} bytes; wanted at most {_INT64}")


def _check_sizes(m, n, k, batch, layout, pitches, out_itemsize):
    """Pitches that hold a row, and memory that 64 bits can address."""
    a, b = (m, k), (k, n)
    a = a if layout[0] == "n" else a[::-1]
    b = b if layout[1] == "n" else b[::-1]
    batch = max(batch, 1)
    workspace = _WORKSPACE_RESERVE
    for name, (rows, columns), itemsize in (("a", a, 2), ("b", b, 2), ("c", (m, n), out_itemsize)):
        pitch = pitches[f"ld{name}"]
        if pitch is None:
            pitch = columns
        _check_int(f"ld{name}", pitch, columns)
        what = "the result" if name == "c" else name
        _check_bytes(what, batch * rows * pitch * itemsize)
        if name != "c":
            quantum = 8 if columns < 512 else 64  # elements to which a copy's rows are padded
            workspace += batch * rows * -(-columns // quantum) * quantum * itemsize
    _check_bytes("the workspace for copies of a and b", workspace)


def check_problem(
    m, n, k, *, batch, layout, kernel, align_offset, bias, activation, out_itemsize, **pitches
):
    check_one_of("layout", layout, ("nn", "nt", "tn", "tt"), "nn, nt, tn or tt")
    check_one_of("kernel", kernel, KERNELS)
    check_one_of("activation", activation, ACTIVATIONS)
    check_one_of("bias", bias, (True, False), "True or False")
    for name, value in dict(m=m, n=n, k=k, batch=batch, align_offset=align_offset).items():
        _check_int(name, value)
    if align_offset % 2:
        raise ValueError(f"align_offset is {align_offset}; wanted an even number of bytes")
    _check_sizes(m, n, k, batch, layout, pitches, out_itemsize)


def check_device(facts):
    if not isinstance(facts.name, str):
        raise ValueError(f"device.name is {facts.name!r}; wanted a string")
    for name in ("cc", "sm_count"):
        _check_int(f"device.{name}", getattr(facts, name), 1, _INT32)
    for name in ("smem_per_block", "smem_per_sm", "l2_bytes"):
        _check_int(f"device.{name}", getattr(facts, name))
    for name in ("sm_ghz", "dram_tbs"):
        rate = getattr(facts, name)
        number = isinstance(rate, (int, float)) and not isinstance(rate, bool)
        if not number or not 0 < rate < math.inf:
            raise ValueError(f"device.{name} is {rate!r}; wanted a finite number above 0")
