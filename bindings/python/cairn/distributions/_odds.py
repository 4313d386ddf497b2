"""What the distributions given by `probs` or by `logits` have in common: the other one follows when asked for."""
from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import cairn as cn
from cairn import Size

from .distribution import Distribution
from .utils import all_numbers, broadcast_all, lazy_property, logits_to_probs, one_of, probs_to_logits

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["Odds"]


class Odds(Distribution):
    """A distribution by probs or logits. _binary: whether each of them stands by itself (logits are log odds) or the
    last dimension is one distribution over its places."""

    _binary: ClassVar[bool] = True

    def _given(self, probs: Parameter | None, logits: Parameter | None) -> Size:
        """Keeps the one that was given and returns the batch_shape."""
        by_probs = one_of(probs, logits)
        value = probs if by_probs else logits
        assert value is not None
        if self._binary:
            single = all_numbers(value)
            (tensor,) = broadcast_all(value)
            self.__dict__["probs" if by_probs else "logits"] = tensor
            return Size() if single else tensor.shape
        if not isinstance(value, cn.Tensor) or value.dim() < 1:
            raise ValueError("%s must be a Tensor of one dimension or more" % ("probs" if by_probs else "logits"))
        if by_probs:
            self.__dict__["probs"] = value / value.sum(-1, keepdim=True)
        else:
            self.__dict__["logits"] = value - value.logsumexp(-1, keepdim=True)
        return value.shape[:-1]

    def _counted(self, total_count: Parameter, probs: Parameter | None, logits: Parameter | None) -> Size:
        """The same of a distribution of counts: total_count broadcasts with it and takes its type."""
        by_probs = one_of(probs, logits)
        value = probs if by_probs else logits
        assert value is not None
        count, value = broadcast_all(total_count, value)
        self.__dict__.update({"total_count": count.to(value.dtype), "probs" if by_probs else "logits": value})
        return value.shape

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds, or logarithms of the probabilities."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def _param(self) -> Tensor:
        """The one that was given."""
        return self.probs if "probs" in self.__dict__ else self.logits

    @property
    def param_shape(self) -> Size:
        """The shape of probs and logits."""
        return self._param.shape

    def _new(self, shape: Shape, fill: float = 0.0) -> Tensor:
        """A tensor of the parameters' type and place."""
        return self._param.new_full(tuple(shape), fill)
