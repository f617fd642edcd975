"""Half-precision matrix multiplication for PyTorch, with fp32 accumulation.

>>> import torch, vitamin_hgemm
>>> x = torch.randn(4, 8, dtype=torch.bfloat16)
>>> weight = torch.randn(16, 8, dtype=torch.bfloat16)
>>> vitamin_hgemm.hgemm(x, weight.mT, activation="silu").shape
torch.Size([4, 16])
"""

from ._library import load_ops

load_ops()

from . import nn, tuning  # noqa: E402
from .nn import replace_linears  # noqa: E402
from .ops import hgemm  # noqa: E402
from .planning import DeviceFacts, Plan, kernels, plan  # noqa: E402
from .version import __version__  # noqa: E402

tuning.load_at_import()

__all__ = [
    "DeviceFacts",
    "Plan",
    "__version__",
    "hgemm",
    "kernels",
    "nn",
    "plan",
    "replace_linears",
    "tuning",
]
