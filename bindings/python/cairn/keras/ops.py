"""keras.ops: numpy's names for cairn's ops, also on tensors of a model that is being built."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from ..nn import functional as F
from ._batches import to_tensor
from ._graph import KerasTensor, has_symbol
from .backend import dtype_of, unique_name

_made: dict[str, Callable[..., Any]] = {}


def _op(f: Callable[..., Any], name: str | None = None) -> Callable[..., Any]:
    """A function that also takes places of a model."""
    own = name or f.__name__

    def outer(*args: Any, **kwargs: Any) -> Any:
        if has_symbol((args, kwargs)):
            from .layers.core import Function
            return Function(None, name=unique_name(own), op=own)(*args, **kwargs)
        return f(*args, **kwargs)
    outer.__name__ = outer.__qualname__ = own
    outer.__doc__ = f.__doc__
    _made[own] = outer
    return outer


def _unary(f: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    return _op(lambda x: f(_float(x)), name)


def _float(x: Any) -> Any:
    x = to_tensor(x)
    return x if x.dtype.is_floating_point else x.to(cairn.get_default_dtype())


def _binary(f: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    return _op(lambda x1, x2: f(*_both(x1, x2)), name)


def _both(a: Any, b: Any) -> tuple[Any, Any]:
    if not isinstance(a, cairn.Tensor) and not isinstance(b, cairn.Tensor):
        a = to_tensor(a)
    if not isinstance(a, (int, float)):
        a = to_tensor(a)
    if not isinstance(b, (int, float)):
        b = to_tensor(b)
    return (a, b) if isinstance(a, cairn.Tensor) else (cairn.as_tensor(a, dtype=b.dtype, device=b.device), b)


exp, log, sqrt = _unary(cairn.exp, "exp"), _unary(cairn.log, "log"), _unary(cairn.sqrt, "sqrt")
log1p, expm1, rsqrt = _unary(cairn.log1p, "log1p"), _unary(cairn.expm1, "expm1"), _unary(cairn.rsqrt, "rsqrt")
sin, cos, tan = _unary(cairn.sin, "sin"), _unary(cairn.cos, "cos"), _unary(cairn.tan, "tan")
sinh, cosh, tanh = _unary(cairn.sinh, "sinh"), _unary(cairn.cosh, "cosh"), _unary(cairn.tanh, "tanh")
sigmoid, erf = _unary(cairn.sigmoid, "sigmoid"), _unary(cairn.erf, "erf")
relu, silu, softplus = _unary(F.relu, "relu"), _unary(F.silu, "silu"), _unary(F.softplus, "softplus")
selu, softsign, relu6 = _unary(F.selu, "selu"), _unary(F.softsign, "softsign"), _unary(F.relu6, "relu6")
swish = silu
floor, ceil, round = _unary(cairn.floor, "floor"), _unary(cairn.ceil, "ceil"), _unary(cairn.round, "round")
square = _op(lambda x: to_tensor(x) * to_tensor(x), "square")
sign, negative = _op(lambda x: cairn.sign(to_tensor(x)), "sign"), _op(lambda x: -to_tensor(x), "negative")
abs = absolute = _op(lambda x: to_tensor(x).abs(), "abs")
isnan, isfinite = _unary(cairn.isnan, "isnan"), _unary(cairn.isfinite, "isfinite")
logical_not = _op(lambda x: cairn.logical_not(to_tensor(x)), "logical_not")

add, subtract = _binary(lambda a, b: a + b, "add"), _binary(lambda a, b: a - b, "subtract")
multiply, divide = _binary(lambda a, b: a * b, "multiply"), _binary(lambda a, b: a / b, "divide")
true_divide, floor_divide = divide, _binary(lambda a, b: a // b, "floor_divide")
power, mod = _binary(lambda a, b: a ** b, "power"), _binary(lambda a, b: a % b, "mod")
matmul, dot = _binary(lambda a, b: a @ b, "matmul"), _binary(lambda a, b: a @ b, "dot")


def _extreme(f: Callable[[Any, Any], Any], name: str) -> Callable[..., Any]:
    def both(a: Any, b: Any) -> Any:
        b = b if isinstance(b, cairn.Tensor) else cairn.as_tensor(b, dtype=a.dtype, device=a.device)
        return f(a, b)
    return _binary(both, name)


maximum, minimum = _extreme(cairn.maximum, "maximum"), _extreme(cairn.minimum, "minimum")
equal, not_equal = _binary(lambda a, b: a == b, "equal"), _binary(lambda a, b: a != b, "not_equal")
greater, greater_equal = _binary(lambda a, b: a > b, "greater"), _binary(lambda a, b: a >= b, "greater_equal")
less, less_equal = _binary(lambda a, b: a < b, "less"), _binary(lambda a, b: a <= b, "less_equal")
logical_and = _binary(lambda a, b: cairn.logical_and(a, b), "logical_and")
logical_or = _binary(lambda a, b: cairn.logical_or(a, b), "logical_or")


# ---- over dimensions ----
def _dims(x: Any, axis: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)


def _reduction(f: Callable[[Any, Any, bool], Any], name: str, floats: bool = False) -> Callable[..., Any]:
    def over(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
        x = _float(x) if floats else to_tensor(x)
        return f(x, _dims(x, axis), keepdims) if x.ndim else x
    return _op(over, name)


sum = _reduction(lambda x, d, k: x.sum(d, keepdim=k), "sum")
mean = _reduction(lambda x, d, k: x.mean(d, keepdim=k), "mean", True)
var = _reduction(lambda x, d, k: x.var(d, correction=0, keepdim=k), "var", True)
std = _reduction(lambda x, d, k: x.std(d, correction=0, keepdim=k), "std", True)
max = amax = _reduction(lambda x, d, k: x.amax(d, keepdim=k), "max")
min = amin = _reduction(lambda x, d, k: x.amin(d, keepdim=k), "min")
logsumexp = _reduction(lambda x, d, k: x.logsumexp(d, keepdim=k), "logsumexp", True)


def _each(f: Callable[[Any, int, bool], Any]) -> Callable[[Any, Any, bool], Any]:
    def over(x: Any, dims: Any, keep: bool) -> Any:
        for d in sorted((d % x.ndim for d in dims), reverse=True):
            x = f(x, d, keep)
        return x
    return over


any = _reduction(_each(lambda x, d, k: x.any(d, keepdim=k)), "any")
all = _reduction(_each(lambda x, d, k: x.all(d, keepdim=k)), "all")
prod = _reduction(_each(lambda x, d, k: x.prod(d, keepdim=k)), "prod")


@_op
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    return to_tensor(x).argmax(axis, keepdim=keepdims)


@_op
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    return to_tensor(x).argmin(axis, keepdim=keepdims)


@_op
def argsort(x: Any, axis: int = -1) -> Any:
    return to_tensor(x).argsort(axis)


@_op
def sort(x: Any, axis: int = -1) -> Any:
    return to_tensor(x).sort(axis)[0]


@_op
def top_k(x: Any, k: int, sorted: bool = True) -> Any:
    return to_tensor(x).topk(k, -1)


@_op
def cumsum(x: Any, axis: int = 0) -> Any:
    return to_tensor(x).cumsum(axis)


@_op
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return cairn.linalg.norm(_float(x), ord, axis, keepdims)


@_op
def softmax(x: Any, axis: int = -1) -> Any:
    return F.softmax(_float(x), dim=axis)


@_op
def log_softmax(x: Any, axis: int = -1) -> Any:
    return F.log_softmax(_float(x), dim=axis)


@_op
def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    return F.leaky_relu(_float(x), negative_slope)


@_op
def elu(x: Any, alpha: float = 1.0) -> Any:
    return F.elu(_float(x), alpha)


@_op
def gelu(x: Any, approximate: bool = True) -> Any:
    return F.gelu(_float(x), approximate="tanh" if approximate else "none")


@_op
def clip(x: Any, x_min: Any, x_max: Any) -> Any:
    return to_tensor(x).clamp(x_min, x_max)


@_op
def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    return F.normalize(_float(x), p=order, dim=axis)


# ---- shapes ----
@_op
def reshape(x: Any, newshape: Any) -> Any:
    return to_tensor(x).reshape(tuple(int(n) for n in newshape))


@_op
def transpose(x: Any, axes: Any = None) -> Any:
    x = to_tensor(x)
    return x.permute(*(tuple(range(x.ndim))[::-1] if axes is None else axes))


@_op
def expand_dims(x: Any, axis: int) -> Any:
    return to_tensor(x).unsqueeze(axis)


@_op
def squeeze(x: Any, axis: int | None = None) -> Any:
    return to_tensor(x).squeeze() if axis is None else to_tensor(x).squeeze(axis)


@_op
def concatenate(xs: Any, axis: int = 0) -> Any:
    return cairn.cat([to_tensor(x) for x in xs], dim=axis)


@_op
def stack(x: Any, axis: int = 0) -> Any:
    return cairn.stack([to_tensor(t) for t in x], dim=axis)


@_op
def unstack(x: Any, num: int | None = None, axis: int = 0) -> Any:
    return list(to_tensor(x).unbind(axis))


@_op
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return list(cairn.tensor_split(to_tensor(x), indices_or_sections, dim=axis))


@_op
def tile(x: Any, repeats: Any) -> Any:
    return to_tensor(x).tile((repeats,) if isinstance(repeats, int) else tuple(repeats))


@_op
def repeat(x: Any, repeats: int, axis: int | None = None) -> Any:
    return to_tensor(x).repeat_interleave(repeats, axis)


@_op
def flip(x: Any, axis: Any = None) -> Any:
    return to_tensor(x).flip(_dims(x, axis))


@_op
def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    return cairn.roll(to_tensor(x), shift, axis)


@_op
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    return to_tensor(x).transpose(axis1, axis2)


@_op
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    return to_tensor(x).movedim(source, destination)


@_op
def broadcast_to(x: Any, shape: Any) -> Any:
    return to_tensor(x).expand(tuple(shape))


@_op
def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    return cairn.where(to_tensor(condition), x1, x2)


@_op
def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    x, places = to_tensor(x), to_tensor(indices)
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis %= x.ndim
    flat = x.index_select(axis, places.reshape(-1).long())
    return flat.reshape(tuple(x.shape[:axis]) + tuple(places.shape) + tuple(x.shape[axis + 1:]))


@_op
def take_along_axis(x: Any, indices: Any, axis: int = -1) -> Any:
    return to_tensor(x).gather(axis, to_tensor(indices).long())


@_op
def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None) -> Any:
    return F.one_hot(to_tensor(x).long(), num_classes).to(dtype_of(dtype)).movedim(-1, axis)


@_op
def einsum(subscripts: str, *operands: Any) -> Any:
    return cairn.einsum(subscripts, *[to_tensor(x) for x in operands])


@_op
def cast(x: Any, dtype: Any) -> Any:
    return to_tensor(x).to(dtype_of(dtype))


@_op
def stop_gradient(variable: Any) -> Any:
    return variable.detach()


@_op
def tril(x: Any, k: int = 0) -> Any:
    return to_tensor(x).tril(k)


@_op
def triu(x: Any, k: int = 0) -> Any:
    return to_tensor(x).triu(k)


@_op
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Any:
    flat = [int(n) for pair in list(pad_width)[::-1] for n in pair]
    if mode == "constant":
        return F.pad(to_tensor(x), flat, value=constant_values or 0.0)
    return F.pad(to_tensor(x), flat, mode=mode)


# ---- making ----
def convert_to_tensor(x: Any, dtype: Any = None, sparse: Any = None) -> Any:
    made = to_tensor(x)
    return made if dtype is None else made.to(dtype_of(dtype))


def convert_to_numpy(x: Any) -> Any:
    return to_tensor(x).detach().cpu().numpy()


def is_tensor(x: Any) -> bool:
    return isinstance(x, (cairn.Tensor, KerasTensor))


def shape(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape)


def ndim(x: Any) -> int:
    return len(x.shape)


def zeros(shape: Any, dtype: Any = None) -> Any:
    return cairn.zeros(shape, dtype=dtype_of(dtype))


def ones(shape: Any, dtype: Any = None) -> Any:
    return cairn.ones(shape, dtype=dtype_of(dtype))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    return cairn.full(shape if not isinstance(shape, int) else (shape,), fill_value, dtype=dtype_of(dtype))


def eye(N: int, M: int | None = None, dtype: Any = None) -> Any:
    return cairn.eye(N, N if M is None else M, dtype=dtype_of(dtype))


zeros_like = _op(lambda x, dtype=None: cairn.zeros_like(to_tensor(x)), "zeros_like")
ones_like = _op(lambda x, dtype=None: cairn.ones_like(to_tensor(x)), "ones_like")


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    first, last = (0, start) if stop is None else (start, stop)
    return cairn.arange(first, last, step, **({} if dtype is None else {"dtype": dtype_of(dtype)}))


def linspace(start: float, stop: float, num: int = 50, dtype: Any = None) -> Any:
    return cairn.linspace(start, stop, num)


array = convert_to_tensor
