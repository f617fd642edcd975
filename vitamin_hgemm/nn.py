"""torch.nn.Linear on vitamin_hgemm."""

from collections.abc import Callable

import torch

from ._fake import DTYPES
from ._numbers import ACTIVATIONS, KERNELS
from .ops import hgemm

__all__ = ["Linear", "replace_linears"]


class Linear(torch.nn.Linear):
    """y = activation(x @ weight.T + bias), in one kernel.

    Parameters, initialisation and state dict are those of torch.nn.Linear. The product itself
    needs x, weight and bias in float16 or bfloat16, or an enclosing torch.autocast.

    Args:
        in_features: size of x's last dimension.
        out_features: size of y's last dimension.
        bias: whether to add a learned bias of [out_features].
        activation: "none", "relu", "gelu", "gelu_tanh" or "silu".
        device: where the parameters are made.
        dtype: their dtype; None is torch's default dtype.
        kernel: as in vitamin_hgemm.hgemm.

    Raises:
        ValueError: `activation` is none of the five, or no kernel or family is called `kernel`.

    Shape: x [..., in_features], y [..., out_features]; weight [out_features, in_features].
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        activation: str = "none",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        kernel: str = "auto",
    ):
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation = _checked("activation", activation, ACTIVATIONS)
        self.kernel = _checked("kernel", kernel, KERNELS)

    @classmethod
    def from_linear(
        cls,
        linear: torch.nn.Linear,
        activation: str | None = None,
        *,
        kernel: str | None = None,
    ) -> "Linear":
        """A new module on the very parameters of `linear`, in its training mode.

        Args:
            linear: a torch.nn.Linear, or one of this class.
            activation: None for that of `linear`, which is "none" for a torch.nn.Linear.
            kernel: None for that of `linear`, which is "auto" for a torch.nn.Linear.

        Raises:
            TypeError: `linear` is no torch.nn.Linear, or its weight is computed by a
                parametrisation instead of being a parameter.
            ValueError: `activation` is none of the five, or no kernel or family is called `kernel`.
        """
        if not isinstance(linear, torch.nn.Linear):
            raise TypeError(f"linear is a {type(linear).__name__}; wanted a torch.nn.Linear")
        if not isinstance(linear.weight, torch.nn.Parameter):
            raise TypeError("linear has a computed weight; wanted one without parametrisation")
        if activation is None:
            activation = linear.activation if isinstance(linear, Linear) else "none"
        if kernel is None:
            kernel = linear.kernel if isinstance(linear, Linear) else "auto"
        new = cls(
            linear.in_features,
            linear.out_features,
            linear.bias is not None,
            activation,
            device="meta",
            dtype=linear.weight.dtype,
            kernel=kernel,
        )
        new.weight, new.bias = linear.weight, linear.bias
        return new.train(linear.training)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return hgemm(
            x, self.weight.mT, bias=self.bias, activation=self.activation, kernel=self.kernel
        )

    def extra_repr(self) -> str:
        text = super().extra_repr()
        if self.activation != "none":
            text += f", activation={self.activation}"
        if self.kernel != "auto":
            text += f", kernel={self.kernel}"
        return text


def _checked(name, value, known):
    if value not in known:
        raise ValueError(f"{name} is {value!r}; wanted one of {', '.join(known)}")
    return value


def _is_plain(tensor):
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and (
        type(tensor.data) is torch.Tensor and tensor.layout == torch.strided
    )


def _is_replaceable(module):
    if type(module) is not torch.nn.Linear or "forward" in vars(module):
        return False
    weight, bias = module.weight, module.bias
    if not _is_plain(weight) or weight.dtype not in DTYPES:
        return False
    return bias is None or (_is_plain(bias) and bias.dtype == weight.dtype)


def replace_linears(
    model: torch.nn.Module,
    *,
    kernel: str = "auto",
    filter: Callable[[str, torch.nn.Linear], bool] | None = None,
) -> list[str]:
    """Puts every half-precision torch.nn.Linear of `model` on vitamin_hgemm, in place.

    The modules stay the same objects and become instances of vitamin_hgemm.nn.Linear, so that
    parameters, tied weights, hooks, optimizers and other references to them stay as they are.
    Left alone are Linears of another dtype, subclasses of torch.nn.Linear (parametrised, quantised
    or otherwise adapted ones), weights that are tensor subclasses, and modules whose `forward` has
    been overridden on the instance.

    Args:
        model: the module to change; it may be a torch.nn.Linear itself.
        kernel: as in vitamin_hgemm.hgemm.
        filter: called with qualified name and module; a false result leaves that module alone.

    Returns:
        The qualified names of the modules that were changed, in the order of named_modules(). A
        module that is registered under several names is listed under each.

    Raises:
        ValueError: no kernel or family is called `kernel`; nothing has been changed.
    """
    _checked("kernel", kernel, KERNELS)
    found = {}
    for name, module in model.named_modules(remove_duplicate=False):
        if _is_replaceable(module) and (filter is None or filter(name, module)):
            found[name] = module
    for module in found.values():
        module.__class__ = Linear
        module.activation = "none"
        module.kernel = kernel
    return list(found)
