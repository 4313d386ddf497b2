"""The _foreach_ functions: an op for each tensor of a list, out of place and in place.

Place in the flow: names of cairn that begin with _foreach_ come from here when they are asked for; optimisers that
programs write use them. Invariant: each is the op of the same name, element by element of the lists; results are a
tuple, in place the list that was given.
"""
from __future__ import annotations

from typing import Any, Callable, Iterable

from . import _C, linalg
from ._tensor import Tensor

__all__ = ["by_name"]

_UNARY = frozenset("abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg "
                   "reciprocal round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc".split())
_BINARY = {"add": "add", "sub": "sub", "mul": "mul", "div": "div", "pow": "pow", "maximum": "maximum",
           "minimum": "minimum", "clamp_max": "minimum", "clamp_min": "maximum"}
_TERNARY = frozenset(["addcmul", "addcdiv"])
_Numbers = (int, float, bool, complex)


def _listed(name: str, tensors: Any) -> list[Tensor]:
    """The list, which must have tensors in it, and one at least."""
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError("%s(): expected a list of tensors, not %s" % (name, type(tensors).__name__))
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return list(tensors)


def _column(name: str, value: Any, count: int) -> list[Any]:
    """A list of as many elements; a number or a tensor as often."""
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise RuntimeError("%s(): Tensor lists must have the same number of tensors, got %d and %d"
                               % (name, count, len(value)))
        return list(value)
    return [value] * count


def _results(rows: Iterable[Tensor], given: Any, inplace: bool) -> Any:
    """The results, or the list whose tensors they were written into."""
    made = tuple(rows)
    return given if inplace else made


def _method(op: str, inplace: bool) -> str:
    return op + "_" if inplace else op


def _unary(name: str, op: str, inplace: bool) -> Callable[..., Any]:
    def run(self: Any) -> Any:
        given = _listed(name, self)
        return _results((getattr(t, _method(op, inplace))() for t in given), self, inplace)
    return run


def _with_number(op: str, t: Tensor, other: Any, inplace: bool, alpha: Any) -> Tensor:
    """One call with a tensor or a number."""
    if alpha is not None:
        other = other * alpha
    if op in ("maximum", "minimum") and not isinstance(other, Tensor):
        bound = {"min": other} if op == "maximum" else {"max": other}
        made: Tensor = getattr(t, _method("clamp", inplace))(**bound)
        return made
    if op in ("maximum", "minimum"):
        found: Tensor = getattr(_C, op)(t, other)
        return t.copy_(found) if inplace else found
    result: Tensor = getattr(t, _method(op, inplace))(other)
    return result


def _binary(name: str, op: str, inplace: bool) -> Callable[..., Any]:
    def run(self: Any, other: Any, *, alpha: Any = None) -> Any:
        if op == "pow" and isinstance(self, _Numbers) and not inplace:  # a number to the power of each tensor
            base: Any = self
            return tuple(_C.pow(base, t) for t in _listed(name, other))
        if alpha is not None and op not in ("add", "sub"):
            raise TypeError("%s() got an unexpected keyword argument 'alpha'" % name)
        given = _listed(name, self)
        column = _column(name, other, len(given))
        return _results((_with_number(op, t, o, inplace, alpha) for t, o in zip(given, column)), self, inplace)
    return run


def _ternary(name: str, op: str, inplace: bool) -> Callable[..., Any]:
    def run(self: Any, tensor1: Any, tensor2: Any, value: Any = 1, *, scalars: Any = None) -> Any:
        given = _listed(name, self)
        factors = value if scalars is None else scalars
        if isinstance(factors, Tensor):
            factors = factors.tolist()
        columns = [_column(name, c, len(given)) for c in (tensor1, tensor2, factors)]
        made = (getattr(t, _method(op, inplace))(a, b, value=v) for t, a, b, v in zip(given, *columns))
        return _results(made, self, inplace)
    return run


def _lerp(name: str, inplace: bool) -> Callable[..., Any]:
    def run(self: Any, tensors1: Any, weight: Any) -> Any:
        given = _listed(name, self)
        ends, weights = _column(name, tensors1, len(given)), _column(name, weight, len(given))
        made = (getattr(t, _method("lerp", inplace))(e, w) for t, e, w in zip(given, ends, weights))
        return _results(made, self, inplace)
    return run


def _norm(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple(linalg.vector_norm(t, ord, dtype=dtype) for t in _listed("_foreach_norm", self))


def _powsum(self: Any, ord: Any = 2, dtype: Any = None) -> tuple[Tensor, ...]:
    return tuple(t.abs().pow(ord).sum(dtype=dtype) for t in _listed("_foreach_powsum", self))


def _max(self: Any) -> tuple[Tensor, ...]:
    return tuple(t.max() for t in _listed("_foreach_max", self))


def _clone(self: Any, *, memory_format: Any = None) -> tuple[Tensor, ...]:
    return tuple(t.clone(memory_format=memory_format) for t in _listed("_foreach_clone", self))


def _mm(self: Any, mat2: Any) -> tuple[Tensor, ...]:
    given = _listed("_foreach_mm", self)
    return tuple(t.mm(m) for t, m in zip(given, _column("_foreach_mm", mat2, len(given))))


def _zero_(self: Any) -> Any:
    return _results((t.zero_() for t in _listed("_foreach_zero_", self)), self, True)


def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    given = _listed("_foreach_copy_", self)
    rows = (t.copy_(s, non_blocking) for t, s in zip(given, _column("_foreach_copy_", src, len(given))))
    return _results(rows, self, True)


_OTHERS: dict[str, Callable[..., Any]] = {"norm": _norm, "powsum": _powsum, "max": _max, "clone": _clone, "mm": _mm,
                                        "zero_": _zero_, "copy_": _copy_}


def by_name(name: str) -> Callable[..., Any]:
    """The function of that name: "_foreach_add_"."""
    whole = name.removeprefix("_foreach_")
    inplace = whole.endswith("_")
    op = whole.removesuffix("_")
    if whole in _OTHERS:
        made = _OTHERS[whole]
    elif op in _UNARY:
        made = _unary(name, op, inplace)
    elif op in _BINARY:
        made = _binary(name, _BINARY[op], inplace)
    elif op in _TERNARY:
        made = _ternary(name, op, inplace)
    elif op == "lerp":
        made = _lerp(name, inplace)
    else:
        raise AttributeError("module 'cairn' has no attribute %r" % name)
    made.__name__ = made.__qualname__ = name
    return made
