"""Checks that programs for torch write as calls, functions of torch that were removed, and small ones that it keeps to
itself.

Place in the flow: cairn.__getattr__ takes them from here. Invariant: a check raises when its condition is false; what
torch removed raises as it does there."""
from __future__ import annotations

import builtins
from typing import Any, Callable

from . import _absent, _C
from ._tensor import Tensor

__all__: list[str] = []  # all are private, or raise


def _raise(kind: type[Exception], cond: Any, message: Callable[[], Any] | None) -> None:
    if not isinstance(cond, builtins.bool):
        raise TypeError("cond must be a bool, but got %s" % type(cond))
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError("message must be a callable")
    raise kind("a condition that the program checks is false" if message is None else str(message()))


def _check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError with what message() says, unless cond."""
    _raise(RuntimeError, cond, message)


def _check_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None) -> None:
    """An error of that class, unless cond."""
    _raise(error_type, cond, message)


def _check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _raise(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _raise(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _raise(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Callable[[], Any] | None = None) -> None:
    _raise(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Callable[[], Any] | None = None, *, max: builtins.int | None = None) -> None:
    """Is it a size, at most max?"""
    _raise(RuntimeError, i >= 0, message)
    if max is not None:
        _raise(RuntimeError, i <= max, message)


def _all_true(cond: Any) -> builtins.bool:
    if not isinstance(cond, Tensor):
        raise TypeError("cond must be a tensor, but got %s" % type(cond))
    if cond.dtype != _C.bool:
        raise TypeError("cond tensor must have dtype torch.bool, but got %s" % cond.dtype)
    return builtins.bool(cond.all().item())


def _check_tensor_all(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """RuntimeError, unless all elements are true."""
    _raise(RuntimeError, _all_true(cond), message)


def _check_tensor_all_with(error_type: type[Exception], cond: Any, message: Callable[[], Any] | None = None) -> None:
    """An error of that class, unless all elements are true."""
    _raise(error_type, _all_true(cond), message)


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """RuntimeError, unless the one element is true."""
    if input.numel() != 1:
        raise RuntimeError("_assert_async: expected one value, not %d" % input.numel())
    if not input.item():
        raise RuntimeError("Expected Tensor with single nonzero value, but got zero" if assert_msg is None
                           else assert_msg)


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """RuntimeError with the message, unless the number is true."""
    if not self:
        raise RuntimeError(assert_msg)


def _shape_as_tensor(self: Tensor) -> Tensor:
    """The sizes."""
    return _C.tensor(list(self.shape), dtype=_C.int64)


def _standard_gamma(self: Tensor, generator: Any = None) -> Tensor:
    """Draws of gamma distributions of rate 1, with gradients by their concentrations."""
    if generator is not None:
        raise NotImplementedError("_standard_gamma: generator is not supported; seed the default one")
    from .distributions._sampling import standard_gamma
    return standard_gamma(self)


def _cast(name: str, dtype: Any) -> Callable[..., Tensor]:
    def cast(self: Tensor, non_blocking: builtins.bool = False) -> Tensor:  # unused: non_blocking (see Tensor.to)
        return self.to(dtype)
    cast.__name__ = cast.__qualname__ = "_cast_" + name
    cast.__doc__ = "The tensor as %s." % dtype
    return cast


_cast_Byte, _cast_Char, _cast_Short, _cast_Int, _cast_Long, _cast_Half, _cast_Float, _cast_Double = (
    _cast(name, dtype) for name, dtype in (
        ("Byte", _C.uint8), ("Char", _C.int8), ("Short", _C.int16), ("Int", _C.int32), ("Long", _C.int64),
        ("Half", _C.float16), ("Float", _C.float32), ("Double", _C.float64)))


def _removed(name: str, instead: str) -> Callable[..., Any]:
    def removed(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("torch.%s was removed from PyTorch: use %s" % (name, instead))
    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = "Removed from torch: see %s." % instead
    return removed


solve, symeig, eig, lstsq, matrix_rank = (_removed(name, instead) for name, instead in (
    ("solve", "torch.linalg.solve"), ("symeig", "torch.linalg.eigh"), ("eig", "torch.linalg.eig"),
    ("lstsq", "torch.linalg.lstsq"), ("matrix_rank", "torch.linalg.matrix_rank")))


def compiled_with_cxx11_abi() -> builtins.bool:
    """Has text in C++ the newer form? In cairn's C there is none that could have another."""
    return True


def from_file(filename: str, shared: builtins.bool | None = None, size: builtins.int | None = 0, *, dtype: Any = None,
              layout: Any = None, device: Any = None, pin_memory: builtins.bool | None = False
              ) -> Tensor:  # unused: layout (elements lie one behind the other)
    """A tensor of `size` elements over the bytes of a file; shared: writes to it reach the file."""
    from .storage import UntypedStorage
    if device is not None and _C.device(device).type != "cpu":
        raise RuntimeError("from_file: the memory is the host's, not %s's" % device)
    kind = _C.get_default_dtype() if dtype is None else dtype
    storage = UntypedStorage.from_file(filename, bool(shared), (size or 0) * kind.itemsize)
    made = _C.empty(0, dtype=kind).set_(storage, 0, (size or 0,), (1,))
    return made.pin_memory() if pin_memory else made


class _Kinds:
    """torch.classes: classes that libraries of PyTorch's bring. There are none."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError("torch.classes.%s: cairn has no classes of PyTorch's script language" % name)

    @staticmethod
    def load_library(path: str) -> None:
        """Loads a library's ops: see utils.cpp_extension."""
        from .utils.cpp_extension import load_library
        load_library(path)


classes = _Kinds()
legacy_contiguous_format = _C.contiguous_format
has_lapack = has_mkl = has_openmp = has_spectral = True
has_cuda = has_cudnn = has_mps = False
qint8, quint8, qint32, quint4x2, quint2x4 = (_absent.Mark("torch." + name) for name in
                                             ("qint8", "quint8", "qint32", "quint4x2", "quint2x4"))
uint1, uint2, uint3, uint4, uint5, uint6, uint7 = (_absent.Mark("torch.uint%d" % n) for n in range(1, 8))
int1, int2, int3, int4, int5, int6, int7 = (_absent.Mark("torch.int%d" % n) for n in range(1, 8))
bits8, bits16, bits1x8, bits2x4, bits4x2 = (_absent.Mark("torch." + name) for name in
                                            ("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"))
per_tensor_affine, per_channel_affine, per_tensor_symmetric, per_channel_symmetric = (
    _absent.Mark("torch." + name) for name in
    ("per_tensor_affine", "per_channel_affine", "per_tensor_symmetric", "per_channel_symmetric"))
