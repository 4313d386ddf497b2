"""Derivatives of Python functions: products with vectors, Jacobians and Hessians.

Each takes a function of tensors and its inputs (a tensor or a tuple) and returns in the same form. With create_graph
the results are recorded, so that they can be differentiated again. With strict, an input that an output does not
depend on is an error instead of zeros. Products from the left walk backward once; those from the right walk backward
twice, through the gradient as a function of the vector.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence, overload

from .. import _C
from .._modes import enable_grad
from .._tensor import Tensor
from . import grad as _grad
from .function import forward_mode

if TYPE_CHECKING:
    from typing import TypeAlias

    _Function: TypeAlias = Callable[..., Tensor | tuple[Tensor, ...]]
    _Given: TypeAlias = Tensor | Sequence[Tensor]
    _Tensors: TypeAlias = tuple[Tensor, ...]
    _One: TypeAlias = Callable[..., Tensor]
    _Answer: TypeAlias = Any  # a tensor, or a tuple for a tuple: what was given decides
    _Matrix: TypeAlias = tuple[tuple[Tensor, ...], ...]

__all__ = ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"]


def _tuple(value: object, what: str) -> tuple[_Tensors, bool]:
    """The value as a tuple of tensors, and whether it was a single one."""
    if isinstance(value, Tensor):
        return (value,), True
    if not isinstance(value, (tuple, list)) or not all(isinstance(v, Tensor) for v in value):
        raise TypeError(f"{what}: expected a Tensor or a tuple of tensors, not {type(value).__name__}")
    return tuple(value), False


def _single(values: Sequence[Any], alone: bool) -> _Answer:
    return values[0] if alone else tuple(values)


def _fresh(tensors: Sequence[Tensor], create_graph: bool) -> _Tensors:
    """Inputs that can be differentiated by, cut off from what was before unless the result is to be recorded. Inside of
    vmap each example has its own, so that gradients are not added up over examples."""
    given = [_C._batched_all(t) for t in tensors]
    if not create_graph:
        return tuple(t.detach().requires_grad_() for t in given)
    return tuple(t.view_as(t) if t.requires_grad else t.detach().requires_grad_() for t in given)


def _plain(values: Sequence[Tensor], create_graph: bool) -> _Tensors:
    return tuple(values) if create_graph else tuple(v.detach() for v in values)


def _vector(v: _Given | None, like: Sequence[Tensor], what: str) -> _Tensors:
    """The vector of a product, checked against the tensors it belongs to; ones when it may be left out."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(f"{what}: v can be left out only for a single tensor of one element")
        return (_C.ones_like(like[0]),)
    given, _ = _tuple(v, f"{what}: v")
    if len(given) != len(like):
        raise RuntimeError(f"{what}: v has {len(given)} tensors, expected {len(like)}")
    for i, (a, b) in enumerate(zip(given, like)):
        if tuple(a.shape) != tuple(b.shape):
            raise RuntimeError(f"{what}: v {i} has shape {tuple(a.shape)}, expected {tuple(b.shape)}")
    return given


def _derive(outputs: Sequence[Tensor], inputs: Sequence[Tensor], seeds: Sequence[Tensor], create_graph: bool,
            strict: bool, what: str) -> _Tensors:
    """Gradients with zeros for what does not take part (an error when strict)."""
    linked = [(o, s) for o, s in zip(outputs, seeds) if o.requires_grad]
    if strict and len(linked) < len(outputs):
        raise RuntimeError(f"{what}: an output does not depend on the inputs")
    result: tuple[Tensor | None, ...] = (None,) * len(inputs)
    if linked:
        result = _grad([o for o, _ in linked], inputs, [s for _, s in linked], retain_graph=True,
                       create_graph=create_graph, allow_unused=True)
    if strict and any(g is None for g in result):
        raise RuntimeError(f"{what}: the outputs do not depend on input {result.index(None)}")
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(result, inputs))


def _scalar(outputs: _Tensors, alone: bool, what: str) -> None:
    if not alone or outputs[0].numel() != 1:
        raise RuntimeError(f"{what}: the function must return a single tensor of one element")


@overload
def vjp(func: _One, inputs: Tensor, v: _Given | None = ..., create_graph: bool = ...,
        strict: bool = ...) -> tuple[Tensor, Tensor]: ...
@overload
def vjp(func: _Function, inputs: _Given, v: _Given | None = ..., create_graph: bool = ...,
        strict: bool = ...) -> tuple[_Answer, _Answer]: ...


def vjp(func: _Function, inputs: _Given, v: _Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[_Answer, _Answer]:
    """(outputs, v^T J): the product of a vector with the Jacobian, from the left."""
    with enable_grad():
        given, alone = _tuple(inputs, "vjp: inputs")
        fresh = _fresh(given, create_graph)
        outputs, out_alone = _tuple(func(*fresh), "vjp: outputs")
        result = _derive(outputs, fresh, _vector(v, outputs, "vjp"), create_graph, strict, "vjp")
    return _single(_plain(outputs, create_graph), out_alone), _single(_plain(result, create_graph), alone)


def _twice(outputs: Sequence[Tensor], inputs: Sequence[Tensor], v: Sequence[Tensor], create_graph: bool, strict: bool,
           what: str) -> _Tensors:
    """J v by double backward: the gradient is linear in its seed; its derivative by the seed is J, wherever it is
    taken. It is taken at ones, since some gradients are computed by logarithms of their seeds."""
    seeds = tuple(_C.ones_like(o).requires_grad_() for o in outputs)
    back = _derive(outputs, inputs, seeds, True, strict, what)
    return _derive(back, seeds, v, create_graph, False, what)


@overload
def jvp(func: _One, inputs: Tensor, v: _Given | None = ..., create_graph: bool = ...,
        strict: bool = ...) -> tuple[Tensor, Tensor]: ...
@overload
def jvp(func: _Function, inputs: _Given, v: _Given | None = ..., create_graph: bool = ...,
        strict: bool = ...) -> tuple[_Answer, _Answer]: ...


def jvp(func: _Function, inputs: _Given, v: _Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[_Answer, _Answer]:
    """(outputs, J v): the product of the Jacobian with a vector, from the right."""
    with enable_grad():
        given, _ = _tuple(inputs, "jvp: inputs")
        vector = _vector(v, given, "jvp")
        fresh = _fresh(given, create_graph)
        with forward_mode():
            outputs, alone = _tuple(func(*fresh), "jvp: outputs")
        result = _twice(outputs, fresh, vector, create_graph, strict, "jvp")
    return _single(_plain(outputs, create_graph), alone), _single(_plain(result, create_graph), alone)


def _basis(like: Tensor) -> Tensor:
    """All tensors of that shape with a single one among zeros, one behind the other."""
    n = like.numel()
    made: Tensor = _C.eye(n, dtype=like.dtype, device=like.device).reshape((n, *like.shape))
    return made


def _all_rows(output: Tensor, inputs: Sequence[Tensor], create_graph: bool,
              chunk_size: int | None = None) -> _Tensors:
    """What _rows gives, by one backward walk with a batch of gradients."""
    from .._vmap import vmap

    def row(seed: Tensor) -> _Tensors:
        return _derive((output,), inputs, (seed,), create_graph, False, "jacobian")

    shape = tuple(output.shape)
    found: _Tensors = vmap(row, chunk_size=chunk_size)(_basis(output))
    return tuple(g.reshape(shape + tuple(x.shape)) for g, x in zip(found, inputs))


def _all_columns(outputs: Sequence[Tensor], inputs: Sequence[Tensor], create_graph: bool,
                 chunk_size: int | None = None) -> list[_Tensors]:
    """The Jacobians of the outputs, one input after the other: for each output a tuple as _rows gives. The gradient is
    linear in its seed; its derivative by the seed, along a batch of directions, is a batch of columns."""
    from .._vmap import vmap
    seeds = tuple(_C._batched_all(_C.ones_like(o)).requires_grad_() for o in outputs)
    back = _derive(outputs, inputs, seeds, True, False, "jacfwd")
    found: list[list[Tensor]] = [[] for _ in outputs]
    for x, g in zip(inputs, back):
        def column(direction: Tensor, g: Tensor = g) -> _Tensors:
            return _derive((g,), seeds, (direction,), create_graph, False, "jacfwd")

        columns = vmap(column, out_dims=-1, chunk_size=chunk_size)(_basis(x))
        for row, o, c in zip(found, outputs, columns):
            row.append(c.reshape(tuple(o.shape) + tuple(x.shape)))
    return [tuple(row) for row in found]


def _rows(output: Tensor, inputs: Sequence[Tensor], create_graph: bool, strict: bool) -> _Tensors:
    """The Jacobian of one output: per input a tensor of shape output.shape + input.shape."""
    flat, rows = output.reshape(-1), []
    for i in range(flat.numel()):
        seed = _C.ones_like(flat[i])
        rows.append(_derive((flat[i],), inputs, (seed,), create_graph, strict, "jacobian"))
    shape = tuple(output.shape)
    if not rows:
        return tuple(_C.zeros(shape + tuple(x.shape), dtype=x.dtype, device=x.device) for x in inputs)
    return tuple(_C.stack(list(column)).reshape(shape + tuple(x.shape)) for column, x in zip(zip(*rows), inputs))


@overload
def jacobian(func: _One, inputs: Tensor, create_graph: bool = ..., strict: bool = ..., vectorize: bool = ...,
             strategy: str = ...) -> Tensor: ...
@overload
def jacobian(func: _One, inputs: Sequence[Tensor], create_graph: bool = ..., strict: bool = ..., vectorize: bool = ...,
             strategy: str = ...) -> _Tensors: ...
@overload
def jacobian(func: _Function, inputs: _Given, create_graph: bool = ..., strict: bool = ..., vectorize: bool = ...,
             strategy: str = ...) -> _Answer: ...


def jacobian(func: _Function, inputs: _Given, create_graph: bool = False, strict: bool = False,
             vectorize: bool = False, strategy: str = "reverse-mode") -> _Answer:
    """All derivatives of the outputs by the inputs: a tensor of shape output.shape + input.shape; tuples of them for
    several inputs, tuples of those for several outputs. vectorize: all rows in one backward walk, or with the strategy
    "forward-mode" all columns at once; else one walk for each row."""
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError("jacobian: strategy is 'reverse-mode' or 'forward-mode'")
    if vectorize and strict:
        raise RuntimeError("jacobian: `strict=True` and `vectorize=True` are not supported together")
    if strategy == "forward-mode" and create_graph:
        raise NotImplementedError("jacobian: create_graph is not for the forward-mode strategy; use func.jacfwd")
    if strategy == "forward-mode" and not vectorize:
        raise NotImplementedError("jacobian: the forward-mode strategy needs vectorize=True")
    with enable_grad():
        given, alone = _tuple(inputs, "jacobian: inputs")
        fresh = _fresh(given, create_graph)
        outputs, out_alone = _tuple(func(*fresh), "jacobian: outputs")
        if not vectorize:
            rows = [_rows(o, fresh, create_graph, strict) for o in outputs]
        elif strategy == "forward-mode":
            rows = _all_columns(outputs, fresh, create_graph)
        else:
            rows = [_all_rows(o, fresh, create_graph) for o in outputs]
        result = tuple(_plain(row, create_graph) for row in rows)
    return _single(tuple(_single(row, alone) for row in result), out_alone)


@overload
def hessian(func: _One, inputs: Tensor, create_graph: bool = ..., strict: bool = ..., vectorize: bool = ...,
            outer_jacobian_strategy: str = ...) -> Tensor: ...
@overload
def hessian(func: _One, inputs: Sequence[Tensor], create_graph: bool = ..., strict: bool = ...,
            vectorize: bool = ..., outer_jacobian_strategy: str = ...) -> _Matrix: ...


def hessian(func: _One, inputs: _Given, create_graph: bool = False, strict: bool = False,
            vectorize: bool = False, outer_jacobian_strategy: str = "reverse-mode") -> _Answer:
    """Second derivatives of a function with one result of one element: input.shape + input.shape; tuples of tuples for
    several inputs."""
    if outer_jacobian_strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError("hessian: outer_jacobian_strategy is 'reverse-mode' or 'forward-mode'")
    given, alone = _tuple(inputs, "hessian: inputs")

    def gradient(*xs: Tensor) -> _Tensors:
        outputs, out_alone = _tuple(func(*xs), "hessian: outputs")
        _scalar(outputs, out_alone, "hessian")
        return _derive((outputs[0].reshape(()),), xs, (_C.ones_like(outputs[0].reshape(())),), True, strict, "hessian")

    result = jacobian(gradient, given, create_graph=create_graph, strict=strict, vectorize=vectorize,
                      strategy=outer_jacobian_strategy)
    return result[0][0] if alone else result


def _gradient(func: _One, given: _Tensors, create_graph: bool, strict: bool,
              what: str) -> tuple[_Tensors, _Tensors, _Tensors]:
    inputs = _fresh(given, create_graph)
    outputs, alone = _tuple(func(*inputs), f"{what}: outputs")
    _scalar(outputs, alone, what)
    return inputs, outputs, _derive(outputs, inputs, (_C.ones_like(outputs[0]),), True, strict, what)


@overload
def vhp(func: _One, inputs: Tensor, v: _Given | None = ..., create_graph: bool = ...,
        strict: bool = ...) -> tuple[Tensor, Tensor]: ...
@overload
def vhp(func: _One, inputs: Sequence[Tensor], v: _Given | None = ..., create_graph: bool = ...,
        strict: bool = ...) -> tuple[Tensor, _Tensors]: ...


def vhp(func: _One, inputs: _Given, v: _Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[_Answer, _Answer]:
    """(output, v^T H): the product of a vector with the Hessian, from the left; faster than hvp."""
    with enable_grad():
        given, alone = _tuple(inputs, "vhp: inputs")
        vector = _vector(v, given, "vhp")
        fresh, outputs, first = _gradient(func, given, create_graph, strict, "vhp")
        result = _derive(first, fresh, vector, create_graph, strict, "vhp")
    return _plain(outputs, create_graph)[0], _single(_plain(result, create_graph), alone)


@overload
def hvp(func: _One, inputs: Tensor, v: _Given | None = ..., create_graph: bool = ...,
        strict: bool = ...) -> tuple[Tensor, Tensor]: ...
@overload
def hvp(func: _One, inputs: Sequence[Tensor], v: _Given | None = ..., create_graph: bool = ...,
        strict: bool = ...) -> tuple[Tensor, _Tensors]: ...


def hvp(func: _One, inputs: _Given, v: _Given | None = None, create_graph: bool = False,
        strict: bool = False) -> tuple[_Answer, _Answer]:
    """(output, H v): the product of the Hessian with a vector, from the right."""
    with enable_grad():
        given, alone = _tuple(inputs, "hvp: inputs")
        vector = _vector(v, given, "hvp")
        fresh, outputs, first = _gradient(func, given, create_graph, strict, "hvp")
        result = _twice(first, fresh, vector, create_graph, strict, "hvp")
    return _plain(outputs, create_graph)[0], _single(_plain(result, create_graph), alone)
