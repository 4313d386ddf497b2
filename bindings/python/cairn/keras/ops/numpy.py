"""keras.ops.numpy: numpy's names for cairn's ops. Those that only have another name come from tables."""
from __future__ import annotations

import builtins
import math
from typing import Any

import cairn
from ..._arguments import only_speed
from ...nn import functional as F
from ..backend import dtype_of
from ._make import binary, dims, extreme, flattened, floats, one_by_one, op, reduction, tensor, unary
from ._shape import *  # noqa: F401,F403
from ._shape import _joined

_int = cairn.int32  # the type of indices

# ---- one tensor ----
for _name in ("exp log sqrt log1p expm1 sin cos tan sinh cosh tanh arccos arccosh arcsin arcsinh arctan arctanh exp2 "
              "log2 log10 deg2rad rad2deg reciprocal sinc i0").split():
    globals()[_name] = unary(getattr(cairn, _name), _name)
for _name in "floor ceil trunc isnan isinf isfinite isposinf isneginf signbit".split():
    globals()[_name] = unary(getattr(cairn, _name), _name)
for _name in "sign logical_not bitwise_not square".split():
    globals()[_name] = unary(getattr(cairn, _name), _name, False)
bitwise_invert = unary(cairn.bitwise_not, "bitwise_invert", False)
negative, ravel = unary(lambda x: -x, "negative", False), unary(lambda x: x.reshape(-1), "ravel", False)
abs = absolute = unary(lambda x: x.abs(), "abs", False)
fabs, copy = unary(lambda x: x.abs(), "fabs"), unary(lambda x: x.clone(), "copy", False)
cbrt = unary(lambda x: x.sign() * x.abs().pow(1.0 / 3.0), "cbrt")
isreal = unary(lambda x: cairn.ones_like(x, dtype=cairn.bool), "isreal", False)
real = conj = conjugate = unary(lambda x: x, "real", False)
imag, angle = unary(cairn.zeros_like, "imag"), unary(lambda x: (x < 0).to(x.dtype) * math.pi, "angle")
fliplr, flipud = unary(lambda x: x.flip(1), "fliplr", False), unary(lambda x: x.flip(0), "flipud", False)
corrcoef = unary(cairn.corrcoef, "corrcoef")

# ---- two tensors ----
_symbols: dict[str, Any] = {
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b,
    "divide": lambda a, b: a / b, "true_divide": lambda a, b: a / b, "floor_divide": lambda a, b: a // b,
    "power": lambda a, b: a ** b, "mod": lambda a, b: a % b, "equal": lambda a, b: a == b,
    "not_equal": lambda a, b: a != b, "greater": lambda a, b: a > b, "greater_equal": lambda a, b: a >= b,
    "less": lambda a, b: a < b, "less_equal": lambda a, b: a <= b}
for _name, _f in _symbols.items():
    globals()[_name] = binary(_f, _name)
for _name in ("maximum minimum logical_and logical_or logical_xor arctan2 fmax fmin fmod hypot logaddexp logaddexp2 "
              "nextafter heaviside gcd lcm bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift "
              "kron").split():
    globals()[_name] = binary(getattr(cairn, _name), _name, True)
left_shift = binary(cairn.bitwise_left_shift, "left_shift", True)
right_shift = binary(cairn.bitwise_right_shift, "right_shift", True)
ldexp = binary(lambda a, b: a * cairn.exp2(b.to(cairn.get_default_dtype())), "ldexp", True)
matmul = binary(lambda a, b: a @ b, "matmul", True)
inner = binary(lambda a, b: cairn.tensordot(a, b, dims=([-1], [-1])), "inner", True)
outer = binary(lambda a, b: cairn.outer(a.reshape(-1), b.reshape(-1)), "outer", True)
vdot = binary(lambda a, b: (a.reshape(-1) * b.reshape(-1)).sum(), "vdot", True)


def _dot(a: Any, b: Any) -> Any:
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    return cairn.tensordot(a, b, dims=([-1], [-1 if b.ndim == 1 else -2]))


def _no_nan(a: Any, b: Any) -> Any:
    return cairn.where(b == 0, cairn.zeros_like(a + b), a / cairn.where(b == 0, cairn.ones_like(b), b))


dot, divide_no_nan = binary(_dot, "dot", True), binary(_no_nan, "divide_no_nan", True)

# ---- over dimensions ----
sum = reduction(lambda x, d, k: x.sum(d, keepdim=k), "sum")
mean = reduction(lambda x, d, k: x.mean(d, keepdim=k), "mean", True)
var = reduction(lambda x, d, k: x.var(d, correction=0, keepdim=k), "var", True)
std = reduction(lambda x, d, k: x.std(d, correction=0, keepdim=k), "std", True)
max = amax = extreme(lambda x, d, k: x.amax(d, keepdim=k), "max", cairn.maximum)
min = amin = extreme(lambda x, d, k: x.amin(d, keepdim=k), "min", cairn.minimum)
ptp = reduction(lambda x, d, k: x.amax(d, keepdim=k) - x.amin(d, keepdim=k), "ptp")
any = reduction(one_by_one(lambda x, d, k: x.any(d, keepdim=k)), "any")
all = reduction(one_by_one(lambda x, d, k: x.all(d, keepdim=k)), "all")
_prod = reduction(one_by_one(lambda x, d, k: x.prod(d, keepdim=k)), "prod")


@op
def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Any:
    return _prod(x if dtype is None else tensor(x).to(dtype_of(dtype)), axis, keepdims)


nansum = reduction(lambda x, d, k: x.nan_to_num(0.0, math.inf, -math.inf).sum(d, keepdim=k), "nansum", True)
nanmean = reduction(lambda x, d, k: cairn.nanmean(x, d, keepdim=k), "nanmean", True)
nanprod = reduction(one_by_one(lambda x, d, k: cairn.where(x.isnan(), 1.0, x).prod(d, keepdim=k)), "nanprod", True)
nanmax = reduction(lambda x, d, k: cairn.where(x.isnan(), -math.inf, x).amax(d, keepdim=k), "nanmax", True)
nanmin = reduction(lambda x, d, k: cairn.where(x.isnan(), math.inf, x).amin(d, keepdim=k), "nanmin", True)


def _nanvar(x: Any, d: Any, k: bool) -> Any:
    return cairn.nanmean((x - cairn.nanmean(x, d, keepdim=True)).square(), d, keepdim=k)


nanvar = reduction(_nanvar, "nanvar", True)
nanstd = reduction(lambda x, d, k: _nanvar(x, d, k).sqrt(), "nanstd", True)
median = reduction(flattened(lambda x, d, k: cairn.quantile(x, 0.5, d)), "median", True)
nanmedian = reduction(flattened(lambda x, d, k: cairn.nanquantile(x, 0.5, d)), "nanmedian", True)


def _quantiles(f: Any, name: str, scale: float) -> Any:
    def of(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Any:
        x = floats(x)
        at = floats(q).to(x.dtype) / scale
        made = [flattened(lambda t, d, k: f(t, p, d, interpolation=method))(x, dims(x, axis), keepdims)
                for p in at.reshape(-1)]
        return made[0] if at.ndim == 0 else cairn.stack(made)
    return op(of, name)


quantile, percentile = _quantiles(cairn.quantile, "quantile", 1.0), _quantiles(cairn.quantile, "percentile", 100.0)
nanquantile = _quantiles(cairn.nanquantile, "nanquantile", 1.0)
nanpercentile = _quantiles(cairn.nanquantile, "nanpercentile", 100.0)


@op
def average(x: Any, axis: Any = None, weights: Any = None) -> Any:
    x = floats(x)
    if weights is None:
        return x.mean(dims(x, axis))
    w = floats(weights)
    if w.ndim != x.ndim and isinstance(axis, int):
        w = w.reshape(tuple(-1 if d == axis % x.ndim else 1 for d in range(x.ndim)))
    return (x * w).sum(dims(x, axis)) / w.expand_as(x).sum(dims(x, axis))


@op
def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    return tensor(x).argmax(axis, keepdim=keepdims).to(_int)


@op
def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    return tensor(x).argmin(axis, keepdim=keepdims).to(_int)


@op
def nanargmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    x = floats(x)
    return cairn.where(x.isnan(), -math.inf, x).argmax(axis, keepdim=keepdims).to(_int)


@op
def nanargmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    x = floats(x)
    return cairn.where(x.isnan(), math.inf, x).argmin(axis, keepdim=keepdims).to(_int)


@op
def argsort(x: Any, axis: int | None = -1) -> Any:
    x = tensor(x)
    return (x.reshape(-1).argsort(stable=True) if axis is None else x.argsort(axis, stable=True)).to(_int)


@op
def argpartition(x: Any, kth: int, axis: int = -1) -> Any:
    x = tensor(x)
    size = int(x.shape[axis])
    if not -size <= kth < size:
        raise ValueError("argpartition: kth=%d is outside of the %d places along axis %d" % (kth, size, axis))
    return x.argsort(axis).to(_int)  # sorted as a whole, which has every place where it belongs


@op
def sort(x: Any, axis: int = -1) -> Any:
    return tensor(x).sort(axis)[0]


@op
def count_nonzero(x: Any, axis: Any = None) -> Any:
    x = tensor(x)
    return (x != 0).to(_int).sum(dims(x, axis)).to(_int)


def _running(f: str, name: str, nan: float | None = None) -> Any:
    def over(x: Any, axis: int | None = None, dtype: Any = None) -> Any:
        x = tensor(x) if dtype is None else tensor(x).to(dtype_of(dtype))
        if nan is not None:
            x = cairn.where(x.isnan(), nan, x)
        return getattr(x.reshape(-1), f)(0) if axis is None else getattr(x, f)(axis)
    return op(over, name)


cumsum, cumprod = _running("cumsum", "cumsum"), _running("cumprod", "cumprod")
nancumsum, nancumprod = _running("cumsum", "nancumsum", 0.0), _running("cumprod", "nancumprod", 1.0)


@op
def diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    return cairn.diff(tensor(a), n, axis)


@op
def clip(x: Any, x_min: Any, x_max: Any) -> Any:
    x = tensor(x)
    low, high = (v if v is None or isinstance(v, (int, float)) else tensor(v).to(x.dtype) for v in (x_min, x_max))
    if isinstance(low, cairn.Tensor) or isinstance(high, cairn.Tensor):
        x = x if low is None else cairn.maximum(x, cairn.as_tensor(low, dtype=x.dtype))
        return x if high is None else cairn.minimum(x, cairn.as_tensor(high, dtype=x.dtype))
    return x.clamp(low, high)


@op
def round(x: Any, decimals: int = 0) -> Any:
    return cairn.round(floats(x), decimals=decimals) if decimals else cairn.round(floats(x))


@op
def nan_to_num(x: Any, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Any:
    return floats(x).nan_to_num(nan, posinf, neginf)


@op
def isclose(x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    return cairn.isclose(floats(x1), floats(x2), rtol, atol, equal_nan)


def allclose(x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Any:
    return isclose(x1, x2, rtol, atol, equal_nan).all()


@op
def isin(x1: Any, x2: Any, assume_unique: bool = False, invert: bool = False) -> Any:
    return cairn.isin(tensor(x1), tensor(x2), assume_unique=assume_unique, invert=invert)


# ---- products ----
@op
def einsum(subscripts: str, *operands: Any, optimize: Any = None) -> Any:
    only_speed("einsum", optimize=optimize)
    return cairn.einsum(subscripts, *_joined(operands))


@op
def tensordot(x1: Any, x2: Any, axes: Any = 2) -> Any:
    a, b = _joined([x1, x2])
    if not isinstance(axes, int):
        axes = tuple([d] if isinstance(d, int) else list(d) for d in axes)
    return cairn.tensordot(a, b, dims=axes)


@op
def cross(x1: Any, x2: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    a, b = _joined([x1, x2])
    a, b = a.movedim(axisa if axis is None else axis, -1), b.movedim(axisb if axis is None else axis, -1)
    return cairn.linalg.cross(a, b, dim=-1).movedim(-1, axisc if axis is None else axis)


@op
def correlate(x1: Any, x2: Any, mode: str = "valid") -> Any:
    a, b = floats(x1), floats(x2)
    pads = {"valid": 0, "full": int(b.shape[0]) - 1, "same": int(b.shape[0]) // 2}[mode]
    made = F.conv1d(a.reshape(1, 1, -1), b.reshape(1, 1, -1), padding=pads).reshape(-1)
    return made[:int(a.shape[0])] if mode == "same" else made


@op
def trace(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return tensor(x).diagonal(offset, axis1, axis2).sum(-1)


@op
def diagonal(x: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return tensor(x).diagonal(offset, axis1, axis2)


@op
def diag(x: Any, k: int = 0) -> Any:
    return cairn.diag(tensor(x), k)


@op
def diagflat(x: Any, k: int = 0) -> Any:
    return cairn.diagflat(tensor(x), k)


@op
def tril(x: Any, k: int = 0) -> Any:
    return tensor(x).tril(k)


@op
def triu(x: Any, k: int = 0) -> Any:
    return tensor(x).triu(k)


@op
def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    y = floats(y)
    return cairn.trapezoid(y, dx=dx, dim=axis) if x is None else cairn.trapezoid(y, floats(x), dim=axis)


@op
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    return cairn.vander(tensor(x), N, increasing)


def meshgrid(*x: Any, indexing: str = "xy") -> Any:
    return list(cairn.meshgrid(*[tensor(t) for t in x], indexing=indexing))


# ---- making ----
def array(x: Any, dtype: Any = None) -> Any:
    return tensor(x) if dtype is None else tensor(x).to(dtype_of(dtype))


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)


def zeros(shape: Any, dtype: Any = None) -> Any:
    return cairn.zeros(_shape(shape), dtype=dtype_of(dtype))


def ones(shape: Any, dtype: Any = None) -> Any:
    return cairn.ones(_shape(shape), dtype=dtype_of(dtype))


def empty(shape: Any, dtype: Any = None) -> Any:
    return cairn.empty(_shape(shape), dtype=dtype_of(dtype))


def full(shape: Any, fill_value: Any, dtype: Any = None) -> Any:
    if hasattr(fill_value, "shape") and len(fill_value.shape):
        return tensor(fill_value).to(dtype_of(dtype)).expand(_shape(shape)).clone()
    return cairn.full(_shape(shape), fill_value, dtype=dtype_of(dtype))


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    made = cairn.zeros(N, N if M is None else M, dtype=dtype_of(dtype))
    made.diagonal(k).fill_(1)
    return made


def identity(n: int, dtype: Any = None) -> Any:
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Any:
    return cairn.ones(N, N if M is None else M, dtype=dtype_of(dtype)).tril(k)


def _like(f: Any, name: str) -> Any:
    return op(lambda x, dtype=None: f(tensor(x), dtype=None if dtype is None else dtype_of(dtype)), name)


zeros_like, ones_like = _like(cairn.zeros_like, "zeros_like"), _like(cairn.ones_like, "ones_like")
empty_like = _like(cairn.empty_like, "empty_like")


@op
def full_like(x: Any, fill_value: Any, dtype: Any = None) -> Any:
    return cairn.full_like(tensor(x), fill_value, dtype=None if dtype is None else dtype_of(dtype))


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Any:
    first, last = (0, start) if stop is None else (start, stop)
    given = [v.item() if hasattr(v, "item") else v for v in (first, last, 1 if step is None else step)]
    kind = dtype_of(dtype) if dtype is not None else _int if all_ints(given) else cairn.get_default_dtype()
    return cairn.arange(*given, dtype=kind)


def all_ints(values: Any) -> bool:
    return builtins.all(isinstance(v, int) for v in values)


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0) -> Any:
    a, b = floats(start), floats(stop)
    parts = builtins.max(num - 1 if endpoint else num, 1)
    a, b = cairn.broadcast_tensors(a, b)
    at = cairn.arange(num, dtype=a.dtype).reshape((-1,) + (1,) * a.ndim) / parts
    made = (a + (b - a) * at).movedim(0, axis)
    made = made if dtype is None else made.to(dtype_of(dtype))
    return (made, (b - a) / parts) if retstep else made


def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10, dtype: Any = None,
             axis: int = 0) -> Any:
    made = float(base) ** linspace(start, stop, num, endpoint, axis=axis)
    return made if dtype is None else made.to(dtype_of(dtype))


def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Any:
    made = linspace(floats(start).log(), floats(stop).log(), num, endpoint, axis=axis).exp()
    return made if dtype is None else made.to(dtype_of(dtype))


bartlett = op(lambda x: cairn.bartlett_window(int(x), periodic=False), "bartlett")
blackman = op(lambda x: cairn.blackman_window(int(x), periodic=False), "blackman")
hamming = op(lambda x: cairn.hamming_window(int(x), periodic=False), "hamming")
hanning = op(lambda x: cairn.hann_window(int(x), periodic=False), "hanning")
kaiser = op(lambda x, beta: cairn.kaiser_window(int(x), periodic=False, beta=float(beta)), "kaiser")


@op
def view(x: Any, dtype: Any = None) -> Any:
    return tensor(x).view(dtype_of(dtype))


def ndim(x: Any) -> int:
    return len(x.shape) if hasattr(x, "shape") else tensor(x).ndim


def size(x: Any) -> Any:
    return math.prod(x.shape if hasattr(x, "shape") else tensor(x).shape)


def vectorize(pyfunc: Any, *, excluded: Any = None, signature: str | None = None) -> Any:
    """A function of numbers as one of tensors: called for each place."""
    if signature is not None or excluded is not None:
        raise NotImplementedError("vectorize: signature and excluded are not there; use vectorized_map")

    def each(*args: Any) -> Any:
        parts = cairn.broadcast_tensors(*[tensor(a) for a in args])
        made = [tensor(pyfunc(*row)) for row in zip(*[p.reshape(-1) for p in parts])]
        return cairn.stack(made).reshape(tuple(parts[0].shape))
    return each
