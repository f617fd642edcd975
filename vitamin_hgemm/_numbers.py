"""Activations and kernels by number, as the ops that vitamin::hgemm redispatches to take them."""

import ctypes

from ._library import op_library_path

ACTIVATIONS = ("none", "relu", "gelu", "gelu_tanh", "silu")
NUMBERED_OPS = ("_hgemm_no_grad", "_hgemm_grad")


def _kernel_names():
    names = ctypes.CDLL(str(op_library_path())).vitamin_kernel_names
    names.restype = ctypes.c_char_p
    return names().decode().split(", ")


KERNELS = _kernel_names()


def kernel_of(op, kernel):
    """`kernel`, which takes names, as a kernel of the op called `op`."""
    if op.split(".")[0] not in NUMBERED_OPS:
        return kernel

    def numbered(a, b, bias=None, activation=0, kernel_number=0, out_dtype=None, **out):
        names = ACTIVATIONS[activation], KERNELS[kernel_number]
        return kernel(a, b, bias, *names, out_dtype, **out)

    return numbered
