"""Activations by name: keras.activations."""
from __future__ import annotations

from typing import Any, Callable

from ..nn import functional as F

__all__ = ["elu", "exponential", "gelu", "get", "hard_sigmoid", "hard_swish", "leaky_relu", "linear", "log_softmax",
           "mish", "relu", "relu6", "selu", "serialize", "sigmoid", "silu", "softmax", "softplus", "softsign", "swish",
           "tanh"]


def linear(x: Any) -> Any:
    return x


def relu(x: Any, negative_slope: float = 0.0, max_value: float | None = None, threshold: float = 0.0) -> Any:
    if not negative_slope and max_value is None and not threshold:
        return F.relu(x)
    y = x * (x >= threshold).to(x.dtype) + negative_slope * (x - threshold) * (x < threshold).to(x.dtype)
    return y if max_value is None else y.clamp(max=max_value)


def softmax(x: Any, axis: int = -1) -> Any:
    return F.softmax(x, dim=axis)


def log_softmax(x: Any, axis: int = -1) -> Any:
    return F.log_softmax(x, dim=axis)


def sigmoid(x: Any) -> Any:
    return x.sigmoid()


def tanh(x: Any) -> Any:
    return x.tanh()


def exponential(x: Any) -> Any:
    return x.exp()


def elu(x: Any, alpha: float = 1.0) -> Any:
    return F.elu(x, alpha)


def selu(x: Any) -> Any:
    return F.selu(x)


def gelu(x: Any, approximate: bool = False) -> Any:
    return F.gelu(x, approximate="tanh" if approximate else "none")


def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    return F.leaky_relu(x, negative_slope)


def relu6(x: Any) -> Any:
    return F.relu6(x)


def silu(x: Any) -> Any:
    return F.silu(x)


swish = silu


def mish(x: Any) -> Any:
    return F.mish(x)


def softplus(x: Any) -> Any:
    return F.softplus(x)


def softsign(x: Any) -> Any:
    return F.softsign(x)


def hard_sigmoid(x: Any) -> Any:
    return F.hardsigmoid(x)


def hard_swish(x: Any) -> Any:
    return F.hardswish(x)


hard_silu = hard_swish


def get(identifier: Any) -> Callable[..., Any]:
    """The function of a name; None is linear."""
    if identifier is None:
        return linear
    if isinstance(identifier, str):
        found = globals().get(identifier)
        if identifier in ("get", "serialize", "annotations") or not callable(found):
            raise ValueError("unknown activation %r; there are %s" % (identifier, ", ".join(
                name for name in __all__ if name not in ("get", "serialize"))))
        return found  # type: ignore[no-any-return]
    if not callable(identifier):
        raise ValueError("an activation is a name or a function, not %r" % (identifier,))
    return identifier  # type: ignore[no-any-return]


def serialize(activation: Any) -> str:
    return str(getattr(activation, "__name__", activation))
