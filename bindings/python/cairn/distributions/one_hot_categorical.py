"""OneHotCategorical: one of K places as a vector with a 1; and with gradients that pass straight through."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size

from . import constraints
from .categorical import OfPlaces

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Shape

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(OfPlaces):
    """Vectors of K places, of which one is 1, with the probabilities of Categorical."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        shape = self._places(probs, logits)
        super().__init__(*shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _one_hot(self, places: Tensor) -> Tensor:
        return cn.nn.functional.one_hot(places, self._event_shape[0]).to(self._categorical._param.dtype)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        k = self._event_shape[0]
        values = cn.eye(k, dtype=self._categorical._param.dtype, device=self._categorical._param.device)
        values = values.view((k,) + (1,) * len(self._batch_shape) + (k,))
        return values.expand((k,) + tuple(self._batch_shape) + (k,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose draws have the gradient of probs (Bengio, Leonard and Courville, 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
