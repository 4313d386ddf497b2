"""The ops whose torch form is more than a signature: arguments that may be left out in front, forms that mean another
op. Each is a function here and, where torch has one, a method of Tensor.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Callable, Literal, Sequence, TypeVar, overload

from . import _C
from ._arguments import numpy_words, only_speed, refused
from ._tensor import Tensor, _in_format

if TYPE_CHECKING:
    from typing import Unpack

    from ._C import _Creation, _Device, _Drawing, _Dtype, _dtype, _memory_format, _Number

__all__ = ["arange", "can_cast", "clone", "equal", "gather", "is_complex", "is_floating_point", "is_nonzero",
           "is_tensor", "log_softmax", "nonzero", "numel", "randint", "result_type", "scalar_tensor",
           "set_printoptions", "softmax", "split", "std", "std_mean", "var", "var_mean", "where"]

_Results = TypeVar("_Results", bound=builtins.tuple[Tensor, ...])


def _public(module: builtins.dict[str, Any]) -> None:
    """The functions in a module's __all__ belong to cairn for whoever looks at them, and take numpy's words."""
    made: builtins.dict[Any, Any] = {}  # names of one function stay names of one
    for name in module["__all__"]:
        plain = module[name]
        module[name] = made.setdefault(plain, numpy_words(plain))
        module[name].__module__ = "cairn"


def _methods(*functions: Callable[..., Any], **named: Callable[..., Any]) -> None:
    """Makes them t.NAME. For type checkers the class Tensor says so once more."""
    for function in functions:
        setattr(Tensor, function.__name__, numpy_words(function))
    for name, function in named.items():
        function.__name__ = function.__qualname__ = name
        setattr(Tensor, name, numpy_words(function))


@overload
def _into(out: Tensor | None, result: Tensor) -> Tensor: ...
@overload
def _into(out: Sequence[Tensor] | None, result: _Results) -> _Results: ...


def _into(out: Any, result: Any) -> Any:
    """The result, or out after it took it."""
    if out is None:
        return result
    if isinstance(result, tuple):
        return tuple(_into(o, r) for o, r in zip(out, result))
    if not isinstance(out, Tensor):
        raise TypeError("argument 'out' must be Tensor, not %s" % type(out).__name__)
    if not can_cast(result.dtype, out.dtype):
        raise RuntimeError("a result of type %s cannot be cast to that of out, %s" % (result.dtype, out.dtype))
    return _C.cast(result, out.dtype, out=out)


# ---- creation ----

@overload
def arange(end: _Number, **more: Unpack[_Creation]) -> Tensor: ...
@overload
def arange(start: _Number, end: _Number, step: _Number = ..., **more: Unpack[_Creation]) -> Tensor: ...


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


@overload
def randint(high: builtins.int, size: Sequence[builtins.int], **more: Unpack[_Drawing]) -> Tensor: ...
@overload
def randint(low: builtins.int, high: builtins.int, size: Sequence[builtins.int],
            **more: Unpack[_Drawing]) -> Tensor: ...


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


def scalar_tensor(s: _Number, *, dtype: _Dtype | None = None, device: _Device | None = None,
                  requires_grad: builtins.bool = False, layout: Any = None,
                  pin_memory: builtins.bool = False) -> Tensor:
    """A 0-d tensor of the default type."""
    refused("scalar_tensor", "tensors are strided", _C.strided, layout=layout or _C.strided)
    return _C.tensor(s, dtype=dtype or _C.get_default_dtype(), device=device, requires_grad=requires_grad,
                     pin_memory=pin_memory)


def is_tensor(obj: object) -> builtins.bool:
    """Is it a Tensor?"""
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> builtins.int:
    """The number of elements."""
    return input.numel()


def is_floating_point(input: Tensor) -> builtins.bool:
    """Is its type a float?"""
    return input.is_floating_point()


def is_complex(input: Tensor) -> builtins.bool:
    """Is its type complex?"""
    return input.is_complex()


def is_nonzero(input: Tensor) -> builtins.bool:
    """Is the one element not zero?"""
    return builtins.bool(input)


def result_type(tensor1: Tensor | _Number, tensor2: Tensor | _Number) -> _dtype:
    """The type that an op on these two would compute in."""
    return _C.add(tensor1, tensor2).dtype if isinstance(tensor1, Tensor) or isinstance(tensor2, Tensor) else \
        _C.tensor([tensor1, tensor2]).dtype


def can_cast(from_: _dtype, to: _dtype) -> builtins.bool:
    """May a result of one type be written to a tensor of another? Not complex numbers to real ones, floats to
    integers, nor anything to bool."""
    if to.is_complex or from_.is_complex:
        return to.is_complex
    if to.is_floating_point:
        return True
    if from_.is_floating_point:
        return False
    return from_ == _C.bool or to != _C.bool


_profiles = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, 2 ** 31 - 1, 3, 80)}
_printing = [*_profiles["default"]]  # precision, threshold, edgeitems, linewidth


def set_printoptions(precision: builtins.int | None = None, threshold: builtins.float | None = None,
                     edgeitems: builtins.int | None = None, linewidth: builtins.int | None = None,
                     profile: str | None = None, sci_mode: builtins.bool | None = None) -> None:
    """How tensors are printed; what is left out stays as it was, but for sci_mode: without it, floats that differ much
    in size, or are very large or small, are written with exponents. profile: default, short or full."""
    if profile in _profiles:
        _printing[:] = _profiles[profile]
    for i, value in enumerate((precision, threshold, edgeitems, linewidth)):
        if value is not None:
            _printing[i] = builtins.int(builtins.min(value, 2 ** 31 - 1))
    digits, most, edge, width = _printing
    _C._set_print_options(digits, most, edge, width, 0 if sci_mode is None else 1 if sci_mode else -1)


def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor:
    """A copy that gradients flow through."""
    made = _C.clone(input)
    return made if memory_format is None else _in_format(made, memory_format)


# ---- reductions ----

def _spread(dim: Any, unbiased: builtins.bool | None, keepdim: builtins.bool, correction: _Number | None, axis: Any,
            keepdims: builtins.bool | None) -> builtins.dict[str, Any]:
    """What the ops of variance take, from all that torch takes."""
    dim = axis if axis is not None else dim
    if isinstance(dim, builtins.bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    if unbiased is not None:
        correction = builtins.int(unbiased)
    given = {"correction": 1 if correction is None else correction, "keepdim": keepdim or keepdims or False}
    return given if dim is None else {**given, "dim": dim}


def var(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False, *, correction: _Number | None = None, axis: Any = None,
        keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    """Variance: the mean square of the distance from the mean, with n - correction for n."""
    return _into(out, _C.var(input, **_spread(dim, unbiased, keepdim, correction, axis, keepdims)))


def std(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None, unbiased: builtins.bool | None = None,
        keepdim: builtins.bool = False, *, correction: _Number | None = None, axis: Any = None,
        keepdims: builtins.bool | None = None, out: Tensor | None = None) -> Tensor:
    """Standard deviation, the root of the variance."""
    return _into(out, _C.std(input, **_spread(dim, unbiased, keepdim, correction, axis, keepdims)))


def var_mean(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None,
             unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *,
             correction: _Number | None = None, axis: Any = None, keepdims: builtins.bool | None = None,
             out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Variance and mean at once."""
    return _into(out, _C.var_mean(input, **_spread(dim, unbiased, keepdim, correction, axis, keepdims)))


def std_mean(input: Tensor, dim: builtins.int | Sequence[builtins.int] | None = None,
             unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *,
             correction: _Number | None = None, axis: Any = None, keepdims: builtins.bool | None = None,
             out: Sequence[Tensor] | None = None) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean at once."""
    return _into(out, _C.std_mean(input, **_spread(dim, unbiased, keepdim, correction, axis, keepdims)))


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = ..., out: Tensor | None = ...) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...


def nonzero(input: Tensor, *, as_tuple: builtins.bool = False,
            out: Tensor | None = None) -> Tensor | tuple[Tensor, ...]:
    """The places of elements that are not zero: a row each, or a tensor per dimension with as_tuple."""
    if not as_tuple:
        return _into(out, _C.nonzero(input))
    return (_C.nonzero(input.unsqueeze(0) if input.ndim == 0 else input)).unbind(1)


@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Tensor | _Number, other: Tensor | _Number, *,
          out: Tensor | None = ...) -> Tensor: ...


def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None, self: Any = None) -> Any:
    """The elements of input where condition holds and of other elsewhere; with condition alone the places it holds."""
    input = self if self is not None else input
    if input is None and other is None:
        return nonzero(condition, as_tuple=True)
    return _C.where(condition, input, other, out=out)


def _where(self: Tensor, condition: Tensor, other: Tensor | _Number) -> Tensor:
    """The own elements where condition holds, those of other elsewhere."""
    return _C.where(condition, self, other)


def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Have both the same shape and elements?"""
    if input.shape != other.shape:
        return False
    return builtins.bool(_C.eq(input, other).all())


def softmax(input: Tensor, dim: builtins.int, dtype: _Dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """exp(x) over its sum along a dimension."""
    return _C.softmax(input, dim, dtype=dtype, out=out)


def log_softmax(input: Tensor, dim: builtins.int, dtype: _Dtype | None = None, *, out: Tensor | None = None) -> Tensor:
    """The logarithm of softmax, without its loss of precision."""
    return _C.log_softmax(input, dim, dtype=dtype, out=out)


# ---- shapes ----

def split(tensor: Tensor, split_size_or_sections: builtins.int | Sequence[builtins.int],
          dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """Pieces of a size along a dimension (the last may be smaller), or of the sizes listed."""
    if isinstance(split_size_or_sections, (tuple, builtins.list)):
        return _C.split_with_sizes(tensor, split_size_or_sections, dim)
    return _C.split(tensor, split_size_or_sections, dim)


def _split(self: Tensor, split_size: builtins.int | Sequence[builtins.int], dim: builtins.int = 0
           ) -> tuple[Tensor, ...]:
    """Pieces of a size along a dimension (the last may be smaller), or of the sizes listed."""
    return split(self, split_size, dim)


def gather(input: Tensor, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False,
           out: Tensor | None = None) -> Tensor:
    """The elements of input that index names along a dimension."""
    only_speed("gather", False, sparse_grad=sparse_grad)
    return _C.gather(input, dim, index, out=out)


_methods(clone, equal, gather, log_softmax, nonzero, softmax, std, std_mean, var, var_mean, split=_split,
         where=_where)
_public(globals())
