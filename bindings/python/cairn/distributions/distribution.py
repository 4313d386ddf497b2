"""Distribution: the base of all. It holds the shapes, checks parameters and values, and expands: a subclass says in
arg_constraints what its parameters are, and those that are in the object are what is expanded and shown.
"""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Iterator

import cairn as cn
from cairn import Size
from cairn._types import of_package

from . import constraints
from .utils import lazy_property

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .constraints import Constraint
    from .utils import Shape

__all__ = ["Distribution"]


class Distribution:
    """Probability distributions. Those of batch_shape are apart from each other; the dimensions of event_shape make
    one value together. A sample has the shape sample_shape + batch_shape + event_shape, a log_prob that without the
    event_shape.

    validate_args: whether parameters and values are checked; None for the default, which is yes unless Python runs
    with -O or set_default_validate_args said otherwise."""

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__

    if TYPE_CHECKING:
        arg_constraints: ClassVar[dict[str, Constraint]]
        support: Constraint
    else:
        @property
        def arg_constraints(self):
            """The parameters' names and what each of them may be."""
            raise NotImplementedError

        @property
        def support(self):
            """Where the distribution has its mass."""
            raise NotImplementedError

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Says whether distributions made from now on check parameters and values."""
        if value not in (True, False):
            raise ValueError("validate_args must be True or False, not %r" % (value,))
        Distribution._validate_args = value

    def __init__(self, batch_shape: Shape = Size(), event_shape: Shape = Size(),
                 validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            wanted = self.arg_constraints
        except NotImplementedError:
            warnings.warn("%s has no arg_constraints, so its parameters are not checked; validate_args=False says that "
                          "this is meant" % type(self).__name__, stacklevel=4)
            return
        for name, constraint in wanted.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name, None), lazy_property):
                continue  # follows from the one that was given
            value = getattr(self, name)
            if not bool(constraint.check(value).all()):
                raise ValueError("%s: the parameter %s, a %s of shape %s, must satisfy %r but does not:\n%s"
                                 % (self, name, type(value).__name__, tuple(value.shape), constraint, value))

    @property
    def batch_shape(self) -> Size:
        """The shape of the distributions that are side by side in this object."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The expected value."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError("%s has no mode" % type(self).__name__)

    @property
    def variance(self) -> Tensor:
        """The expected square of the distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        """Draws that carry no gradient."""
        with cn.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        """Draws that are a function of the parameters, so that gradients flow back to them; see has_rsample."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """n draws; sample((n,)) is the way to write it now."""
        warnings.warn("sample_n(n) is an old name: write sample((n,))", UserWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or of the probability, of the value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of what is not above the value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of cdf."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values there are, along the first dimension; expanded over the batch or with sizes 1 there."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy of each distribution of the batch, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Shape = Size()) -> Size:
        """The shape of a sample."""
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Tensor) -> None:
        """Raises a ValueError unless the value may be scored by this distribution."""
        if not isinstance(value, cn.Tensor):
            raise ValueError("the value must be a Tensor, not %s" % type(value).__name__)
        events = len(self._event_shape)
        if value.shape[value.dim() - events:] != self._event_shape:
            raise ValueError("the last sizes of the value must be the event_shape: %s, not %s"
                             % (value.shape, self._event_shape))
        wanted = self._batch_shape + self._event_shape
        if any(a != b and 1 not in (a, b) for a, b in zip(reversed(value.shape), reversed(wanted))):
            raise ValueError("a value of shape %s does not broadcast with batch_shape + event_shape, %s"
                             % (value.shape, wanted))
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn("%s has no support, so values are not checked; validate_args=False says that this is meant"
                          % type(self).__name__, stacklevel=3)
            return
        if not bool(support.check(value).all()):
            raise ValueError("the value, a %s of shape %s, must be within the support %r of %s, but there are values "
                             "that are not:\n%s" % (type(value).__name__, tuple(value.shape), support, self, value))

    def _get_checked_instance(self, cls: type[Distribution], _instance: Any = None) -> Any:
        """The object that expand fills in: a bare one of this class, or the one that a subclass has prepared. A
        subclass with an __init__ of its own has to prepare one."""
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError("%s is a %s with an __init__ of its own: it must also have an expand of its own"
                                      % (type(self).__name__, cls.__name__))
        return self.__new__(type(self)) if _instance is None else _instance

    def _parameters(self) -> Iterator[tuple[str, Tensor, int]]:
        """The parameters kept in this object: name, value and how many of its last dimensions are one event's."""
        for cls in type(self).__mro__:
            wanted = vars(cls).get("arg_constraints")
            for name, constraint in wanted.items() if isinstance(wanted, dict) else ():
                if isinstance(self.__dict__.get(name), cn.Tensor):
                    yield name, self.__dict__[name], constraint.event_dim

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """The same distribution with a larger batch_shape; parameters are views, nothing is copied."""
        family: type[Any] = next(c for c in type(self).__mro__ if of_package(c.__module__, "distributions"))
        if family.__init__ is Distribution.__init__:
            raise NotImplementedError("%s does not say how to expand it" % type(self).__name__)
        new: Self = self._get_checked_instance(family, _instance)
        shape = Size(batch_shape)
        for name, value, events in self._parameters():
            new.__dict__[name] = value.expand(shape + value.shape[value.dim() - events:])
        new._batch_shape, new._event_shape = shape, self._event_shape
        new._validate_args = self._validate_args
        return new

    def __repr__(self) -> str:
        given = [(k, self.__dict__[k]) for k in self.arg_constraints if k in self.__dict__]
        return "%s(%s)" % (type(self).__name__, ", ".join(
            "%s: %s" % (k, f"{v}" if v.numel() == 1 else v.size()) for k, v in given))
