"""Sets of values: what a parameter may be and where a distribution has its mass. `constraints.positive.check(t)` says
of each value (of each event: the last event_dim dimensions together) whether it belongs.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

import cairn as cn

if TYPE_CHECKING:
    from cairn import Tensor

__all__ = ["Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent",
           "dependent_property", "greater_than", "greater_than_eq", "half_open_interval", "independent",
           "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular",
           "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
           "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
           "symmetric", "unit_interval"]


class Constraint:
    """A set of values. is_discrete: whether they can be counted; event_dim: how many of the last dimensions make one
    value."""

    is_discrete: Any = False
    event_dim: Any = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each value belongs: booleans of the value's shape less its last event_dim dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join(f"{name}={value}" for name, value in vars(self).items()))


class Dependent(Constraint):
    """A set that depends on other values, so that nothing can be checked without them."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def _known(self, value: Any, what: str) -> Any:
        if value is NotImplemented:
            raise NotImplementedError("%s of this constraint is not known beforehand" % what)
        return value

    @property
    def is_discrete(self) -> Any:
        return self._known(self._is_discrete, "is_discrete")

    @property
    def event_dim(self) -> Any:
        return self._known(self._event_dim, "event_dim")

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> Dependent:
        """The same with more said about it: `constraints.dependent(event_dim=1)`."""
        return Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                         event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("a constraint that depends on other values has nothing to check by itself")

    def __repr__(self) -> str:
        return "Dependent()"


def is_dependent(constraint: Constraint) -> bool:
    """Whether the set depends on other values."""
    return isinstance(constraint, Dependent)


class dependent_property(property, Dependent):
    """A property that makes a constraint of the object's own values; of the class it is a dependent constraint."""

    def __init__(self, fn: Callable[[Any], Constraint] | None = None, *, is_discrete: Any = NotImplemented,
                 event_dim: Any = NotImplemented) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Constraint]) -> dependent_property:  # type: ignore[override]
        """As a decorator with arguments."""
        return dependent_property(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)

    def __repr__(self) -> str:
        return "DependentProperty()"


class IndependentConstraint(Constraint):
    """Values of which all in the last so many dimensions must belong, as one event."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if reinterpreted_batch_ndims < 0:
            raise ValueError("reinterpreted_batch_ndims is negative: %d" % reinterpreted_batch_ndims)
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            raise ValueError("%r wants %d dimensions, the value has %d" % (self, self.event_dim, value.dim()))
        return _all_of_last(result, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return "IndependentConstraint(%r, %d)" % (self.base_constraint, self.reinterpreted_batch_ndims)


def _all_of_last(flags: Tensor, dims: int) -> Tensor:
    return flags.flatten(flags.dim() - dims).all(-1) if dims else flags


class MixtureSameFamilyConstraint(Constraint):
    """What belongs to every component of a mixture."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> Any:
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> Any:
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        """The components lie in the dimension left of the event."""
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)

    def __repr__(self) -> str:
        return "MixtureSameFamilyConstraint(%r)" % self.base_constraint


class Boolean(Constraint):
    """0 and 1."""
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class OneHot(Constraint):
    """Vectors with one 1 and else 0."""
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Bounded(Constraint):
    """A set between bounds, which are numbers or tensors."""

    def __init__(self, **bounds: Any) -> None:
        self.__dict__.update(bounds)

    lower_bound: Tensor | float
    upper_bound: Tensor | float


class IntegerInterval(_Bounded):
    """Whole numbers from lower_bound to upper_bound, both included."""
    is_discrete = True

    def __init__(self, lower_bound: Tensor | float, upper_bound: Tensor | float) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound) & (value <= self.upper_bound)


class IntegerGreaterThan(_Bounded):
    """Whole numbers from lower_bound on."""
    is_discrete = True

    def __init__(self, lower_bound: Tensor | float) -> None:
        super().__init__(lower_bound=lower_bound)

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class Real(Constraint):
    """All numbers; not nan."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class GreaterThan(_Bounded):
    """Above lower_bound."""

    def __init__(self, lower_bound: Tensor | float) -> None:
        super().__init__(lower_bound=lower_bound)

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class GreaterThanEq(_Bounded):
    """lower_bound and above."""

    def __init__(self, lower_bound: Tensor | float) -> None:
        super().__init__(lower_bound=lower_bound)

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class LessThan(_Bounded):
    """Below upper_bound."""

    def __init__(self, upper_bound: Tensor | float) -> None:
        super().__init__(upper_bound=upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class Interval(_Bounded):
    """From lower_bound to upper_bound, both included."""

    def __init__(self, lower_bound: Tensor | float, upper_bound: Tensor | float) -> None:
        super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class HalfOpenInterval(Interval):
    """From lower_bound, included, to upper_bound, not included."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class Simplex(Constraint):
    """Vectors of numbers that are not negative and make 1 (within 1e-6)."""
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class Multinomial(_Bounded):
    """Vectors of whole numbers, none negative, whose sum is at most upper_bound."""
    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Tensor | float) -> None:
        super().__init__(upper_bound=upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class LowerTriangular(Constraint):
    """Matrices with zeros above the diagonal."""
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class LowerCholesky(LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(0, -2, -1) > 0).all(-1)


class CorrCholesky(LowerCholesky):
    """Lower triangular matrices with a positive diagonal and rows of length 1: Cholesky factors of correlations."""

    def check(self, value: Tensor) -> Tensor:
        slack = cn.finfo(value.dtype).eps * value.shape[-1] * 10
        return super().check(value) & ((value.norm(dim=-1) - 1).abs() <= slack).all(-1)


class Square(Constraint):
    """Matrices with as many rows as columns."""
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return cn.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=cn.bool, device=value.device)


class Symmetric(Square):
    """Matrices equal to their transposes (within 1e-6)."""

    def check(self, value: Tensor) -> Tensor:
        square = super().check(value)
        if not square.all():
            return square
        return cn.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1)


class PositiveSemidefinite(Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return (cn.linalg.eigvalsh(value) >= 0).all(-1)


class PositiveDefinite(Symmetric):
    """Symmetric matrices with positive eigenvalues only."""

    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if not symmetric.all():
            return symmetric
        return cn.linalg.cholesky_ex(value)[1] == 0


class _Several(Constraint):
    """Constraints of the parts of a value, side by side in the dimension dim."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("expected a sequence of constraints")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> Any:
        return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self) -> Any:
        most: int = max(c.event_dim for c in self.cseq)
        return most + 1 if self.dim + most < 0 else most


class Cat(_Several):
    """Values of which the stretches of dim, `lengths` long each, have constraints of their own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError("%d lengths for %d constraints" % (len(self.lengths), len(self.cseq)))

    @property
    def event_dim(self) -> Any:
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return cn.cat([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


class Stack(_Several):
    """Values of which each place of dim has a constraint of its own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    def check(self, value: Tensor) -> Tensor:
        return cn.stack([c.check(part) for c, part in zip(self.cseq, value.unbind(self.dim))], self.dim)


dependent = Dependent()
independent = IndependentConstraint
boolean = Boolean()
one_hot = OneHot()
nonnegative_integer = IntegerGreaterThan(0)
positive_integer = IntegerGreaterThan(1)
integer_interval = IntegerInterval
real = Real()
real_vector = independent(real, 1)
positive = GreaterThan(0.0)
nonnegative = GreaterThanEq(0.0)
greater_than = GreaterThan
greater_than_eq = GreaterThanEq
less_than = LessThan
multinomial = Multinomial
unit_interval = Interval(0.0, 1.0)
interval = Interval
half_open_interval = HalfOpenInterval
simplex = Simplex()
lower_triangular = LowerTriangular()
lower_cholesky = LowerCholesky()
corr_cholesky = CorrCholesky()
square = Square()
symmetric = Symmetric()
positive_semidefinite = PositiveSemidefinite()
positive_definite = PositiveDefinite()
cat = Cat
stack = Stack
