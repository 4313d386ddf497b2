"""Losses as Keras has them: of (targets, outputs), a value for each sample, probabilities unless from_logits is set.

The functions are those that cairn.Model knows by name (cairn/_training/losses.py); the classes here keep their options.
get() also knows torch's names, which take scores: "cross_entropy", "bce_with_logits".
"""
from __future__ import annotations

from typing import Any, Callable

import cairn
from .._training.batches import mapped, to_tensor
from .._training.losses import (bce_with_logits, binary_crossentropy, binary_focal_crossentropy,
                                categorical_crossentropy, categorical_focal_crossentropy,
                                categorical_generalized_cross_entropy, categorical_hinge, circle, cosine_similarity,
                                cross_entropy, ctc, dice, functions, hinge, huber, kl_divergence, log_cosh,
                                mean_absolute_error, mean_absolute_percentage_error, mean_squared_error,
                                mean_squared_logarithmic_error, nll, poisson, reduced, smooth_l1,
                                sparse_categorical_crossentropy, squared_hinge, tversky)
from . import dtype_policies
from .backend import dtype_of, floatx

__all__ = ["BinaryCrossentropy", "BinaryFocalCrossentropy", "CTC", "CategoricalCrossentropy",
           "CategoricalFocalCrossentropy", "CategoricalGeneralizedCrossEntropy", "CategoricalHinge", "Circle",
           "CosineSimilarity", "Dice", "Hinge", "Huber", "KLDivergence", "LogCosh", "Loss", "MeanAbsoluteError",
           "MeanAbsolutePercentageError", "MeanSquaredError", "MeanSquaredLogarithmicError", "Poisson",
           "SparseCategoricalCrossentropy", "SquaredHinge", "Tversky", "binary_crossentropy",
           "binary_focal_crossentropy", "categorical_crossentropy", "categorical_focal_crossentropy",
           "categorical_generalized_cross_entropy", "categorical_hinge", "circle", "cosine_similarity", "ctc",
           "deserialize", "dice", "get", "hinge", "huber", "kl_divergence", "log_cosh", "mean_absolute_error",
           "mean_absolute_percentage_error", "mean_squared_error", "mean_squared_logarithmic_error", "poisson",
           "serialize", "sparse_categorical_crossentropy", "squared_hinge", "tversky"]


def _in_floats(value: Any) -> Any:
    """What a loss of a program's own is given: floats, as Keras does it."""
    if value is None or isinstance(value, str):
        return value
    value = to_tensor(value)
    return value if value.dtype.is_floating_point else value.to(cairn.get_default_dtype())


class Loss:
    """To subclass with call(y_true, y_pred), which returns a value for each sample (or one)."""

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
        if not isinstance(self, _Function):
            y_true, y_pred = mapped(_in_floats, y_true), mapped(_in_floats, y_pred)
        values = self.call(mapped(lambda y: self._typed(y, True), y_true),
                           mapped(lambda p: self._typed(p, False), y_pred))
        return reduced(values, sample_weight, mask, self.reduction)

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


class CategoricalFocalCrossentropy(_Function):
    function = staticmethod(categorical_focal_crossentropy)

    def __init__(self, alpha: Any = 0.25, gamma: float = 2.0, from_logits: bool = False, label_smoothing: float = 0.0,
                 axis: int = -1, reduction: str | None = "sum_over_batch_size", name: str | None = None,
                 dtype: Any = None) -> None:
        self.options = {"alpha": alpha, "gamma": gamma, "from_logits": from_logits, "label_smoothing": label_smoothing,
                        "axis": axis}
        super().__init__(reduction, name, dtype)


class CategoricalGeneralizedCrossEntropy(_Function):
    function = staticmethod(categorical_generalized_cross_entropy)

    def __init__(self, q: float = 0.5, reduction: str | None = "sum_over_batch_size", name: str | None = None,
                 dtype: Any = None) -> None:
        if not 0.0 < q < 1.0:
            raise ValueError("q is between 0 and 1, not %r" % (q,))
        self.options = {"q": q}
        super().__init__(reduction, name, dtype)


class Dice(_Function):
    function = staticmethod(dice)

    def __init__(self, reduction: str | None = "sum_over_batch_size", name: str | None = None, axis: Any = None,
                 dtype: Any = None) -> None:
        self.options = {"axis": axis}
        super().__init__(reduction, name, dtype)


class Tversky(_Function):
    function = staticmethod(tversky)

    def __init__(self, alpha: float = 0.5, beta: float = 0.5, reduction: str | None = "sum_over_batch_size",
                 name: str | None = None, axis: Any = None, dtype: Any = None) -> None:
        self.options = {"alpha": alpha, "beta": beta, "axis": axis}
        super().__init__(reduction, name, dtype)


class Circle(Loss):
    def __init__(self, gamma: float = 80.0, margin: float = 0.4, remove_diagonal: bool = True,
                 reduction: str | None = "sum_over_batch_size", name: str | None = "circle", dtype: Any = None) -> None:
        super().__init__(name, reduction, dtype)
        self.gamma, self.margin, self.remove_diagonal = gamma, margin, remove_diagonal

    def call(self, y_true: Any, y_pred: Any, ref_labels: Any = None, ref_embeddings: Any = None) -> Any:
        return circle(y_true, y_pred, ref_labels, ref_embeddings, self.remove_diagonal, self.gamma, self.margin)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gamma": self.gamma, "margin": self.margin,
                "remove_diagonal": self.remove_diagonal}


class CTC(_Function):
    function = staticmethod(ctc)


mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
bce = BCE = binary_crossentropy
kld = KLD = kl_divergence


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
    if identifier in functions:
        return functions[identifier]
    made = globals().get(identifier)
    if isinstance(made, type) and issubclass(made, Loss):
        return made()
    raise ValueError("unknown loss %r; there are %s" % (identifier, ", ".join(sorted(functions))))


def serialize(loss: Any) -> Any:
    from ._serial import serialize as serialized
    return serialized(loss)


def deserialize(name: Any, custom_objects: Any = None) -> Any:
    from ._serial import deserialize as made
    return get(name) if isinstance(name, str) else made(name, custom_objects)
