"""cairn.testing: assert_close, which compares results up to rounding, and make_tensor, which makes something to try.

Place in the flow: for tests of programs; plain Python on the ops. Invariant: a comparison that fails raises
AssertionError with what differs, where and how much was allowed; arguments that cannot be compared at all raise
TypeError, settings that contradict each other ValueError.
"""
import collections.abc
import math
import typing

import cairn

__all__ = ["assert_close", "make_tensor"]

# (rtol, atol) of values of a type that went through rounding: a few units in the last place, PyTorch's choice.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
_EXACT = (0.0, 0.0)

_Message = str | collections.abc.Callable[[str], str] | None


class _Differs(Exception):
    """Carries the text of a failed comparison up to assert_close."""


class _Settings(typing.NamedTuple):
    allow_subclasses: bool
    rtol: float | None
    atol: float | None
    equal_nan: bool
    check_device: bool
    check_dtype: bool
    check_layout: bool
    check_stride: bool


def assert_close(actual: typing.Any, expected: typing.Any, *, allow_subclasses: bool = True,
                 rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
                 check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
                 check_stride: bool = False, msg: _Message = None) -> None:
    """Raises AssertionError unless |actual - expected| <= atol + rtol * |expected| everywhere.

    Takes tensors, what cairn.as_tensor takes, numbers, None, and sequences and mappings of these, which are compared
    item by item. Without rtol and atol they follow from the types: 1.3e-6 and 1e-5 for float32, 0 for integers, the
    larger ones where both types differ. Not-a-number equals itself with equal_nan; infinities equal themselves.

    Shapes must be the same. So must device, type and layout, unless check_device, check_dtype or check_layout is
    False, and with check_stride the strides. allow_subclasses=False wants both to be of one class. msg replaces the
    message, or is a function that is given it and returns another.
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"assert_close: rtol and atol go together: give both or neither (rtol={rtol}, atol={atol})")
    settings = _Settings(allow_subclasses, rtol, atol, equal_nan, check_device, check_dtype, check_layout,
                         check_stride)
    try:
        _compare(actual, expected, settings, "")
    except _Differs as difference:
        text = str(difference)
    else:
        return
    raise AssertionError(msg(text) if callable(msg) else text if msg is None else msg)


# ---- by kind ----
def _compare(a: typing.Any, e: typing.Any, s: _Settings, at: str) -> None:
    """Dispatches on what both are. `at` is the path to them inside the arguments, "[0]['x']"."""
    if _is_sequence(a) and _is_sequence(e):
        if len(a) != len(e):
            raise _Differs(f"{_where(at)}sequences of different length: {len(a)}, expected {len(e)}")
        for i, (x, y) in enumerate(zip(a, e)):
            _compare(x, y, s, f"{at}[{i}]")
    elif isinstance(a, collections.abc.Mapping) and isinstance(e, collections.abc.Mapping):
        _compare_mappings(a, e, s, at)
    elif a is None or e is None:
        if a is not e:
            raise _Differs(f"{_where(at)}None on one side only: {a!r}, expected {e!r}")
    elif _is_bool(a) and _is_bool(e):
        if bool(a) != bool(e):
            raise _Differs(f"{_where(at)}{a}, expected {e}")
    elif _is_number(a) and _is_number(e):
        _compare_numbers(a, e, s, at)
    else:
        _compare_tensors(*_as_tensors(a, e, s, at), s, at)


def _is_sequence(x: typing.Any) -> bool:
    return isinstance(x, collections.abc.Sequence) and not isinstance(x, (str, bytes, bytearray))


def _is_bool(x: typing.Any) -> bool:
    return isinstance(x, bool) or type(x).__name__ in ("bool_", "bool") and type(x).__module__ == "numpy"


def _is_number(x: typing.Any) -> bool:
    """A number of Python, or of numpy; those of numpy follow the protocols of Python's."""
    if isinstance(x, cairn.Tensor) or hasattr(x, "__array__") and getattr(x, "shape", None) != ():
        return False
    return isinstance(x, (int, float, complex)) or type(x).__module__ == "numpy" and hasattr(x, "__float__") \
        and not type(x).__name__ == "ndarray"


def _where(at: str) -> str:
    return f"assert_close: item {at}: " if at else "assert_close: "


def _compare_mappings(a: typing.Any, e: typing.Any, s: _Settings, at: str) -> None:
    lacking, more = [k for k in e if k not in a], [k for k in a if k not in e]
    if lacking or more:
        raise _Differs(f"{_where(at)}mappings with different keys: missing {lacking}, unexpected {more}")
    for key in e:
        _compare(a[key], e[key], s, f"{at}[{key!r}]")


def _compare_numbers(a: typing.Any, e: typing.Any, s: _Settings, at: str) -> None:
    if s.check_dtype and type(a) is not type(e):
        raise _Differs(f"{_where(at)}numbers of different types: {a!r} ({type(a).__name__}), expected {e!r} "
                       f"({type(e).__name__}); check_dtype=False allows it")
    rounded = any(isinstance(x, (float, complex)) for x in (a, e))
    rtol, atol = (_TOLERANCES["float64"] if rounded else _EXACT) if s.rtol is None else (s.rtol, s.atol or 0.0)
    if a == e or s.equal_nan and a != a and e != e:
        return
    difference, allowed = abs(a - e), atol + rtol * abs(e)
    if math.isfinite(difference) and math.isfinite(allowed) and difference <= allowed:
        return
    raise _Differs(f"{_where(at)}{a!r}, expected {e!r}: the difference is {difference}, allowed is {allowed} "
                   f"(atol {atol} + rtol {rtol} * |expected|)")


def _tensor(x: typing.Any) -> cairn.Tensor:
    return x if isinstance(x, cairn.Tensor) else cairn.as_tensor(x)


def _as_tensors(a: typing.Any, e: typing.Any, s: _Settings, at: str) -> tuple[cairn.Tensor, cairn.Tensor]:
    related = isinstance(a, type(e)) or isinstance(e, type(a))
    if not related or not s.allow_subclasses and type(a) is not type(e):
        raise TypeError(f"{_where(at)}cannot compare a {type(a).__name__} with a {type(e).__name__}")
    try:
        return _tensor(a), _tensor(e)
    except Exception as error:
        raise TypeError(f"{_where(at)}a {type(a).__name__} is neither a tensor nor a number, nor can one be made "
                        f"of it: {error}") from error


# ---- tensors ----
def _compare_tensors(a: cairn.Tensor, e: cairn.Tensor, s: _Settings, at: str) -> None:
    _compare_attributes(a, e, s, at)
    rtol, atol = _tolerances(a, e) if s.rtol is None else (s.rtol, s.atol or 0.0)
    a, e = a.detach(), e.detach()
    if a.device != e.device:
        a, e = a.cpu(), e.cpu()
    if a.numel() == 0:
        return
    fine = _matches(a, e, rtol, atol, s.equal_nan)
    wrong = int((~fine).sum().item())
    if wrong:
        raise _Differs(_where(at) + _describe(a, e, fine, wrong, rtol, atol))


def _compare_attributes(a: cairn.Tensor, e: cairn.Tensor, s: _Settings, at: str) -> None:
    def same(name: str, x: typing.Any, y: typing.Any, option: str = "") -> None:
        if x != y:
            hint = f"; {option}=False allows it" if option else ""
            raise _Differs(f"{_where(at)}tensors of different {name}: {x}, expected {y}{hint}")

    same("shape", tuple(a.shape), tuple(e.shape))
    if s.check_layout:
        same("layout", str(a.layout), str(e.layout), "check_layout")
    if s.check_device:
        same("device", str(a.device), str(e.device), "check_device")
    if s.check_dtype:
        same("dtype", str(a.dtype), str(e.dtype), "check_dtype")
    if s.check_stride:
        same("stride", tuple(a.stride()), tuple(e.stride()))


def _name(t: cairn.Tensor) -> str:
    return str(t.dtype).rpartition(".")[2]


def _tolerances(a: cairn.Tensor, e: cairn.Tensor) -> tuple[float, float]:
    both = [_TOLERANCES.get(_name(t), _EXACT) for t in (a, e)]
    return max(r for r, _ in both), max(t for _, t in both)


def _is_float(t: cairn.Tensor) -> bool:
    return "float" in _name(t) or t.is_complex()


def _wide(t: cairn.Tensor) -> cairn.Tensor:
    """Values to subtract: float64 for all types but the exact ones of 64 bits, whose difference is for show only."""
    return t.to(cairn.complex128 if t.is_complex() else cairn.float64)


def _matches(a: cairn.Tensor, e: cairn.Tensor, rtol: float, atol: float, equal_nan: bool) -> cairn.Tensor:
    """bool, of the shape of both: which elements are close."""
    floats = _is_float(a) or _is_float(e)
    if _name(a) == _name(e) and not floats:
        equal = a == e
    else:
        equal = _wide(a) == _wide(e)
    if floats and equal_nan:
        equal = equal | (_wide(a).isnan() & _wide(e).isnan())
    if rtol == 0 and atol == 0:
        return equal
    x, y = _wide(a), _wide(e)
    allowed = y.abs() * rtol + atol
    near = ((x - y).abs() <= allowed) & x.isfinite() & y.isfinite()
    return equal | near


def _index_of(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for n in reversed(shape):
        index.append(position % n)
        position //= n
    return tuple(reversed(index))


def _greatest(label: str, values: cairn.Tensor, shape: tuple[int, ...], allowed: float) -> str:
    """The line about the largest of (flat) values; what is not a number counts as largest."""
    position = int(cairn.where(values.isnan(), cairn.full_like(values, math.inf), values).argmax().item())
    place = f" at {_index_of(position, shape)}" if shape else ""
    return f"\n  greatest {label} difference: {values[position].item():.6g}{place}, allowed {allowed:g}"


def _describe(a: cairn.Tensor, e: cairn.Tensor, fine: cairn.Tensor, wrong: int, rtol: float, atol: float) -> str:
    """The message: how many, where first, how far."""
    shape, n = tuple(a.shape), a.numel()
    x, y, ok = _wide(a).reshape(-1), _wide(e).reshape(-1), fine.reshape(-1)
    first = int((~ok).to(cairn.int64).argmax().item())
    place = f" at {_index_of(first, shape)}" if shape else ""
    got, want = a.reshape(-1)[first].item(), e.reshape(-1)[first].item()
    text = f"{wrong} of {n} elements differ ({100 * wrong / n:.1f} %); the first{place} is {got}, expected {want}"
    distance = (x - y).abs()
    zero = cairn.zeros_like(distance)
    distance = cairn.where(ok, zero, distance)
    relative = cairn.where(ok, zero, distance / y.abs())
    return text + _greatest("absolute", distance, shape, atol) + _greatest("relative", relative, shape, rtol)


# ---- making tensors ----
def _bounds(low: float | None, high: float | None, name: str) -> tuple[float, float]:
    """The half-open range of make_tensor for a type, by default PyTorch's."""
    if name == "bool":
        least, most, default = 0.0, 2.0, (0.0, 2.0)
    elif "int" in name:
        bits, signed = int(name.strip("uint")), not name.startswith("u")
        least, most = (-2.0 ** (bits - 1), 2.0 ** (bits - 1)) if signed else (0.0, 2.0 ** bits)
        default = (-9.0, 10.0) if signed else (0.0, 10.0)
    else:
        most = {"float16": 65504.0, "float32": 3.4028234663852886e38,
                "bfloat16": 3.3895313892515355e38}.get(name, 1.7976931348623157e308)
        least, default = -most, (-9.0, 9.0)
    bottom, top = default[0] if low is None else float(low), default[1] if high is None else float(high)
    if math.isnan(bottom) or math.isnan(top):
        raise ValueError(f"make_tensor: low and high must be numbers, got {low} and {high}")
    if bottom >= top and not (bottom == top and "float" in name):
        raise ValueError(f"make_tensor: low must be less than high, got {low} and {high}")
    return max(bottom, least), min(top, most)


def make_tensor(*shape: int | collections.abc.Sequence[int], dtype: cairn.dtype,
                device: cairn.device | str | int = "cpu", low: float | None = None, high: float | None = None,
                requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
                memory_format: cairn.memory_format | None = None) -> cairn.Tensor:
    """A tensor of random values, evenly spread over [low, high).

    Without low and high the range is [-9, 9) for floats, [-9, 10) for signed integers, [0, 10) for unsigned ones and
    both values of bool; the range is cut to what the type can hold. noncontiguous leaves gaps between the elements
    (a tensor of less than two elements has none), exclude_zero puts the smallest positive normal number or 1 in
    place of zeros. It draws from the default generator (cairn.manual_seed).
    """
    sizes: typing.Any = shape[0] if len(shape) == 1 and isinstance(shape[0], collections.abc.Sequence) else shape
    name = str(dtype).rpartition(".")[2]
    floats = "float" in name
    if requires_grad and not floats:
        raise ValueError(f"make_tensor: requires_grad=True goes with floating types only, not {name}")
    if noncontiguous and memory_format is not None:
        raise ValueError("make_tensor: noncontiguous and memory_format exclude each other")
    bottom, top = _bounds(low, high, name)
    if floats:
        spread = cairn.rand(tuple(sizes), dtype=cairn.float64, device=device)
        made = (1 - spread) * bottom + spread * top  # no difference, which could overflow
        made = made.clamp(bottom, math.nextafter(top, -math.inf) if top > bottom else top).to(dtype)
    else:
        end = min(math.ceil(top), 2 ** 63 - 1)
        made = cairn.randint(math.ceil(bottom), end, tuple(sizes), dtype=cairn.int64, device=device).to(dtype)
    if exclude_zero:
        tiny = {"float16": 2.0 ** -14, "float64": 2.0 ** -1022}.get(name, 2.0 ** -126) if floats else 1
        made = cairn.where(made == 0, cairn.full_like(made, tiny), made)
    if noncontiguous and made.numel() > 1:
        made = made.repeat_interleave(2, dim=-1)[..., ::2]
    elif memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made
