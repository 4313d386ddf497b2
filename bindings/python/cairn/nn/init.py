"""Initialisers: they write into a tensor and return it."""
from __future__ import annotations

import math
import warnings
from typing import Any

from .. import _C
from .._tensor import Tensor

__all__ = ["calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
           "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_"]


def _run(name: str, tensor: Tensor, *numbers: float, mode: str | None = None, nonlinearity: str | None = None,
         generator: Any = None) -> Tensor:
    a, b, c, d = [float(n) for n in numbers] + [0.0] * (4 - len(numbers))
    return _C._init(name, tensor, a, b, c, d, mode, nonlinearity, generator)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """What a nonlinearity wants the deviation of its inputs multiplied by."""
    return _C._init_gain(nonlinearity, math.nan if param is None else float(param))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform between a and b."""
    return _run("uniform", tensor, a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with that mean and deviation."""
    return _run("normal", tensor, mean, std, generator=generator)


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: Any = None) -> Tensor:
    """Normal, drawn again outside [a, b]."""
    return _run("trunc_normal", tensor, mean, std, a, b, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    return _run("constant", tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones."""
    return _run("constant", tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros."""
    return _run("constant", tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """A matrix with ones on the diagonal."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _run("eye", tensor)


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution's weight that changes nothing."""
    if tensor.ndim not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    return _run("dirac", tensor, groups)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform with variance 2 gain^2 / (inputs + outputs)."""
    _calculate_fan_in_and_fan_out(tensor)
    return _run("xavier_uniform", tensor, gain, generator=generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with variance 2 gain^2 / (inputs + outputs)."""
    _calculate_fan_in_and_fan_out(tensor)
    return _run("xavier_normal", tensor, gain, generator=generator)


def _kaiming(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str, generator: Any) -> Tensor:
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=3)
        return tensor
    _calculate_fan_in_and_fan_out(tensor)
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError("Mode %s not supported, please use one of ['fan_in', 'fan_out']" % mode)
    return _run(name, tensor, a, mode=mode, nonlinearity=nonlinearity, generator=generator)


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: Any = None) -> Tensor:
    """Uniform with variance gain^2 / inputs, or outputs with mode "fan_out"."""
    return _kaiming("kaiming_uniform", tensor, a, mode, nonlinearity, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: Any = None) -> Tensor:
    """Normal with variance gain^2 / inputs, or outputs with mode "fan_out"."""
    return _kaiming("kaiming_normal", tensor, a, mode, nonlinearity, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Rows or columns at right angles to each other, those that are fewer."""
    if tensor.ndim < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    return _run("orthogonal", tensor, gain, generator=generator)


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Normal, with that part of each column zero."""
    if tensor.ndim != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return _run("sparse", tensor, sparsity, std, generator=generator)


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """Numbers of inputs and outputs of a weight."""
    if tensor.ndim < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    return _calculate_fan_in_and_fan_out(tensor)[0 if mode.lower() == "fan_in" else 1]


def _older(name: str) -> Any:
    """The function under its name without the underscore, as programs from before the underscore have it."""
    function = globals()[name + "_"]

    def older(*args: Any, **kwargs: Any) -> Any:
        warnings.warn("nn.init.%s is deprecated in favour of nn.init.%s_" % (name, name), FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    older.__name__ = older.__qualname__ = name
    older.__doc__ = "The older name of %s_." % name
    return older


constant, dirac, eye, kaiming_normal, kaiming_uniform, normal = map(
    _older, ("constant", "dirac", "eye", "kaiming_normal", "kaiming_uniform", "normal"))
orthogonal, sparse, uniform, xavier_normal, xavier_uniform = map(
    _older, ("orthogonal", "sparse", "uniform", "xavier_normal", "xavier_uniform"))


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(tensor: Tensor, mean: float, std: float, a: float, b: float,
                           generator: Any = None) -> Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return zeros_(tensor)
