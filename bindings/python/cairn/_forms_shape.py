"""Torch's forms of ops that lay out, draw, integrate and contract: several tensors as arguments, numbers or tensors in
one place, einsum's lists, the in-place draws that share a name with another op.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Callable, Sequence, overload

from . import _C
from ._forms import _into, _methods, _public
from ._arguments import refused
from ._tensor import Tensor
from ._types import Size

if TYPE_CHECKING:
    from typing import Unpack

    from ._C import Generator, _Creation, _Device, _Drawing, _Dtype, _Number

__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
           "cartesian_prod", "cat", "concat", "concatenate", "cov", "cumulative_trapezoid", "einsum", "gradient",
           "logspace", "masked_select", "meshgrid", "normal", "randint_like", "repeat_interleave", "tensor_split",
           "tensordot", "trapezoid", "trapz", "unravel_index"]


def _given(tensors: Sequence[Any]) -> list[Tensor]:
    """f(a, b) or f([a, b])."""
    if builtins.len(tensors) == 1 and isinstance(tensors[0], (tuple, builtins.list)):
        return builtins.list(tensors[0])
    return builtins.list(tensors)


# ---- several tensors ----

def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of the grid that vectors span, a tensor for each."""
    return tuple(_C.meshgrid(_given(tensors), indexing=indexing))


def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The tensors expanded to their common shape."""
    return tuple(_C.broadcast_tensors(_given(tensors)))


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with these along its diagonal."""
    return _C.block_diag(builtins.list(tensors)) if tensors else _C.empty((1, 0))


def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor:
    """All tuples with one element of each vector, a row each."""
    return _C.cartesian_prod(_given(tensors))


def _each(op: Callable[[Tensor], Tensor], tensors: tuple[Any, ...]) -> Any:
    if builtins.len(tensors) == 1 and not isinstance(tensors[0], (tuple, builtins.list)):
        return op(tensors[0])
    return tuple(op(t) for t in _given(tensors))


@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(first: Tensor, second: Tensor, /, *others: Tensor) -> tuple[Tensor, ...]: ...


def atleast_1d(*tensors: Any) -> Any:
    """Of one dimension at least; several tensors at once as a tuple."""
    return _each(_C.atleast_1d, tensors)


@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(first: Tensor, second: Tensor, /, *others: Tensor) -> tuple[Tensor, ...]: ...


def atleast_2d(*tensors: Any) -> Any:
    """Of two dimensions at least; several tensors at once as a tuple."""
    return _each(_C.atleast_2d, tensors)


@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(first: Tensor, second: Tensor, /, *others: Tensor) -> tuple[Tensor, ...]: ...


def atleast_3d(*tensors: Any) -> Any:
    """Of three dimensions at least; several tensors at once as a tuple."""
    return _each(_C.atleast_3d, tensors)


def broadcast_shapes(*shapes: builtins.int | Sequence[builtins.int]) -> Size:
    """The shape that these shapes broadcast to."""
    lists = [(s,) if isinstance(s, builtins.int) else tuple(s) for s in shapes]
    result = [1] * builtins.max([builtins.len(s) for s in lists], default=0)
    for shape in lists:
        for i in range(-1, -1 - builtins.len(shape), -1):
            if shape[i] < 0:
                raise RuntimeError("broadcast_shapes: size %d is negative" % shape[i])
            if shape[i] == 1 or shape[i] == result[i]:
                continue
            if result[i] != 1:
                raise RuntimeError("broadcast_shapes: shape mismatch: objects cannot be broadcast to a single shape")
            result[i] = shape[i]
    return Size(result)


def _apart(name: str, out: Tensor, tensors: Sequence[Tensor]) -> None:
    """Refuses an out= that is one of the inputs."""
    for t in tensors:
        if isinstance(t, Tensor) and (t is out or (t.numel() and t.data_ptr() == out.data_ptr())):
            raise RuntimeError("%s: unsupported operation: out and an input refer to a single memory location" % name)


def cat(tensors: Sequence[Tensor], dim: builtins.int = 0, *, out: Tensor | None = None, **more: Any) -> Tensor:
    """Tensors one after another along a dimension."""
    if out is None:
        return _C.cat(tensors, dim=dim, **more)
    _apart("cat", out, tensors if isinstance(tensors, (tuple, builtins.list)) else ())
    return _C.cat(tensors, dim=dim, out=out, **more)


concat = concatenate = cat


def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The elements of input where mask is true, as a vector."""
    if out is None:
        return _C.masked_select(input, mask)
    _apart("masked_select", out, (input, mask))
    return _C.masked_select(input, mask, out=out)


# ---- splits, repetition, places ----

def tensor_split(input: Tensor, indices_or_sections: builtins.int | Sequence[builtins.int] | Tensor | None = None,
                 dim: builtins.int = 0, *, indices: Sequence[builtins.int] | None = None,
                 sections: builtins.int | None = None,
                 tensor_indices_or_sections: Tensor | None = None) -> tuple[Tensor, ...]:
    """Pieces along a dimension: so many of nearly equal size, or those between indices."""
    places: Any = indices_or_sections
    for other in (indices, sections, tensor_indices_or_sections):
        places = other if places is None else places
    if isinstance(places, Tensor):
        if places.dtype != _C.int64 or places.ndim > 1:
            raise RuntimeError("tensor_split: expected a zero- or one-dimensional int64 tensor of places")
        places = places.tolist()
    if isinstance(places, builtins.int):
        return _C.tensor_split(input, places, dim)
    return _C.tensor_split_indices(input, places, dim)


def repeat_interleave(input: Tensor, repeats: builtins.int | Sequence[builtins.int] | Tensor | None = None,
                      dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
    """Each element repeated next to itself: by a number, or by a count for each. Of counts alone, their places."""
    if repeats is None:
        return _C.repeat_interleave_indices(input, output_size=output_size)
    if not isinstance(repeats, builtins.int):
        counts = repeats if isinstance(repeats, Tensor) else _C.tensor(builtins.list(repeats))
        return _C.repeat_interleave_counts(input, counts, dim, output_size=output_size)
    made = _C.repeat_interleave(input, repeats, dim)
    if output_size is not None and made.shape[0 if dim is None else dim] != output_size:
        raise RuntimeError("repeat_interleave: the result has not output_size %d" % output_size)
    return made


def unravel_index(indices: Tensor, shape: builtins.int | Sequence[builtins.int] | Tensor) -> tuple[Tensor, ...]:
    """Places in a flattened tensor as coordinates."""
    if not isinstance(indices, Tensor):
        raise TypeError("unravel_index(): indices must be a Tensor, not %s" % type(indices).__name__)
    sizes: Any = shape.tolist() if isinstance(shape, Tensor) else shape
    return _C.unravel_index(indices, [sizes] if isinstance(sizes, builtins.int) else builtins.list(sizes))


# ---- drawing ----

def normal(mean: Tensor | _Number, std: Tensor | _Number = 1.0, size: Sequence[builtins.int] | None = None, *,
           generator: Generator | None = None, out: Tensor | None = None, dtype: _Dtype | None = None,
           device: _Device | None = None, requires_grad: builtins.bool = False, layout: Any = None,
           pin_memory: builtins.bool = False) -> Tensor:
    """Normal numbers with that mean and standard deviation: numbers and a size, or tensors."""
    refused("normal", "tensors are strided", _C.strided, layout=layout or _C.strided)
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        return _into(out, _C.normal(mean, std, generator=generator))
    if size is None:
        raise TypeError("normal() needs a size where mean and std are numbers")
    made = _C.empty(size, dtype=dtype or (out.dtype if out is not None else None), device=device)
    made = _into(out, _C.normal_fill(made, mean, std, generator=generator))
    if pin_memory:
        made = made.pin_memory()
    return made.requires_grad_() if requires_grad else made


def normal_(self: Tensor, mean: builtins.float = 0, std: builtins.float = 1, *,
            generator: Generator | None = None) -> Tensor:
    """Fills it with normal numbers."""
    return self.normal_fill_(mean, std, generator=generator)


def random_(self: Tensor, *args: builtins.int, generator: Generator | None = None, **more: builtins.int) -> Tensor:
    """Fills it with random integers: random_(), random_(to), random_(from, to)."""
    low, high = more.get("from"), more.get("to")
    if builtins.len(args) == 1:
        high = args[0]
    elif builtins.len(args) == 2:
        low, high = args
    return self.random_integers_(low, high, generator=generator)


def bernoulli_(self: Tensor, p: Tensor | builtins.float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fills it with ones of probability p and zeros."""
    if isinstance(p, Tensor):
        return self.copy_(_C.bernoulli(p.expand_as(self), generator=generator))
    return self.bernoulli_p_(p, generator=generator)


@overload
def randint_like(input: Tensor, high: builtins.int, **more: Unpack[_Drawing]) -> Tensor: ...
@overload
def randint_like(input: Tensor, low: builtins.int, high: builtins.int, **more: Unpack[_Drawing]) -> Tensor: ...


def randint_like(input: Tensor, *args: Any, low: Any = None, high: Any = None, **more: Any) -> Tensor:
    """randint_like(input, low=0, high): random integers from low up to, not with, high."""
    if builtins.len(args) == 2:
        low, high = args
    elif args:
        low, high = (args[0], high) if high is not None else (low, args[0])
    more.pop("memory_format", None)
    return _C.randint_like(input, 0 if low is None else low, high, **more)


# ---- numbers ----

def _number(value: Tensor | _Number, what: str) -> _Number:
    if not isinstance(value, Tensor):
        return value
    if value.ndim:
        raise RuntimeError("%s only supports 0-dimensional start and end tensors" % what)
    return value.item()


def logspace(start: Tensor | _Number, end: Tensor | _Number, steps: builtins.int, base: builtins.float = 10.0,
             **more: Unpack[_Creation]) -> Tensor:
    """Powers of base whose exponents are evenly spaced from start to end."""
    return _C.logspace(_number(start, "logspace"), _number(end, "logspace"), steps, base, **more)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _Number | None = None, dim: builtins.int = -1) -> Tensor:
    """The integral by trapezoids along a dimension: between points x, or dx apart."""
    return _C.trapezoid(y, x, dx=1 if dx is None else dx, dim=dim)


def trapz(y: Tensor, x: Tensor | None = None, *, dx: _Number | None = None, dim: builtins.int = -1) -> Tensor:
    """trapezoid, by its old name."""
    return trapezoid(y, x, dx=dx, dim=dim)


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: _Number | None = None,
                         dim: builtins.int = -1) -> Tensor:
    """The sums of trapezoid so far."""
    return _C.cumulative_trapezoid(y, x, dx=1 if dx is None else dx, dim=dim)


def gradient(input: Tensor, *, spacing: Tensor | _Number | Sequence[_Number] | Sequence[Tensor] | None = None,
             dim: builtins.int | Sequence[builtins.int] | None = None,
             edge_order: builtins.int = 1) -> tuple[Tensor, ...]:
    """The slopes along each dimension: spacing is a step, one for each, or coordinates along each."""
    dims = [dim] if isinstance(dim, builtins.int) else None if dim is None else builtins.list(dim)
    given: Any = [spacing] if isinstance(spacing, Tensor) else spacing
    several = isinstance(given, (tuple, builtins.list))
    if several and given and isinstance(given[0], Tensor):
        if any(t.device != input.device for t in given):
            raise RuntimeError("gradient expected each tensor to be on the same device")
        return _C.gradient_at(input, builtins.list(given), dims, edge_order)
    if several and builtins.len(given) != (input.ndim if dims is None else builtins.len(dims)):
        raise RuntimeError("gradient expected spacing to be unspecified, a number, or a list of as many as dims")
    steps = None if given is None else [builtins.float(s) for s in given] if several else [builtins.float(given)]
    return _C.gradient(input, spacing=steps, dim=dims, edge_order=edge_order)


def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Tensor | None = None,
        aweights: Tensor | None = None) -> Tensor:
    """Covariances of the rows of input."""
    made = _C.cov(input, correction=correction, fweights=fweights, aweights=aweights)
    for weights, name in ((fweights, "fweights"), (aweights, "aweights")):
        if weights is not None and weights.numel() and weights.min().item() < 0:
            raise RuntimeError("cov(): %s cannot be negative" % name)
    return made


# ---- contractions ----

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _term(labels: Sequence[Any]) -> str:
    return "".join("..." if label is Ellipsis else _LETTERS[label] for label in labels)


def einsum(*args: Any) -> Tensor:
    """einsum(equation, *operands), or einsum(operand, labels, operand, labels, ..., result's labels)."""
    if isinstance(args[0], str):
        return _C.einsum(args[0], _given(args[1:]))
    pairs = builtins.len(args) // 2
    equation = ",".join(_term(args[2 * i + 1]) for i in range(pairs))
    if builtins.len(args) % 2:
        equation += "->" + _term(args[-1])
    return _C.einsum(equation, [args[2 * i] for i in range(pairs)])


def _einsum_in_graphs(*args: Any) -> tuple[Any, ...]:
    """Graphs of Python show operands behind the equation, also those given as a list."""
    return (args[0], *_given(args[1:])) if isinstance(args[0], str) else args


setattr(einsum, "_in_graphs", _einsum_in_graphs)


def tensordot(a: Tensor, b: Tensor, dims: builtins.int | Sequence[Any] | Tensor = 2,
              out: Tensor | None = None) -> Tensor:
    """Products summed over the last dims of a and the first of b, or over the two lists given."""
    over: Any = dims
    if isinstance(dims, Tensor):
        over = dims.item() if dims.numel() == 1 else dims.tolist()
    if isinstance(over, builtins.int):
        if over < 0:
            raise RuntimeError("tensordot expects dims >= 0, but got dims=%d" % over)
        if over > builtins.min(a.ndim, b.ndim):
            raise RuntimeError("tensordot: %d dims are more than an operand has" % over)
        mine, theirs = builtins.list(range(a.ndim - over, a.ndim)), builtins.list(range(over))
    else:
        mine, theirs = [[d] if isinstance(d, builtins.int) else builtins.list(d) for d in over]
    return _into(out, _C.tensordot(a, b, mine, theirs))


_methods(bernoulli_, cov, masked_select, normal_, random_, repeat_interleave, tensor_split)
_public(globals())
