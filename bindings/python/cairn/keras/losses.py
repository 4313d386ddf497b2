"""Losses as Keras has them: of (targets, outputs), a value for each sample, probabilities unless from_logits is set.

All are made of cairn's ops. get() also knows torch's names, which take scores: "cross_entropy", "bce_with_logits".
"""
from __future__ import annotations

import math
from typing import Any, Callable

import cairn
from ..nn import functional as F
from . import dtype_policies
from ._batches import mapped, to_tensor
from .backend import dtype_of, epsilon, floatx

__all__ = ["BinaryCrossentropy", "BinaryFocalCrossentropy", "CategoricalCrossentropy", "CosineSimilarity", "Hinge",
           "CategoricalHinge", "Huber", "KLDivergence", "LogCosh", "Loss", "MeanAbsoluteError",
           "MeanAbsolutePercentageError", "MeanSquaredError", "MeanSquaredLogarithmicError", "Poisson",
           "SparseCategoricalCrossentropy", "SquaredHinge", "binary_crossentropy", "categorical_crossentropy",
           "categorical_hinge", "cosine_similarity", "deserialize", "get", "hinge", "huber", "kl_divergence",
           "log_cosh", "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_error",
           "mean_squared_logarithmic_error", "poisson", "serialize", "sparse_categorical_crossentropy", "squared_hinge"]


def _pair(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Both as tensors of the output's type; targets (N) for outputs (N, 1) and the other way round agree."""
    y_pred, y_true = to_tensor(y_pred), to_tensor(y_true)
    if not y_pred.dtype.is_floating_point:
        y_pred = y_pred.to(cairn.get_default_dtype())
    y_true = y_true.to(device=y_pred.device, dtype=y_pred.dtype)
    if y_true.ndim == y_pred.ndim - 1 and y_pred.shape[-1] == 1:
        y_true = y_true.unsqueeze(-1)
    elif y_true.ndim == y_pred.ndim + 1 and y_true.shape[-1] == 1:
        y_true = y_true.squeeze(-1)
    return y_true, y_pred


def _in_floats(value: Any) -> Any:
    """What a loss of a program's own is given: floats, as Keras does it."""
    if value is None or isinstance(value, str):
        return value
    value = to_tensor(value)
    return value if value.dtype.is_floating_point else value.to(cairn.get_default_dtype())


def _mean(values: Any, axis: int = -1) -> Any:
    """Over the places of each sample; values that are one for each sample stay as they are."""
    return values.mean(axis) if values.ndim > 1 or values.ndim == 1 and values.shape[0] == 1 else values


def _target_first(f: Callable[..., Any]) -> Callable[..., Any]:
    f._target_first = True  # type: ignore[attr-defined]
    return f


@_target_first
def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(F.mse_loss(y_pred, y_true, reduction="none"))


@_target_first
def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(F.l1_loss(y_pred, y_true, reduction="none"))


@_target_first
def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return 100.0 * _mean(((y_true - y_pred) / y_true.abs().clamp(min=epsilon())).abs())


@_target_first
def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean((y_pred.clamp(min=epsilon()).log1p() - y_true.clamp(min=epsilon()).log1p()).square())


@_target_first
def log_cosh(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    d = y_pred - y_true
    return _mean(d + F.softplus(-2.0 * d) - math.log(2.0))


@_target_first
def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(F.huber_loss(y_pred, y_true, reduction="none", delta=delta))


def _signs(y_true: Any) -> Any:
    """Targets of 0 and 1 as -1 and 1."""
    return 2.0 * y_true - 1.0 if bool(((y_true == 0) | (y_true == 1)).all()) else y_true


@_target_first
def hinge(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean((1.0 - _signs(y_true) * y_pred).clamp(min=0.0))


@_target_first
def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean((1.0 - _signs(y_true) * y_pred).clamp(min=0.0).square())


@_target_first
def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return (((1.0 - y_true) * y_pred).amax(-1) - (y_true * y_pred).sum(-1) + 1.0).clamp(min=0.0)


@_target_first
def kl_divergence(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    t, p = y_true.clamp(epsilon(), 1.0), y_pred.clamp(epsilon(), 1.0)
    return (t * (t / p).log()).sum(-1)


@_target_first
def poisson(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(y_pred - y_true * (y_pred + epsilon()).log())


@_target_first
def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return -(F.normalize(y_true, dim=axis) * F.normalize(y_pred, dim=axis)).sum(axis)


@_target_first
def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0,
                        axis: int = -1) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    if from_logits:
        return _mean(F.binary_cross_entropy_with_logits(y_pred, y_true, reduction="none"), axis)
    p = y_pred.clamp(epsilon(), 1.0 - epsilon())
    return _mean(F.binary_cross_entropy(p, y_true, reduction="none"), axis)


@_target_first
def binary_focal_crossentropy(y_true: Any, y_pred: Any, apply_class_balancing: bool = False, alpha: float = 0.25,
                              gamma: float = 2.0, from_logits: bool = False, label_smoothing: float = 0.0,
                              axis: int = -1) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    p = (y_pred.sigmoid() if from_logits else y_pred).clamp(epsilon(), 1.0 - epsilon())
    right = y_true * p + (1.0 - y_true) * (1.0 - p)
    values = (1.0 - right).pow(gamma) * F.binary_cross_entropy(p, y_true, reduction="none")
    if apply_class_balancing:
        values = values * (y_true * alpha + (1.0 - y_true) * (1.0 - alpha))
    return _mean(values, axis)


@_target_first
def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0,
                             axis: int = -1) -> Any:
    y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
    if tuple(y_true.shape) != tuple(y_pred.shape):
        raise ValueError("categorical_crossentropy needs targets of the outputs' shape %s, one place for each class, "
                         "not %s; for classes as integers take sparse_categorical_crossentropy"
                         % (tuple(y_pred.shape), tuple(y_true.shape)))
    y_true = y_true.to(device=y_pred.device, dtype=y_pred.dtype)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / y_true.shape[axis]
    return -(y_true * _log_probabilities(y_pred, from_logits, axis)).sum(axis)


def _log_probabilities(y_pred: Any, from_logits: bool, axis: int) -> Any:
    if from_logits:
        return F.log_softmax(y_pred, dim=axis)
    p = y_pred / y_pred.sum(axis, keepdim=True)
    return p.clamp(epsilon(), 1.0 - epsilon()).log()


@_target_first
def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False,
                                    ignore_class: int | None = None, axis: int = -1) -> Any:
    y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
    if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1:
        y_true = y_true.squeeze(-1)
    at = axis % y_pred.ndim
    wanted = tuple(n for i, n in enumerate(y_pred.shape) if i != at)
    if tuple(y_true.shape) != wanted:
        raise ValueError("sparse_categorical_crossentropy needs integers of shape %s for outputs of shape %s, not %s"
                         % (wanted, tuple(y_pred.shape), tuple(y_true.shape)))
    y_true = y_true.to(device=y_pred.device, dtype=cairn.int64)
    known = _log_probabilities(y_pred, from_logits, at)
    if ignore_class is None:
        return -known.gather(at, y_true.unsqueeze(at)).squeeze(at)
    skip = y_true == ignore_class
    picked = -known.gather(at, y_true.masked_fill(skip, 0).unsqueeze(at)).squeeze(at)
    made = picked.masked_fill(skip, 0.0)
    setattr(made, "_keras_mask", ~skip)  # the mean is of those that count
    return made


@_target_first
def cross_entropy(y_true: Any, y_pred: Any) -> Any:
    """torch's: scores (N, C, ...) and classes (N, ...) or probabilities of classes."""
    y_true = to_tensor(y_true).to(y_pred.device)
    if not y_true.dtype.is_floating_point:
        if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1:
            y_true = y_true.squeeze(-1)
        if y_true.ndim < y_pred.ndim:
            y_true = y_true.to(cairn.int64)
        else:
            y_true = y_true.to(y_pred.dtype)
    return F.cross_entropy(y_pred, y_true, reduction="none")


@_target_first
def nll(y_true: Any, y_pred: Any) -> Any:
    return F.nll_loss(y_pred, to_tensor(y_true).to(device=y_pred.device, dtype=cairn.int64), reduction="none")


@_target_first
def bce_with_logits(y_true: Any, y_pred: Any) -> Any:
    return binary_crossentropy(y_true, y_pred, from_logits=True)


@_target_first
def smooth_l1(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return _mean(F.smooth_l1_loss(y_pred, y_true, reduction="none"))


class Loss:
    """To subclass with call(y_true, y_pred), which answers a value for each sample (or one)."""

    def __init__(self, name: str | None = None, reduction: str | None = "sum_over_batch_size",
                 dtype: Any = None) -> None:
        if reduction not in ("sum_over_batch_size", "mean", "mean_with_sample_weight", "sum", "none", None, "auto"):
            raise ValueError("unknown reduction %r: sum_over_batch_size, mean_with_sample_weight, sum or none"
                             % (reduction,))
        self.name, self.reduction = name or type(self).__name__, reduction
        self._dtype = None if dtype is None else dtype_policies.get(dtype).compute_dtype

    @property
    def dtype(self) -> str:
        """The type that the loss is computed in."""
        return floatx() if self._dtype is None else self._dtype

    def _typed(self, value: Any, classes: bool) -> Any:
        """In the loss's own type, where it was given one; `classes`: integers stay, as they may be classes."""
        if self._dtype is None or value is None or isinstance(value, str):
            return value
        value = to_tensor(value)
        return value if classes and not value.dtype.is_floating_point else value.to(dtype_of(self._dtype))

    def call(self, y_true: Any, y_pred: Any) -> Any:
        raise NotImplementedError("%s has no method call(y_true, y_pred)" % type(self).__name__)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        mask = getattr(y_pred, "_keras_mask", None)
        if not isinstance(self, (_Function, _Named)):
            y_true, y_pred = mapped(_in_floats, y_true), mapped(_in_floats, y_pred)
        values = self.call(mapped(lambda y: self._typed(y, True), y_true),
                           mapped(lambda p: self._typed(p, False), y_pred))
        own = getattr(values, "_keras_mask", None)
        mask = own if own is not None else mask
        weight = None
        if sample_weight is not None:
            weight = to_tensor(sample_weight).to(device=values.device, dtype=values.dtype)
            while weight.ndim > values.ndim and weight.shape[-1] == 1:
                weight = weight.squeeze(-1)
            weight = weight.reshape(tuple(weight.shape) + (1,) * (values.ndim - weight.ndim))
        if mask is not None and tuple(mask.shape) == tuple(values.shape):
            seen = mask.to(values.dtype)
            if self.reduction in ("sum_over_batch_size", "mean", "auto"):
                seen = seen * (seen.numel() / seen.sum().clamp(min=1.0))
            weight = seen if weight is None else weight * seen
        if weight is not None:
            values = values * weight
        if self.reduction in (None, "none"):
            return values
        if self.reduction == "sum":
            return values.sum()
        if self.reduction == "mean_with_sample_weight" and weight is not None:
            return values.sum() / weight.expand_as(values).sum()
        return values.mean() if values.ndim else values

    def get_config(self) -> dict[str, Any]:
        own = {} if self._dtype is None else {"dtype": self._dtype}
        return {"name": self.name, "reduction": self.reduction, **own}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


class _Function(Loss):
    """A loss that is one of the functions, with its options."""

    function: Callable[..., Any] = staticmethod(mean_squared_error)
    options: dict[str, Any] = {}

    def __init__(self, reduction: str | None = "sum_over_batch_size", name: str | None = None, dtype: Any = None,
                 **options: Any) -> None:
        unknown = [k for k in options if k not in self.options]
        if unknown:
            raise TypeError("%s has no argument %r" % (type(self).__name__, unknown[0]))
        super().__init__(name or type(self).function.__name__, reduction, dtype)
        self.kwargs = {**self.options, **options}

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return type(self).function(y_true, y_pred, **self.kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self.kwargs}


class MeanSquaredError(_Function):
    pass


class MeanAbsoluteError(_Function):
    function = staticmethod(mean_absolute_error)


class MeanAbsolutePercentageError(_Function):
    function = staticmethod(mean_absolute_percentage_error)


class MeanSquaredLogarithmicError(_Function):
    function = staticmethod(mean_squared_logarithmic_error)


class LogCosh(_Function):
    function = staticmethod(log_cosh)


class Hinge(_Function):
    function = staticmethod(hinge)


class SquaredHinge(_Function):
    function = staticmethod(squared_hinge)


class CategoricalHinge(_Function):
    function = staticmethod(categorical_hinge)


class KLDivergence(_Function):
    function = staticmethod(kl_divergence)


class Poisson(_Function):
    function = staticmethod(poisson)


class Huber(_Function):
    function = staticmethod(huber)

    def __init__(self, delta: float = 1.0, reduction: str | None = "sum_over_batch_size", name: str | None = None,
                 dtype: Any = None) -> None:
        self.options = {"delta": delta}
        super().__init__(reduction, name, dtype)


class CosineSimilarity(_Function):
    function = staticmethod(cosine_similarity)

    def __init__(self, axis: int = -1, reduction: str | None = "sum_over_batch_size", name: str | None = None,
                 dtype: Any = None) -> None:
        self.options = {"axis": axis}
        super().__init__(reduction, name, dtype)


class BinaryCrossentropy(_Function):
    function = staticmethod(binary_crossentropy)

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
                 reduction: str | None = "sum_over_batch_size", name: str | None = None, dtype: Any = None) -> None:
        self.options = {"from_logits": from_logits, "label_smoothing": label_smoothing, "axis": axis}
        super().__init__(reduction, name, dtype)


class BinaryFocalCrossentropy(_Function):
    function = staticmethod(binary_focal_crossentropy)

    def __init__(self, apply_class_balancing: bool = False, alpha: float = 0.25, gamma: float = 2.0,
                 from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
                 reduction: str | None = "sum_over_batch_size", name: str | None = None, dtype: Any = None) -> None:
        self.options = {"apply_class_balancing": apply_class_balancing, "alpha": alpha, "gamma": gamma,
                        "from_logits": from_logits, "label_smoothing": label_smoothing, "axis": axis}
        super().__init__(reduction, name, dtype)


class CategoricalCrossentropy(_Function):
    function = staticmethod(categorical_crossentropy)

    def __init__(self, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1,
                 reduction: str | None = "sum_over_batch_size", name: str | None = None, dtype: Any = None) -> None:
        self.options = {"from_logits": from_logits, "label_smoothing": label_smoothing, "axis": axis}
        super().__init__(reduction, name, dtype)


class SparseCategoricalCrossentropy(_Function):
    function = staticmethod(sparse_categorical_crossentropy)

    def __init__(self, from_logits: bool = False, ignore_class: int | None = None,
                 reduction: str | None = "sum_over_batch_size", axis: int = -1, name: str | None = None,
                 dtype: Any = None) -> None:
        self.options = {"from_logits": from_logits, "ignore_class": ignore_class, "axis": axis}
        super().__init__(reduction, name, dtype)


_functions: dict[str, Callable[..., Any]] = {
    "mse": mean_squared_error, "mean_squared_error": mean_squared_error, "mae": mean_absolute_error,
    "mean_absolute_error": mean_absolute_error, "l1": mean_absolute_error, "mape": mean_absolute_percentage_error,
    "mean_absolute_percentage_error": mean_absolute_percentage_error, "msle": mean_squared_logarithmic_error,
    "mean_squared_logarithmic_error": mean_squared_logarithmic_error, "log_cosh": log_cosh, "logcosh": log_cosh,
    "huber": huber, "smooth_l1": smooth_l1, "hinge": hinge, "squared_hinge": squared_hinge,
    "categorical_hinge": categorical_hinge, "kl_divergence": kl_divergence, "kld": kl_divergence, "poisson": poisson,
    "cosine_similarity": cosine_similarity, "binary_crossentropy": binary_crossentropy, "bce": binary_crossentropy,
    "binary_focal_crossentropy": binary_focal_crossentropy, "categorical_crossentropy": categorical_crossentropy,
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy, "cross_entropy": cross_entropy,
    "crossentropy": cross_entropy, "nll": nll, "bce_with_logits": bce_with_logits,
    "binary_cross_entropy": binary_crossentropy, "binary_cross_entropy_with_logits": bce_with_logits}

mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
bce = BCE = binary_crossentropy
kld = KLD = kl_divergence


class _Named(Loss):
    """A function as a loss object: what a name or a function in compile() becomes."""

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        super().__init__(name or getattr(function, "__name__", "loss"))
        self.function = function

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return self.function(y_true, y_pred)


def get(identifier: Any) -> Any:
    """The loss of a name or configuration; others are themselves."""
    if identifier is None or callable(identifier):
        return identifier
    if isinstance(identifier, dict):
        return deserialize(identifier)
    from ._serial import get_custom_objects
    if identifier in get_custom_objects():
        found = get_custom_objects()[identifier]
        return found() if isinstance(found, type) else found
    if identifier in _functions:
        return _functions[identifier]
    made = globals().get(identifier)
    if isinstance(made, type) and issubclass(made, Loss):
        return made()
    raise ValueError("unknown loss %r; there are %s" % (identifier, ", ".join(sorted(_functions))))


def serialize(loss: Any) -> Any:
    from ._serial import serialize as serialized
    return serialized(loss)


def deserialize(name: Any, custom_objects: Any = None) -> Any:
    from ._serial import deserialize as made
    return get(name) if isinstance(name, str) else made(name, custom_objects)


from ._losses_more import *  # noqa: E402,F401,F403
