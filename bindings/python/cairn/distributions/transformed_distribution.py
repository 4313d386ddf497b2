"""TransformedDistribution: what a distribution becomes when its draws go through transforms."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import cairn as cn
from cairn import Size

from . import constraints
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .constraints import Constraint
    from .utils import Shape

__all__ = ["TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of f(x), x from base_distribution and f the transforms one after the other. log_prob needs
    their inverses and log determinants."""

    arg_constraints = {}

    def __init__(self, base_distribution: Distribution, transforms: Transform | Sequence[Transform],
                 validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(self.transforms, (list, tuple)) or not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError("transforms must be a Transform or a list of them, not %r" % (transforms,))
        whole = ComposeTransform(self.transforms)
        self.base_dist = _fitted(base_distribution, whole)
        base = self.base_dist
        shape = whole.forward_shape(base.batch_shape + base.event_shape)
        more = whole.codomain.event_dim - whole.domain.event_dim
        cut = len(shape) - max(whole.codomain.event_dim, len(base.event_shape) + more)
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape(Size(batch_shape) + self.event_shape)
        new.transforms = self.transforms
        new.base_dist = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        more = len(self.event_shape) - last.event_dim
        return constraints.independent(last, more) if more > 0 else last

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with cn.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """log_prob of the base at the value it came from, less the log determinants on the way."""
        if self._validate_args:
            self._validate_sample(value)
        dims, change, y = len(self.event_shape), None, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            term = sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            change = term if change is None else change + term
            y = x
        base = sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))
        return base if change is None else base - change

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Turned around where the transforms are falling."""
        sign = ComposeTransform(self.transforms).sign
        if isinstance(sign, int) and sign == 1:
            return value
        turned: Tensor = sign * (value - 0.5) + 0.5
        return turned

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotonize_cdf(value)))


def _fitted(base: Distribution, whole: Transform) -> Distribution:
    """The base with the batch that the transforms' parameters make of it, and at least the event they work on."""
    shape = base.batch_shape + base.event_shape
    wanted: int = whole.domain.event_dim
    if len(shape) < wanted:
        raise ValueError("the base distribution has %d dimensions, the transforms want %d" % (len(shape), wanted))
    full = whole.inverse_shape(whole.forward_shape(shape))
    if full != shape:
        base = base.expand(full[:len(full) - len(base.event_shape)])
    more = wanted - len(base.event_shape)
    return Independent(base, more) if more > 0 else base
