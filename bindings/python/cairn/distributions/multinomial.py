"""Multinomial: how often each of K places came up in so many draws."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size

from . import constraints
from .binomial import Binomial
from .categorical import OfPlaces
from .utils import broadcast_all

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .constraints import Constraint
    from .utils import Shape

__all__ = ["Multinomial"]


class Multinomial(OfPlaces):
    """Counts of K places among total_count draws, one number for the whole batch."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("Multinomial: total_count must be one int, not %s" % type(total_count).__name__)
        self.total_count = total_count
        shape = self._places(probs, logits)
        self._binomial = Binomial(total_count, probs=self.probs)
        super().__init__(*shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new.total_count = self.total_count
        new._binomial = self._binomial.expand(Size(batch_shape) + self._event_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        sample_shape = Size(sample_shape)
        drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape)
        counts = self._categorical._new(self._extended_shape(sample_shape))
        drawn = drawn.movedim(0, -1)
        return counts.scatter_add(-1, drawn, cn.ones_like(drawn, dtype=counts.dtype))

    def entropy(self) -> Tensor:
        n = self._binomial.total_count.new_full((), self.total_count)
        choice = self._categorical.entropy()
        values = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(values).exp()
        order = (weights * (values + 1).lgamma()).sum((0, -1))  # what counting forgets: which draw was which
        return n * choice - (n + 1).lgamma() + order

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -cn.inf), 0)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)
