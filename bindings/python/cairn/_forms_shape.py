"""Torch's forms of ops that lay out, draw, integrate and contract: several tensors as arguments, numbers or tensors in
one place, einsum's lists, the in-place draws that share a name with another op.
"""
from __future__ import annotations

import builtins
from typing import Any

from . import _C, _forms
from ._forms import _into, _public
from ._tensor import Tensor
from ._types import Size

_before = set(_forms._functions)


def _given(tensors: Any) -> Any:
    """f(a, b) or f([a, b])."""
    if builtins.len(tensors) == 1 and isinstance(tensors[0], (tuple, builtins.list)):
        return builtins.list(tensors[0])
    return builtins.list(tensors)


# ---- several tensors ----

@_public(method=False)
def meshgrid(*tensors: Any, indexing: Any = None) -> Any:
    """The coordinates of the grid that vectors span, a tensor for each."""
    return tuple(_C.meshgrid(_given(tensors), indexing=indexing))


@_public(method=False)
def broadcast_tensors(*tensors: Any) -> Any:
    """The tensors expanded to their common shape."""
    return tuple(_C.broadcast_tensors(_given(tensors)))


@_public(method=False)
def block_diag(*tensors: Any) -> Tensor:
    """A matrix with these along its diagonal."""
    return _C.block_diag(builtins.list(tensors)) if tensors else _C.empty((1, 0))


@_public(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All tuples with one element of each vector, a row each."""
    return _C.cartesian_prod(_given(tensors))


def _at_least(op: Any, name: str) -> None:
    def make(*tensors: Any) -> Any:
        if builtins.len(tensors) == 1 and not isinstance(tensors[0], (tuple, builtins.list)):
            return op(tensors[0])
        return tuple(op(t) for t in _given(tensors))
    make.__name__ = name
    make.__doc__ = op.__doc__
    _public(make, method=False)


_at_least(_C.atleast_1d, "atleast_1d")
_at_least(_C.atleast_2d, "atleast_2d")
_at_least(_C.atleast_3d, "atleast_3d")


@_public(method=False)
def broadcast_shapes(*shapes: Any) -> Size:
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


def _apart(name: str, out: Any, tensors: Any) -> None:
    """Refuses an out= that is one of the inputs."""
    for t in tensors:
        if isinstance(t, Tensor) and (t is out or (t.numel() and t.data_ptr() == out.data_ptr())):
            raise RuntimeError("%s: unsupported operation: out and an input refer to a single memory location" % name)


@_public(method=False)
def cat(tensors: Any, dim: Any = 0, *, out: Any = None, **more: Any) -> Tensor:
    """Tensors one after another along a dimension."""
    if out is None:
        return _C.cat(tensors, dim, **more)
    _apart("cat", out, tensors if isinstance(tensors, (tuple, builtins.list)) else ())
    return _C.cat(tensors, dim, out=out, **more)


_forms._functions["concat"] = _forms._functions["concatenate"] = cat


@_public
def masked_select(input: Tensor, mask: Tensor, *, out: Any = None) -> Tensor:
    """The elements of input where mask is true, as a vector."""
    if out is None:
        return _C.masked_select(input, mask)
    _apart("masked_select", out, (input, mask))
    return _C.masked_select(input, mask, out=out)


# ---- splits, repetition, places ----

@_public
def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: builtins.int = 0, *, indices: Any = None,
                 sections: Any = None, tensor_indices_or_sections: Any = None) -> Any:
    """Pieces along a dimension: so many of nearly equal size, or those between indices."""
    for other in (indices, sections, tensor_indices_or_sections):
        indices_or_sections = other if indices_or_sections is None else indices_or_sections
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.dtype != _C.int64 or indices_or_sections.ndim > 1:
            raise RuntimeError("tensor_split: expected a zero- or one-dimensional int64 tensor of places")
        indices_or_sections = indices_or_sections.tolist()
    op = _C.tensor_split if isinstance(indices_or_sections, builtins.int) else _C.tensor_split_indices
    return tuple(op(input, indices_or_sections, dim))


@_public
def repeat_interleave(input: Tensor, repeats: Any = None, dim: Any = None, *, output_size: Any = None) -> Tensor:
    """Each element repeated next to itself: by a number, or by a count for each. Of counts alone, their places."""
    if repeats is None:
        return _C.repeat_places(input, output_size=output_size)
    if isinstance(repeats, (tuple, builtins.list)):
        repeats = _C.tensor(repeats)
    if isinstance(repeats, Tensor):
        return _C.repeat_interleave_counts(input, repeats, dim, output_size=output_size)
    made = _C.repeat_interleave(input, repeats, dim)
    if output_size is not None and made.shape[0 if dim is None else dim] != output_size:
        raise RuntimeError("repeat_interleave: the result has not output_size %d" % output_size)
    return made


@_public(method=False)
def unravel_index(indices: Tensor, shape: Any) -> Any:
    """Places in a flattened tensor as coordinates."""
    if not isinstance(indices, Tensor):
        raise TypeError("unravel_index(): indices must be a Tensor, not %s" % type(indices).__name__)
    if isinstance(shape, Tensor):
        shape = shape.tolist()
    return tuple(_C.unravel_index(indices, [shape] if isinstance(shape, builtins.int) else builtins.list(shape)))


# ---- drawing ----

@_public(method=False)
def normal(mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, dtype: Any = None,
           device: Any = None, requires_grad: builtins.bool = False, **more: Any) -> Tensor:
    """Normal numbers with that mean and standard deviation: numbers and a size, or tensors."""
    if isinstance(mean, Tensor) or isinstance(std, Tensor):
        return _into(out, _C.normal(mean, std, generator=generator))
    if size is None:
        raise TypeError("normal() needs a size where mean and std are numbers")
    made = _C.empty(size, dtype=dtype or (out.dtype if out is not None else None), device=device)
    made = _into(out, _C.normal_fill(made, mean, std, generator=generator))
    return made.requires_grad_() if requires_grad else made


@_public(function_too=False)
def normal_(self: Tensor, mean: builtins.float = 0, std: builtins.float = 1, *, generator: Any = None) -> Tensor:
    """Fills it with normal numbers."""
    return self.normal_fill_(mean, std, generator=generator)


@_public(function_too=False)
def random_(self: Tensor, *args: Any, generator: Any = None, **more: Any) -> Tensor:
    """Fills it with random integers: random_(), random_(to), random_(from, to)."""
    low, high = more.get("from"), more.get("to")
    if builtins.len(args) == 1:
        high = args[0]
    elif builtins.len(args) == 2:
        low, high = args
    return self.random_integers_(low, high, generator=generator)


@_public(function_too=False)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fills it with ones of probability p and zeros."""
    if isinstance(p, Tensor):
        return self.copy_(_C.bernoulli(p.expand_as(self), generator=generator))
    return self.bernoulli_p_(p, generator=generator)


@_public(method=False)
def randint_like(input: Tensor, *args: Any, low: Any = None, high: Any = None, **more: Any) -> Tensor:
    """randint_like(input, low=0, high): random integers from low up to, not with, high."""
    if builtins.len(args) == 2:
        low, high = args
    elif args:
        low, high = (args[0], high) if high is not None else (low, args[0])
    more.pop("memory_format", None)
    return _C.randint_like(input, 0 if low is None else low, high, **more)


# ---- numbers ----

def _number(value: Any, what: str) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.ndim:
        raise RuntimeError("%s only supports 0-dimensional start and end tensors" % what)
    return value.item()


@_public(method=False)
def logspace(start: Any, end: Any, steps: builtins.int, base: builtins.float = 10.0, **more: Any) -> Tensor:
    """Powers of base whose exponents are evenly spaced from start to end."""
    return _C.logspace(_number(start, "logspace"), _number(end, "logspace"), steps, base, **more)


def _integral(op: Any, name: str) -> None:
    def integrate(y: Tensor, x: Any = None, *, dx: Any = None, dim: builtins.int = -1) -> Tensor:
        return op(y, x, dx=1 if dx is None else dx, dim=dim)
    integrate.__name__ = name
    integrate.__doc__ = op.__doc__
    _public(integrate, method=False)


_integral(_C.trapezoid, "trapezoid")
_integral(_C.trapezoid, "trapz")
_integral(_C.cumulative_trapezoid, "cumulative_trapezoid")


@_public(method=False)
def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: builtins.int = 1) -> Any:
    """The slopes along each dimension: spacing is a step, one for each, or coordinates along each."""
    dims = [dim] if isinstance(dim, builtins.int) else None if dim is None else builtins.list(dim)
    several = isinstance(spacing, (tuple, builtins.list))
    if isinstance(spacing, Tensor):
        spacing, several = [spacing], True
    if several and spacing and isinstance(spacing[0], Tensor):
        if any(t.device != input.device for t in spacing):
            raise RuntimeError("gradient expected each tensor to be on the same device")
        return tuple(_C.gradient_at(input, builtins.list(spacing), dims, edge_order))
    if several and builtins.len(spacing) != (input.ndim if dims is None else builtins.len(dims)):
        raise RuntimeError("gradient expected spacing to be unspecified, a number, or a list of as many as dims")
    steps = None if spacing is None else [builtins.float(s) for s in spacing] if several else [builtins.float(spacing)]
    return tuple(_C.gradient(input, spacing=steps, dim=dims, edge_order=edge_order))


@_public
def cov(input: Tensor, *, correction: builtins.int = 1, fweights: Any = None, aweights: Any = None) -> Tensor:
    """Covariances of the rows of input."""
    made = _C.cov(input, correction=correction, fweights=fweights, aweights=aweights)
    for weights, name in ((fweights, "fweights"), (aweights, "aweights")):
        if weights is not None and weights.numel() and weights.min().item() < 0:
            raise RuntimeError("cov(): %s cannot be negative" % name)
    return made


# ---- contractions ----

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _term(labels: Any) -> str:
    return "".join("..." if label is Ellipsis else _LETTERS[label] for label in labels)


@_public(method=False)
def einsum(*args: Any) -> Tensor:
    """einsum(equation, *operands), or einsum(operand, labels, operand, labels, ..., result's labels)."""
    if isinstance(args[0], str):
        return _C.einsum(args[0], _given(args[1:]))
    pairs = builtins.len(args) // 2
    equation = ",".join(_term(args[2 * i + 1]) for i in range(pairs))
    if builtins.len(args) % 2:
        equation += "->" + _term(args[-1])
    return _C.einsum(equation, [args[2 * i] for i in range(pairs)])


@_public(method=False)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Any = None) -> Tensor:
    """Products summed over the last dims of a and the first of b, or over the two lists given."""
    if isinstance(dims, Tensor):
        dims = dims.item() if dims.numel() == 1 else dims.tolist()
    if isinstance(dims, builtins.int):
        if dims < 0:
            raise RuntimeError("tensordot expects dims >= 0, but got dims=%d" % dims)
        if dims > builtins.min(a.ndim, b.ndim):
            raise RuntimeError("tensordot: %d dims are more than an operand has" % dims)
        mine, theirs = builtins.list(range(a.ndim - dims, a.ndim)), builtins.list(range(dims))
    else:
        mine, theirs = [[d] if isinstance(d, builtins.int) else builtins.list(d) for d in dims]
    return _into(out, _C.tensordot(a, b, mine, theirs))


__all__ = sorted(set(_forms._functions) - _before | {"concat", "concatenate"})
globals().update({name: _forms._functions[name] for name in __all__})
