"""From all numbers to a set: transform_to(constraint) returns a transform onto it, biject_to one that is one to one."""
from __future__ import annotations

from typing import Any, Callable, TypeVar, overload

from . import constraints, transforms
from .constraints import Constraint
from .transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

F = TypeVar("F", bound=Callable[..., Transform])


class ConstraintRegistry:
    """Which factory makes the transform for a kind of constraint. Call it with a constraint."""

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Callable[[Any], Transform]] = {}

    @overload
    def register(self, constraint: Constraint | type[Constraint], factory: None = None) -> Callable[[F], F]: ...
    @overload
    def register(self, constraint: Constraint | type[Constraint], factory: F) -> F: ...

    def register(self, constraint: Constraint | type[Constraint], factory: Any = None) -> Any:
        """Says how to make the transform for a kind of constraint, or for that of a given one; a decorator without
        factory. A factory takes the constraint."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError("expected a Constraint or a class of them, not %r" % (constraint,))
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError("no transform to %s constraints is registered" % type(constraint).__name__)
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _to_both(*kinds: type[Constraint]) -> Callable[[F], F]:
    def decorate(factory: F) -> F:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory
    return decorate


@_to_both(constraints.Real)
def _to_real(_constraint: Constraint) -> Transform:
    return transforms.identity_transform


@_to_both(constraints.GreaterThan, constraints.GreaterThanEq)
def _to_greater(constraint: constraints.GreaterThan) -> Transform:
    return transforms.ComposeTransform([transforms.ExpTransform(),
                                        transforms.AffineTransform(constraint.lower_bound, 1)])


@_to_both(constraints.LessThan)
def _to_less(constraint: constraints.LessThan) -> Transform:
    return transforms.ComposeTransform([transforms.ExpTransform(),
                                        transforms.AffineTransform(constraint.upper_bound, -1)])


@_to_both(constraints.Interval, constraints.HalfOpenInterval)
def _to_interval(constraint: constraints.Interval) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and low == 0 and isinstance(high, (int, float)) and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@_to_both(constraints.CorrCholesky)
def _to_corr_cholesky(_constraint: Constraint) -> Transform:
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.Simplex)
def _biject_to_simplex(_constraint: Constraint) -> Transform:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.Simplex)
def _transform_to_simplex(_constraint: Constraint) -> Transform:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.LowerCholesky)
def _transform_to_lower_cholesky(_constraint: Constraint) -> Transform:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.PositiveDefinite)
@transform_to.register(constraints.PositiveSemidefinite)
def _transform_to_positive_definite(_constraint: Constraint) -> Transform:
    return transforms.PositiveDefiniteTransform()


def _of_parts(registry: ConstraintRegistry) -> None:
    """The constraints made of others: their transforms are made of the others' transforms."""
    def independent(constraint: constraints.IndependentConstraint) -> Transform:
        return transforms.IndependentTransform(registry(constraint.base_constraint),
                                               constraint.reinterpreted_batch_ndims)

    def cat(constraint: constraints.Cat) -> Transform:
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    def stack(constraint: constraints.Stack) -> Transform:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.IndependentConstraint, independent)
    registry.register(constraints.Cat, cat)
    registry.register(constraints.Stack, stack)


_of_parts(biject_to)
_of_parts(transform_to)
