"""The ops whose torch form is more than a signature: arguments that may be left out in front, forms that mean another
op, names that torch has twice. Each is a function here and, where torch has one, a method of Tensor.
"""
from __future__ import annotations

import builtins
from typing import Any, Sequence

from . import _C
from ._tensor import Tensor, _in_format

_functions: builtins.dict = {}


def _public(function: Any = None, *, method: builtins.bool = True, function_too: builtins.bool = True) -> Any:
    """Makes it cairn.NAME and t.NAME."""
    def put(f: Any) -> Any:
        name = f.__name__.lstrip("_")
        f.__name__ = f.__qualname__ = name
        f.__module__ = "cairn"
        if function_too:
            _functions[name] = f
        if method:
            setattr(Tensor, name, f)
        return f
    return put(function) if function else put


def _into(out: Any, result: Any) -> Any:
    """The result, or out after it took it."""
    if out is None:
        return result
    if isinstance(result, tuple):
        return tuple(_into(o, r) for o, r in zip(out, result))
    return _C.cast(result, out.dtype, out=out)


# ---- creation ----

@_public(method=False)
def arange(*args: Any, start: Any = None, end: Any = None, step: Any = None, **more: Any) -> Tensor:
    """arange(end), arange(start, end, step=1): numbers from start up to, not with, end."""
    given = builtins.list(args)
    if builtins.len(given) == 1 and end is None:
        end = given.pop(0)
    if given and start is None:
        start = given.pop(0)
    if given and end is None:
        end = given.pop(0)
    if given and step is None:
        step = given.pop(0)
    if given or end is None:
        raise TypeError("arange() takes end, or start, end and step")
    return _C.arange(0 if start is None else start, end, 1 if step is None else step, **more)


@_public(method=False)
def randint(*args: Any, low: Any = None, high: Any = None, size: Any = None, **more: Any) -> Tensor:
    """randint(low=0, high, size): random integers from low up to, not with, high."""
    given = builtins.list(args)
    if given and size is None and isinstance(given[-1], (tuple, builtins.list)):
        size = given.pop()
    if builtins.len(given) == 2:
        low, high = given
    elif builtins.len(given) == 1 and high is None:
        high = given[0]
    elif builtins.len(given) == 1 and low is None:
        low = given[0]
    if high is None or size is None:
        raise TypeError("randint() takes low=0, high and size")
    return _C.randint(0 if low is None else low, high, size, **more)


@_public(method=False)
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False,
                  **more: Any) -> Tensor:
    """A 0-d tensor of the default type."""
    return _C.tensor(s, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad)


@_public(method=False)
def is_tensor(obj: Any) -> builtins.bool:
    """Is it a Tensor?"""
    return isinstance(obj, Tensor)


@_public(method=False)
def numel(input: Tensor) -> builtins.int:
    """The number of elements."""
    return input.numel()


@_public(method=False)
def is_floating_point(input: Tensor) -> builtins.bool:
    """Is its type a float?"""
    return input.is_floating_point()


@_public(method=False)
def is_complex(input: Tensor) -> builtins.bool:
    """False: there are no complex types."""
    return False


@_public(method=False)
def is_nonzero(input: Tensor) -> builtins.bool:
    """Is the one element not zero?"""
    return builtins.bool(input)


@_public(method=False)
def result_type(tensor1: Any, tensor2: Any) -> Any:
    """The type that an op on these two would compute in."""
    return _C.add(tensor1, tensor2).dtype if isinstance(tensor1, Tensor) or isinstance(tensor2, Tensor) else \
        _C.tensor([tensor1, tensor2]).dtype


@_public(method=False)
def can_cast(from_: Any, to: Any) -> builtins.bool:
    """May a result of one type be written to a tensor of another? Not floats to integers, nor anything to bool."""
    if to.is_floating_point:
        return True
    if from_.is_floating_point:
        return False
    return from_ == _C.bool or to != _C.bool


@_public(method=False)
def set_printoptions(precision: Any = None, threshold: Any = None, edgeitems: Any = None, linewidth: Any = None,
                     profile: Any = None, sci_mode: Any = None) -> None:
    """How tensors are printed; what is left out gets its default."""
    if profile == "short":
        precision, threshold, edgeitems = 2, 1000, 2
    elif profile == "full":
        threshold = 2 ** 31 - 1
    _C._set_print_options(precision or 0, threshold or 0, edgeitems or 0, linewidth or 0)


@_public
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy that gradients flow through."""
    made = _C.clone(input)
    return made if memory_format is None else _in_format(made, memory_format)


# ---- reductions ----

def _correction(correction: Any, unbiased: Any) -> Any:
    if unbiased is not None:
        return builtins.int(unbiased)
    return 1 if correction is None else correction


def _spread(op: Any, name: str, doc: str) -> None:
    def spread(input: Any, dim: Any = None, unbiased: Any = None, keepdim: builtins.bool = False, *,
               correction: Any = None, axis: Any = None, keepdims: Any = None, out: Any = None) -> Any:
        dim = axis if axis is not None else dim
        if isinstance(dim, builtins.bool):  # var(x, unbiased)
            dim, unbiased = None, dim
        given = {} if dim is None else {"dim": dim}
        return _into(out, op(input, correction=_correction(correction, unbiased), keepdim=keepdim or keepdims or False,
                             **given))
    spread.__name__ = name
    spread.__doc__ = doc
    _public(spread)


_spread(_C.var, "var", "Variance: the mean square of the distance from the mean, with n - correction for n.")
_spread(_C.std, "std", "Standard deviation, the root of the variance.")
_spread(_C.var_mean, "var_mean", "Variance and mean at once.")
_spread(_C.std_mean, "std_mean", "Standard deviation and mean at once.")


@_public
def norm(input: Tensor, p: Any = "fro", dim: Any = None, keepdim: builtins.bool = False, out: Any = None,
         dtype: Any = None) -> Tensor:
    """The p-norm of all elements, or along dimensions; 'fro' is 2."""
    if p == "nuc":
        raise NotImplementedError("norm(): the nuclear norm is not there yet")
    order = 2 if p is None or p == "fro" else builtins.float(p)
    return _into(out, _C.norm(input, order, dim, keepdim, dtype=dtype))


@_public
def nonzero(input: Tensor, *, as_tuple: builtins.bool = False, out: Any = None) -> Any:
    """The places of elements that are not zero: a row each, or a tensor per dimension with as_tuple."""
    if not as_tuple:
        return _into(out, _C.nonzero(input))
    return (_C.nonzero(input.unsqueeze(0) if input.ndim == 0 else input)).unbind(1)


@_public(method=False)
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None, self: Any = None) -> Any:
    """The elements of input where condition holds and of other elsewhere; with condition alone the places it holds."""
    input = self if self is not None else input
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return _C.where(condition, input, other, out=out)


def _where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The own elements where condition holds, those of other elsewhere."""
    return _C.where(condition, self, other)


Tensor.where = _where_method  # type: ignore[method-assign]


@_public
def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Have both the same shape and elements?"""
    if input.shape != other.shape:
        return False
    if input.dtype != other.dtype:
        raise RuntimeError("equal: expected tensors of one type, but got %s and %s" % (input.dtype, other.dtype))
    return builtins.bool(_C.eq(input, other).all())


@_public
def softmax(input: Tensor, dim: builtins.int, dtype: Any = None, *, out: Any = None) -> Tensor:
    """exp(x) over its sum along a dimension."""
    return _C.softmax(input, dim, dtype=dtype, out=out)


@_public
def log_softmax(input: Tensor, dim: builtins.int, dtype: Any = None, *, out: Any = None) -> Tensor:
    """The logarithm of softmax, without its loss of precision."""
    return _C.log_softmax(input, dim, dtype=dtype, out=out)


# ---- shapes ----

@_public
def split(tensor: Tensor, split_size_or_sections: Any, dim: builtins.int = 0) -> Any:
    """Pieces of a size along a dimension (the last may be smaller), or of the sizes listed."""
    if isinstance(split_size_or_sections, (tuple, builtins.list)):
        return _C.split_with_sizes(tensor, split_size_or_sections, dim)
    return _C.split(tensor, split_size_or_sections, dim)


@_public
def gather(input: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False,
           out: Any = None) -> Tensor:
    """The elements of input that index names along a dimension."""
    return _C.gather(input, dim, index, out=out)


# ---- names that torch has twice ----

_ALIASES = {
    "abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atanh": "arctanh", "atan2": "arctan2", "bitwise_not": "", "cat": "concat concatenate", "clamp": "clip",
    "div": "divide", "ge": "greater_equal", "gt": "greater", "le": "less_equal", "lt": "less",
    "movedim": "moveaxis", "mul": "multiply", "ne": "not_equal", "neg": "negative", "sub": "subtract",
    "transpose": "swapaxes swapdims", "trunc": "fix", "vstack": "row_stack", "linalg_inv": "inverse",
    "linalg_det": "det", "outer": "ger",
}


def _add_aliases() -> None:
    for name, others in _ALIASES.items():
        for other in others.split():
            if hasattr(_C, name):
                _functions[other] = _functions.get(name) or getattr(_C, name)
            method = getattr(Tensor, name, None) or getattr(_C, name, None)
            if method is not None and name not in ("cat", "vstack"):
                setattr(Tensor, other, method)
            if hasattr(Tensor, name + "_"):
                setattr(Tensor, other + "_", getattr(Tensor, name + "_"))


_add_aliases()
globals().update(_functions)
__all__ = builtins.list(_functions)
