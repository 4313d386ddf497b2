"""Activations by name: keras.activations."""
from __future__ import annotations

import math
from typing import Any, Callable

import cairn
from ..nn import functional as F

__all__ = ["celu", "deserialize", "elu", "exponential", "gelu", "get", "glu", "hard_shrink", "hard_sigmoid",
           "hard_silu", "hard_swish", "hard_tanh", "leaky_relu", "linear", "log_sigmoid", "log_softmax", "mish", "relu",
           "relu6", "selu", "serialize", "sigmoid", "silu", "soft_shrink", "softmax", "softplus", "softsign",
           "sparse_plus",
           "sparse_sigmoid", "sparsemax", "squareplus", "swish", "tanh", "tanh_shrink", "threshold"]


def _outside(x: Any) -> bool:
    """Whether it is a place of a model: then the function of keras.ops of the same name takes it."""
    from ._graph import KerasTensor
    return isinstance(x, KerasTensor)


def _known(f: Callable[..., Any]) -> Callable[..., Any]:
    """Takes places of a model and arrays too."""
    from functools import wraps

    @wraps(f)
    def outer(x: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(x, cairn.Tensor):
            return f(x, *args, **kwargs)
        if _outside(x):
            from ._function import call_op
            from . import ops
            return call_op(getattr(ops, f.__name__, outer), f.__name__, (x, *args), kwargs)
        from .._training.batches import to_tensor
        x = to_tensor(x)
        return f(x if x.dtype.is_floating_point else x.to(cairn.get_default_dtype()), *args, **kwargs)
    return outer


@_known
def linear(x: Any) -> Any:
    return x


@_known
def relu(x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Any:
    if not negative_slope and max_value is None and not threshold:
        return F.relu(x)
    y = x * (x >= threshold).to(x.dtype) + negative_slope * (x - threshold) * (x < threshold).to(x.dtype)
    return y if max_value is None else y.clamp(max=max_value)


@_known
def softmax(x: Any, axis: Any = -1) -> Any:
    if isinstance(axis, int):
        return F.softmax(x, dim=axis)
    axes = [d % x.ndim for d in axis]  # over several dimensions at once
    rest = [d for d in range(x.ndim) if d not in axes]
    moved = x.permute(*rest, *axes)
    flat = F.softmax(moved.reshape(tuple(moved.shape[:len(rest)]) + (-1,)), dim=-1).reshape(tuple(moved.shape))
    back = [0] * x.ndim
    for i, d in enumerate(rest + axes):
        back[d] = i
    return flat.permute(*back)


@_known
def log_softmax(x: Any, axis: int = -1) -> Any:
    return F.log_softmax(x, dim=axis)


@_known
def sigmoid(x: Any) -> Any:
    return x.sigmoid()


@_known
def tanh(x: Any) -> Any:
    return x.tanh()


@_known
def exponential(x: Any) -> Any:
    return x.exp()


@_known
def elu(x: Any, alpha: float = 1.0) -> Any:
    return F.elu(x, alpha)


@_known
def celu(x: Any, alpha: float = 1.0) -> Any:
    return F.celu(x, alpha)


@_known
def selu(x: Any) -> Any:
    return F.selu(x)


@_known
def gelu(x: Any, approximate: bool = False) -> Any:
    return F.gelu(x, approximate="tanh" if approximate else "none")


@_known
def glu(x: Any, axis: int = -1) -> Any:
    return F.glu(x, axis)


@_known
def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    return F.leaky_relu(x, negative_slope)


@_known
def relu6(x: Any) -> Any:
    return F.relu6(x)


@_known
def silu(x: Any) -> Any:
    return F.silu(x)


swish = silu


@_known
def mish(x: Any) -> Any:
    return F.mish(x)


@_known
def softplus(x: Any) -> Any:
    return F.softplus(x)


@_known
def softsign(x: Any) -> Any:
    return F.softsign(x)


@_known
def hard_sigmoid(x: Any) -> Any:
    return F.hardsigmoid(x)


@_known
def hard_silu(x: Any) -> Any:
    return F.hardswish(x)


hard_swish = hard_silu


@_known
def hard_tanh(x: Any) -> Any:
    return F.hardtanh(x)


@_known
def hard_shrink(x: Any, threshold: float = 0.5) -> Any:
    return F.hardshrink(x, threshold)


@_known
def soft_shrink(x: Any, threshold: float = 0.5) -> Any:
    return F.softshrink(x, threshold)


@_known
def tanh_shrink(x: Any) -> Any:
    return F.tanhshrink(x)


@_known
def log_sigmoid(x: Any) -> Any:
    return F.logsigmoid(x)


@_known
def threshold(x: Any, threshold: float, default_value: float) -> Any:
    return F.threshold(x, threshold, default_value)


@_known
def squareplus(x: Any, b: float = 4) -> Any:
    return 0.5 * (x + (x.square() + b).sqrt())


@_known
def sparse_plus(x: Any) -> Any:
    """0 up to -1, then a parabola, x from 1 on."""
    return cairn.where(x <= -1, cairn.zeros_like(x), cairn.where(x < 1, 0.25 * (x + 1).square(), x))


@_known
def sparse_sigmoid(x: Any) -> Any:
    return (0.5 * (x + 1)).clamp(0.0, 1.0)


@_known
def sparsemax(x: Any, axis: int = -1) -> Any:
    """The nearest point whose numbers are not negative and add up to 1 (Martins and Astudillo, 2016)."""
    x = x.movedim(axis, -1)
    best = x.sort(-1, descending=True)[0]
    count = cairn.arange(1, int(x.shape[-1]) + 1, dtype=x.dtype)
    sums = best.cumsum(-1)
    many = (1.0 + count * best > sums).to(x.dtype).sum(-1, keepdim=True)
    level = (sums.gather(-1, many.long() - 1) - 1.0) / many
    return (x - level).clamp(0.0, math.inf).movedim(-1, axis)


def get(identifier: Any) -> Callable[..., Any]:
    """The function of a name; None is linear."""
    if identifier is None:
        return linear
    if isinstance(identifier, dict):
        made: Callable[..., Any] = deserialize(identifier)
        return made
    if isinstance(identifier, str):
        from ._serial import get_custom_objects
        found = get_custom_objects().get(identifier) or (globals().get(identifier) if identifier in __all__ else None)
        if identifier in ("get", "serialize", "deserialize") or not callable(found):
            raise ValueError("unknown activation %r; there are %s" % (identifier, ", ".join(
                name for name in __all__ if name not in ("get", "serialize", "deserialize"))))
        return found  # type: ignore[no-any-return]
    if not callable(identifier):
        raise ValueError("an activation is a name or a function, not %r" % (identifier,))
    return identifier  # type: ignore[no-any-return]


def serialize(activation: Any) -> Any:
    """A name, or what says where a function of the program's is."""
    name = str(getattr(activation, "__name__", activation))
    if globals().get(name) is activation:
        return name
    from ._serial import serialize as serialized
    return serialized(activation)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    from ._serial import deserialize as made
    return get(config) if isinstance(config, str) else made(config, custom_objects)
