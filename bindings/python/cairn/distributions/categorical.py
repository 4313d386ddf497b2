"""Categorical: the number of one of K places; and what its relatives over vectors share."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size

from . import constraints
from ._odds import Odds
from .distribution import Distribution

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .constraints import Constraint
    from .utils import Shape

__all__ = ["Categorical"]


class Categorical(Odds):
    """0 to K - 1, with probabilities in proportion to the last dimension of probs, or of exp(logits)."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(self._given(probs, logits), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    @property
    def mean(self) -> Tensor:
        """nan: the numbers of places are names."""
        return self._new(self._extended_shape(), cn.nan)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """nan: the numbers of places are names."""
        return self._new(self._extended_shape(), cn.nan)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        with cn.no_grad():
            rows = self.probs.reshape(-1, self._num_events)
            drawn = cn.multinomial(rows, sample_shape.numel(), True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = value.long().unsqueeze(-1)
        shape = cn.broadcast_shapes(tuple(value.shape[:-1]), tuple(self.logits.shape[:-1]))
        logits = self.logits.expand(tuple(shape) + (self._num_events,))
        return logits.gather(-1, value.expand(tuple(shape) + (1,))).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=cn.finfo(self.logits.dtype).min)  # 0 * -inf is 0
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = cn.arange(self._num_events, dtype=cn.int64, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class OfPlaces(Distribution):
    """A distribution over vectors of K numbers, whose probs and logits are those of a Categorical."""

    _categorical: Categorical

    def _places(self, probs: Tensor | None, logits: Tensor | None) -> tuple[Size, Size]:
        """Keeps the Categorical and returns batch_shape and event_shape."""
        self._categorical = Categorical(probs, logits)
        return self._categorical.batch_shape, self.param_shape[-1:]

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
