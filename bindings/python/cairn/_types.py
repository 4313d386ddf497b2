"""Size, finfo, iinfo and the numbers that torch keeps at its top level."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Iterable, SupportsIndex, overload

from . import _C

if TYPE_CHECKING:
    from ._C import _Dtype

inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
newaxis = None


package_names = ["cairn"]  # as_torch() adds the other one


def of_package(home: str | None, part: str = "") -> bool:
    """Is that the name of the package, or of a module in it (in a part of it: "nn"), by whichever of its names? What a
    class says of itself depends on whether the package stands for torch."""
    first, _, rest = (home or "").partition(".")
    return first in package_names and (not part or rest == part or rest.startswith(part + "."))


class Size(tuple[int, ...]):
    """The sizes of a tensor: a tuple of ints that also knows how many elements they make."""

    __module__ = "cairn"
    __slots__ = ()

    def numel(self) -> int:
        """The product of the sizes."""
        return math.prod(self)

    def __repr__(self) -> str:
        return "%s.Size([%s])" % (type(self).__module__, ", ".join(map(repr, self)))

    __str__ = __repr__

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Size: ...

    def __getitem__(self, index: SupportsIndex | slice) -> int | Size:
        return Size(tuple.__getitem__(self, index)) if isinstance(index, slice) else tuple.__getitem__(self, index)

    def __add__(self, other: Iterable[Any]) -> Size:
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Iterable[int]) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self) -> tuple[type[Size], tuple[tuple[int, ...]]]:
        return Size, (tuple(self),)


# name: (bits, mantissa bits, exponent of the largest power of two, exponent of the smallest normal power of two)
_FLOATS = {
    "float64": (64, 52, 1023, -1022), "float32": (32, 23, 127, -126), "float16": (16, 10, 15, -14),
    "bfloat16": (16, 7, 127, -126),
}
# name: (step above one, largest, smallest, smallest normal) of the types of eight bits, which keep no place for Inf
_EIGHTS = {
    "float8_e4m3fn": (0.125, 448.0, -448.0, 2.0 ** -6), "float8_e4m3fnuz": (0.125, 240.0, -240.0, 2.0 ** -7),
    "float8_e5m2": (0.25, 57344.0, -57344.0, 2.0 ** -14), "float8_e5m2fnuz": (0.25, 57344.0, -57344.0, 2.0 ** -15),
    "float8_e8m0fnu": (1.0, 2.0 ** 127, 2.0 ** -127, 2.0 ** -127),
}
_INTS = {"uint8": (8, False), "int8": (8, True), "int16": (16, True), "int32": (32, True), "int64": (64, True),
         "uint16": (16, False), "uint32": (32, False), "uint64": (64, False)}


def _name(dtype: object) -> str:
    return str(dtype).rpartition(".")[2]


class finfo:
    """The limits of a floating-point type; of the default one when none is named."""

    def __init__(self, type: _Dtype | None = None) -> None:
        dtype = type if type is not None else _C.get_default_dtype()
        self.dtype = _name(dtype)
        if self.dtype in _EIGHTS:
            self.bits, self.resolution = 8, 1.0
            self.eps, self.max, self.min, self.tiny = _EIGHTS[self.dtype]
            self.smallest_normal = self.tiny
            return
        if self.dtype not in _FLOATS:
            raise TypeError("finfo() takes a floating-point type, not %s" % dtype)
        self.bits, mantissa, top, bottom = _FLOATS[self.dtype]
        self.eps = 2.0 ** -mantissa
        self.max = (2.0 - self.eps) * 2.0 ** top
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** bottom
        self.resolution = 10.0 ** -math.floor(mantissa * math.log10(2))

    def __repr__(self) -> str:
        return "finfo(resolution=%g, min=%g, max=%g, eps=%g, smallest_normal=%g, tiny=%g, dtype=%s)" % (
            self.resolution, self.min, self.max, self.eps, self.smallest_normal, self.tiny, self.dtype)


class iinfo:
    """The limits of an integer type."""

    def __init__(self, type: _Dtype) -> None:
        if _name(type) not in _INTS:
            raise TypeError("iinfo() takes an integer type, not %s" % type)
        self.dtype = _name(type)
        self.bits, signed = _INTS[self.dtype]
        self.min: int = -2 ** (self.bits - 1) if signed else 0
        self.max: int = 2 ** (self.bits - signed) - 1

    def __repr__(self) -> str:
        return "iinfo(min=%d, max=%d, dtype=%s)" % (self.min, self.max, self.dtype)
