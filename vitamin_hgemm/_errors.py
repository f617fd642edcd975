"""Brings exceptions of Python kernels through the C++ half of a call, as they were raised.

vitamin::hgemm's kernel under autograd is C++ and calls the dispatcher again, by a C interface that
turns whatever is raised inside into an error code. Types matter, though: activation checkpointing
stops a recomputation by raising, tracing tells the reasons for graph breaks apart, and there is
KeyboardInterrupt. So a Python kernel keeps what it raises, tells the C++ its text, and the Python
caller of the op, who gets a RuntimeError with that text, raises the kept exception in its place.
"""

import ctypes
import functools
import threading

from ._library import op_library_path

_tell = ctypes.CDLL(str(op_library_path())).vitamin_keep_error
_tell.argtypes, _tell.restype = [ctypes.c_char_p], None

_kept = threading.local()


def keeping_errors(kernel):
    """`kernel`, with what it raises kept for the Python caller of the op."""

    @functools.wraps(kernel)
    def keeping(*args, **kwargs):
        try:
            return kernel(*args, **kwargs)
        except BaseException as error:
            _kept.error = error
            _tell(str(error).encode())
            raise

    return keeping


def _restoring_errors(call):
    def restoring(*args, **kwargs):
        try:
            return call(*args, **kwargs)
        except BaseException as error:
            kept = vars(_kept).pop("error", None)
            if kept is None or type(error) is not RuntimeError or str(kept) != str(error):
                raise
        raise kept

    return restoring


def restore_errors_of(packet) -> None:
    """Makes calls of torch.ops.<namespace>.<packet> raise kept exceptions."""
    for op in (packet, *(getattr(packet, name) for name in packet.overloads())):
        op._op = _restoring_errors(op._op)
