"""Independent: batch dimensions read as parts of one event."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cairn import Size

from . import constraints
from .distribution import Distribution
from .utils import sum_rightmost

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .constraints import Constraint
    from .utils import Shape

__all__ = ["Independent"]

D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """The base distribution with its last so many batch dimensions as part of the event, so that log_prob is a sum
    over them: Independent(Normal(zeros(3), ones(3)), 1) is a distribution of vectors."""

    arg_constraints = {}
    base_dist: D

    def __init__(self, base_distribution: D, reinterpreted_batch_ndims: int,
                 validate_args: bool | None = None) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError("reinterpreted_batch_ndims is %d, but the base has %d batch dimensions"
                             % (reinterpreted_batch_ndims, len(base_distribution.batch_shape)))
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new.base_dist = self.base_dist.expand(Size(batch_shape) + self.event_shape[:self.reinterpreted_batch_ndims])
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return new

    @property
    def has_rsample(self) -> Any:
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> Any:
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        base = self.base_dist.support
        more = self.reinterpreted_batch_ndims
        return constraints.independent(base, more) if more else base

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("the values of an event that is a product are not enumerated")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return "%s(%r, %d)" % (type(self).__name__, self.base_dist, self.reinterpreted_batch_ndims)
