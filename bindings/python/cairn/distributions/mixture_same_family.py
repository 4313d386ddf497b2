"""MixtureSameFamily: one of several distributions of a kind, chosen at random."""
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

    from .constraints import Constraint
    from .utils import Shape

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A draw from the component that mixture_distribution chooses; the components are the last batch dimension of
    component_distribution."""

    arg_constraints = {}

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution,
                 validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError("mixture_distribution must be a Categorical, not %s" % type(mixture_distribution).__name__)
        if not isinstance(component_distribution, Distribution):
            raise ValueError("component_distribution must be a Distribution, not %s"
                             % type(component_distribution).__name__)
        mixing, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if any(a != b and 1 not in (a, b) for a, b in zip(reversed(mixing), reversed(batch))):
            raise ValueError("the batch of the mixture, %s, does not fit that of the components, %s" % (mixing, batch))
        count = mixture_distribution.logits.shape[-1]
        if component_distribution.batch_shape[-1:] != (count,):
            raise ValueError("%d probabilities for components of batch_shape %s"
                             % (count, component_distribution.batch_shape))
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand(Size(batch_shape) + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return new

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """What chooses the component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """What there is to choose from."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        """The probabilities of the components, with sizes 1 for the event."""
        probs = self._mixture_distribution.probs
        return probs.reshape(tuple(probs.shape) + (1,) * self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """That within the components and that between their means."""
        weights, dim = self._weights(), -1 - self._event_ndims
        within = (weights * self._component_distribution.variance).sum(dim)
        between = self._component_distribution.mean - self.mean.unsqueeze(dim)
        return within + (weights * between.pow(2.0)).sum(dim)

    def cdf(self, value: Tensor) -> Tensor:
        each = self._component_distribution.cdf(self._pad(value))
        return (each * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        each = self._component_distribution.log_prob(self._pad(value))
        return (each + cn.log_softmax(self._mixture_distribution.logits, -1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with cn.no_grad():
            dim = len(Size(sample_shape)) + len(self._batch_shape)
            chosen = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            values = self._component_distribution.sample(sample_shape)
            chosen = chosen.reshape(tuple(chosen.shape) + (1,) * (self._event_ndims + 1))
            chosen = chosen.expand(tuple(chosen.shape[:dim + 1]) + tuple(self._event_shape))
            return values.gather(dim, chosen).squeeze(dim)

    def _pad(self, value: Tensor) -> Tensor:
        """The value with a dimension for the components, left of the event."""
        return value.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return "MixtureSameFamily(\n  %r,\n  %r)" % (self._mixture_distribution, self._component_distribution)
