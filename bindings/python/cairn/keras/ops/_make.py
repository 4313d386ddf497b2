"""How functions of keras.ops are made: of cairn's ops, for tensors, arrays and numbers, and for places of a model that
is being built (which then get a layer that calls the function)."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from ..._training.batches import to_tensor
from .._graph import has_symbol

__all__ = ["binary", "both", "dims", "extreme", "floats", "op", "reduction", "tensor", "unary"]

Made = Callable[..., Any]


def op(f: Made, name: str | None = None) -> Made:
    """A function that also takes places of a model."""
    own = name or f.__name__

    def outer(*args: Any, **kwargs: Any) -> Any:
        if has_symbol((args, kwargs)):
            from .._function import call_op
            return call_op(outer, own, args, kwargs)
        return f(*args, **kwargs)
    outer.__name__ = outer.__qualname__ = own
    outer.__doc__, outer.__wrapped__ = f.__doc__, f  # type: ignore[attr-defined]
    return outer


def tensor(x: Any) -> Any:
    """A tensor; whole numbers of Python's are int32 and its floats the default type, as in Keras."""
    if isinstance(x, cairn.Tensor):
        return x
    made = to_tensor(x)
    if made.dtype == cairn.int64 and not hasattr(x, "dtype"):
        made = made.to(cairn.int32)
    return made


def floats(x: Any) -> Any:
    x = tensor(x)
    return x if x.dtype.is_floating_point else x.to(cairn.get_default_dtype())


def both(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands, numbers beside a tensor left as they are."""
    if not isinstance(a, (bool, int, float)):
        a = tensor(a)
    if not isinstance(b, (bool, int, float)):
        b = tensor(b)
    if not isinstance(a, cairn.Tensor) and not isinstance(b, cairn.Tensor):
        return tensor(a), b
    return (a, b) if isinstance(a, cairn.Tensor) else (_like(a, b), b)


def _like(number: Any, t: Any) -> Any:
    kind = t.dtype if t.dtype.is_floating_point or isinstance(number, int) else cairn.get_default_dtype()
    return cairn.as_tensor(number, dtype=kind, device=t.device)


def unary(f: Made, name: str, as_floats: bool = True) -> Made:
    return op((lambda x: f(floats(x))) if as_floats else (lambda x: f(tensor(x))), name)


def binary(f: Made, name: str, tensors: bool = False) -> Made:
    """tensors: f takes no numbers."""
    def of_two(x1: Any, x2: Any) -> Any:
        a, b = both(x1, x2)
        if tensors and not isinstance(b, cairn.Tensor):
            b = _like(b, a)
        if tensors and a.dtype != b.dtype:
            kind = cairn.promote_types(a.dtype, b.dtype)
            a, b = a.to(kind), b.to(kind)
        return f(a, b)
    return op(of_two, name)


def dims(x: Any, axis: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def reduction(f: Callable[[Any, Any, bool], Any], name: str, as_floats: bool = False) -> Made:
    """f(x, dimensions, keepdims) over one dimension, several or all."""
    def over(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = floats(x) if as_floats else tensor(x)
        return f(x, dims(x, axis), keepdims) if x.ndim else f(x.reshape(1), (0,), False)
    return op(over, name)


def extreme(f: Callable[[Any, Any, bool], Any], name: str, chosen: Callable[[Any, Any], Any]) -> Made:
    """The largest or smallest number, `initial` among them."""
    plain = reduction(f, name)

    def over(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Any:
        made = plain(x, axis, keepdims)
        return made if initial is None else chosen(made, cairn.as_tensor(initial, dtype=made.dtype))
    return op(over, name)


def one_by_one(f: Callable[[Any, int, bool], Any]) -> Callable[[Any, Any, bool], Any]:
    """A reduction over several dimensions of one over a single one."""
    def over(x: Any, axes: Any, keep: bool) -> Any:
        for d in sorted((d % x.ndim for d in axes), reverse=True):
            x = f(x, d, keep)
        return x
    return over


def flattened(f: Callable[[Any, int, bool], Any]) -> Callable[[Any, Any, bool], Any]:
    """A reduction over several dimensions at once, of one over a single one."""
    def over(x: Any, axes: Any, keep: bool) -> Any:
        chosen = sorted(d % x.ndim for d in axes)
        rest = [d for d in range(x.ndim) if d not in chosen]
        flat = x.permute(*rest, *chosen).reshape(tuple(x.shape[d] for d in rest) + (-1,))
        made = f(flat, -1, False)
        return made.reshape(tuple(1 if d in chosen else int(n) for d, n in enumerate(x.shape))) if keep else made
    return over
