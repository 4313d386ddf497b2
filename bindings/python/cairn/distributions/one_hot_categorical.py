"""OneHotCategorical: one of K places as a vector with a 1; and with gradients that pass straight through."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size

from . import constraints
from .categorical import Categorical
from .distribution import Distribution

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .utils import Shape

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """Vectors of K places, of which one is 1, with the probabilities of Categorical."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._categorical = self._categorical.expand(batch_shape)
        return new

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Logarithms of the probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of probs and logits."""
        return self._categorical.param_shape

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
