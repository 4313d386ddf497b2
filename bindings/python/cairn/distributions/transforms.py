"""Transforms: invertible functions of tensors that know the logarithm of their volume change. This file has the base,
the ways to combine transforms, and re-exports the functions themselves (_elementwise.py, _vector_transforms.py).
"""
from __future__ import annotations

import math
import weakref
from typing import TYPE_CHECKING, Any, Sequence

from cairn import Size

from . import constraints
from .utils import sum_rightmost

if TYPE_CHECKING:
    from cairn import Tensor

    from .constraints import Constraint

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
           "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
           "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
           "identity_transform"]


class Transform:
    """A function from domain to codomain, an inverse where it has one, and log |det| of the derivative. A subclass
    writes _call, and _inverse and log_abs_det_jacobian if it can.

    cache_size=1 keeps the last pair of values, so that the inverse of a result is the very value that it came from."""

    bijective: Any = False
    if TYPE_CHECKING:
        domain: Constraint
        codomain: Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1, not %s" % cache_size)
        self._cache_size = cache_size
        self._inv: weakref.ReferenceType[Transform] | None = None
        self._cached_x_y: tuple[Tensor, Tensor] | None = None
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """The dimensions of one value, where domain and codomain have as many."""
        dims: int = self.domain.event_dim
        if dims != self.codomain.event_dim:
            raise ValueError("use domain.event_dim or codomain.event_dim: they differ")
        return dims

    @property
    def inv(self) -> Transform:
        """The inverse, as a transform; its inverse is this one."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """1 of a rising function of single numbers, -1 of a falling one."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same with the cache switched on or off."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError("%s does not say how to make it anew" % type(self).__name__)

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """The value of the function at x."""
        if self._cache_size and self._cached_x_y is not None and self._cached_x_y[0] is x:
            return self._cached_x_y[1]
        y = self._call(x)
        if self._cache_size:
            self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size and self._cached_x_y is not None and self._cached_x_y[1] is y:
            return self._cached_x_y[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        """The function itself."""
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        """The inverse itself."""
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx| of an input and its result, for each event."""
        raise NotImplementedError

    def forward_shape(self, shape: Size) -> Size:
        """The shape of the result for an input of this shape."""
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        """The shape of the input for a result of this shape."""
        return shape

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class _InverseTransform(Transform):
    """The inverse of a transform, which does all the work."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._forward = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return self._forward.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return self._forward.domain

    @property
    def bijective(self) -> Any:
        return self._forward.bijective

    @property
    def sign(self) -> Any:
        return self._forward.sign

    @property
    def inv(self) -> Transform:
        return self._forward

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._forward.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._forward == other._forward

    def __repr__(self) -> str:
        return "%s(%r)" % (type(self).__name__, self._forward)

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Size) -> Size:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self._forward.forward_shape(shape)


class ComposeTransform(Transform):
    """Several transforms, one after the other."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """That of the first, over as many dimensions as the parts need."""
        if not self.parts:
            return constraints.real
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _over(self.parts[0].domain, dims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """That of the last, over as many dimensions as the parts need."""
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _over(self.parts[-1].codomain, dims)

    @property
    def bijective(self) -> Any:
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> Any:
        return math.prod((part.sign for part in self.parts), start=1)

    @property
    def inv(self) -> Transform:
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv, inverse._inv = weakref.ref(inverse), weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        dims, terms = self.domain.event_dim, []
        for i, part in enumerate(self.parts):
            after = y if i == len(self.parts) - 1 else part(x)
            terms.append(sum_rightmost(part.log_abs_det_jacobian(x, after), dims - part.domain.event_dim))
            dims += part.codomain.event_dim - part.domain.event_dim
            x = after
        return sum(terms[1:], terms[0])

    def forward_shape(self, shape: Size) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Size) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return "%s(\n    %s\n)" % (type(self).__name__, ",\n    ".join(repr(part) for part in self.parts))


def _over(constraint: Constraint, dims: int) -> Constraint:
    """The constraint with so many event dimensions in all."""
    more = dims - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last so many batch dimensions are one event: their log determinants are summed."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size) if cache_size else base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> Any:
        return self.base_transform.bijective

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("the value has %d dimensions, the transform wants %d" % (x.dim(), self.domain.event_dim))
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("the value has %d dimensions, the transform wants %d" % (y.dim(), self.codomain.event_dim))
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Size) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Size) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return "%s(%r, %d)" % (type(self).__name__, self.base_transform, self.reinterpreted_batch_ndims)


class ReshapeTransform(Transform):
    """Another shape for the last dimensions: in_shape becomes out_shape. No volume changes."""

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape and out_shape have different numbers of places: %s, %s"
                             % (self.in_shape, self.out_shape))
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[:x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[:y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:  # unused: y (x says it all)
        return x.new_zeros(x.shape[:x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Size) -> Size:
        return _exchange(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Size) -> Size:
        return _exchange(shape, self.out_shape, self.in_shape)


def _exchange(shape: Size, old: Size, new: Size) -> Size:
    """The shape with its last dimensions, which must be `old`, replaced."""
    cut = len(shape) - len(old)
    if cut < 0:
        raise ValueError("a shape of %d dimensions where %d are wanted" % (len(shape), len(old)))
    if shape[cut:] != old:
        raise ValueError("the last sizes are %s, wanted are %s" % (shape[cut:], old))
    return shape[:cut] + new


from ._elementwise import (AbsTransform, AffineTransform, CumulativeDistributionTransform,  # noqa: E402
                           ExpTransform, PowerTransform, SigmoidTransform, SoftplusTransform, TanhTransform)
from ._vector_transforms import (CatTransform, CorrCholeskyTransform, LowerCholeskyTransform,  # noqa: E402
                                 PositiveDefiniteTransform, SoftmaxTransform, StackTransform,
                                 StickBreakingTransform)
