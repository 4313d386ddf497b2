"""numpy's side of tensors: Tensor.numpy(), __array__, and the types that only ml_dtypes knows.

numpy is imported when one of these is called, never before; ml_dtypes only for the types that need it. Arrays of plain
types are read in C through the buffer protocol (buffer.c), which calls here for the others.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _C
from ._C import from_numpy

if TYPE_CHECKING:
    from ._tensor import Tensor

__all__ = ["from_numpy", "to_array", "to_numpy", "wrap_array"]

# Types that buffers have no letter for, by the names they share with ml_dtypes -> integers of the same size.
_BITS = {"bfloat16": "uint16"}
for _name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn",
              "int4", "uint4", "int2", "uint2"):
    _BITS[_name] = "uint8"
del _name


def _unusual(name: str) -> Any:
    """The numpy type of that name, from ml_dtypes."""
    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("numpy has no type for %s: install ml_dtypes, or convert the tensor first "
                        "(t.float().numpy())" % name) from None
    return getattr(ml_dtypes, name)


def _asarray(data: Any) -> Any:
    """numpy.asarray, which takes this name at the first call."""
    from numpy import asarray
    globals()["_asarray"] = asarray
    return asarray(data)


def to_numpy(self: Tensor, *, force: bool = False) -> Any:
    """The tensor as a numpy array over the same memory; with force also where that needs detach, cpu or a copy."""
    try:
        return _asarray(memoryview(self))
    except BufferError:
        pass
    t = self
    if t.requires_grad:
        if not force:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
        t = t.detach()
    if t.device.type != "cpu":
        if not force:
            raise TypeError("can't convert a tensor on %s to numpy. Use tensor.cpu() to copy it to host memory first."
                            % (t.device,))
        t = t.cpu()
    name = str(t.dtype).rpartition(".")[2]
    if name not in _BITS:
        return _asarray(memoryview(t))
    kind = _unusual(name)
    return _asarray(memoryview(_C._bitcast(t, getattr(_C, _BITS[name])))).view(kind)


def to_array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """numpy's protocol: the tensor as an array, of that type where one is given."""
    array = to_numpy(self)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("an array of type %s from a tensor of type %s needs a copy" % (dtype, self.dtype))
        return array.astype(dtype)
    return array.copy() if copy else array


def wrap_array(self: Tensor, array: Any, context: Any = None,
               return_scalar: bool = False) -> Any:  # unused: context, return_scalar (__array_wrap__ gets them)
    """numpy's protocol: what one of its functions made of a tensor is a tensor again."""
    return from_numpy(_asarray(array))


def _as_array(data: Any) -> Any:
    """Called from C: anything that numpy can make an array of."""
    return _asarray(data)


def _share_unusual(array: Any, warn: bool) -> Tensor:
    """Called from C: a tensor over an array whose type buffers cannot say."""
    import warnings
    name = array.dtype.name
    if name not in _BITS:
        raise TypeError("can't convert np.ndarray of type %s: the supported types are float64, float32, float16, "
                        "int64, int32, int16, int8, uint64, uint32, uint16, uint8, bool, and those of ml_dtypes"
                        % array.dtype)
    bits = array.view(_BITS[name])
    with warnings.catch_warnings():
        if not warn:
            warnings.simplefilter("ignore")
        t = from_numpy(bits)
    return _C._bitcast(t, getattr(_C, name))
