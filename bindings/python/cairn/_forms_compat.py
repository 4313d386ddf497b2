"""Functions of torch's top level that are made of methods: older names, and questions about tensors."""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Sequence

from . import _C
from ._forms import _public
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._C import Generator, _Number

__all__ = ["adjoint", "binomial", "cholesky", "detach_", "get_device", "get_device_module", "is_conj",
           "is_distributed", "is_inference", "is_neg", "is_same_size", "is_signed", "is_storage", "pca_lowrank", "qr",
           "range", "resize_as_", "svd_lowrank", "typename", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes",
           "zero_"]


def adjoint(input: Tensor) -> Tensor:
    """Each matrix transposed and conjugated."""
    return input.adjoint()


def is_conj(input: Tensor) -> builtins.bool:
    """False: conj computes the conjugate at once."""
    return input.is_conj()


def is_neg(input: Tensor) -> builtins.bool:
    """False."""
    return input.is_neg()


def is_distributed(input: Tensor) -> builtins.bool:
    """False: a tensor is in one place."""
    return input.is_distributed()


def is_signed(input: Tensor) -> builtins.bool:
    """Has its type negative numbers?"""
    return input.is_signed()


def is_inference(input: Tensor) -> builtins.bool:
    """Was it made in inference mode?"""
    return input.is_inference()


def is_same_size(input: Tensor, other: Tensor) -> builtins.bool:
    """Have both the same shape?"""
    return input.is_same_size(other)


def is_storage(obj: object) -> builtins.bool:
    """Is it a storage of cairn.storage?"""
    from .storage import TypedStorage, UntypedStorage
    return isinstance(obj, (TypedStorage, UntypedStorage))


def get_device(input: Tensor) -> builtins.int:
    """The number of its device; -1 for the CPU."""
    return input.get_device()


def get_device_module(device: Any = None) -> Any:
    """cairn.cuda, or whichever module is about that kind of device; without one about the accelerator's."""
    from importlib import import_module
    kind = _C.device(device).type if device is not None else "cuda" if _C._device_count("cuda") else "cpu"
    if kind not in ("cuda", "mps", "xpu"):
        raise RuntimeError("cairn has no module for devices of the kind %r" % (kind,))
    return import_module("cairn." + kind)


def _assert(condition: Any, message: str) -> None:
    """assert, as a function that graphs can have in them."""
    if not condition:
        raise AssertionError(message)


def typename(obj: Any) -> str:
    """The name of a tensor's type ("cairn.FloatTensor"), or of an object's class with its module."""
    if isinstance(obj, Tensor):
        return obj.type()
    what = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(what, "__module__", "") or ""
    return what.__qualname__ if module in ("", "builtins") else "%s.%s" % (module, what.__qualname__)


def unsafe_chunk(input: Tensor, chunks: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """chunk. See Tensor.unsafe_chunk."""
    return input.unsafe_chunk(chunks, dim)


def unsafe_split(tensor: Tensor, split_size: builtins.int, dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """split. See Tensor.unsafe_chunk."""
    return tensor.unsafe_split(split_size, dim)


def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[builtins.int],
                            dim: builtins.int = 0) -> tuple[Tensor, ...]:
    """split by sizes. See Tensor.unsafe_chunk."""
    return input.unsafe_split(split_sizes, dim)


def detach_(input: Tensor) -> Tensor:
    """Cuts the tensor off from its history, in place."""
    return input.detach_()


def zero_(input: Tensor) -> Tensor:
    """Sets every element to zero."""
    return input.zero_()


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """resize_ to another's size."""
    return input.resize_as_(the_template, memory_format=memory_format)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with probability `prob`: every trial is drawn, so large counts take
    their time."""
    if not (count.is_floating_point() and prob.is_floating_point()):
        raise RuntimeError("binomial: count and prob must be floating-point tensors")
    count, prob = _C.broadcast_tensors((count.detach(), prob.detach()))
    if not count.numel():
        return _C.zeros_like(count)
    most = builtins.int(count.max().item())
    trial = _C.arange(0, most, 1, device=count.device).reshape((most,) + (1,) * count.ndim)
    hits = _C.rand((most, *count.shape), dtype=prob.dtype, device=prob.device, generator=generator) < prob
    return (hits & (trial < count)).sum(0).to(count.dtype)


# ---- older names, and decompositions by random projection ----

def range(start: _Number = 0, end: _Number | None = None, step: _Number = 1, **more: Any) -> Tensor:
    """Numbers from start up to and with end: the older arange, which leaves end out."""
    import warnings
    warnings.warn("range includes its end and is deprecated in favour of arange, which does not", UserWarning,
                  stacklevel=2)
    first, last = (0, start) if end is None else (start, end)
    count = builtins.int((last - first) / step) + 1
    dtype = more.pop("dtype", None) or _C.get_default_dtype()
    return (_C.arange(0, count, 1, dtype=_C.float64, device=more.pop("device", None)) * step + first).to(dtype)


def cholesky(input: Tensor, upper: builtins.bool = False, *, out: Tensor | None = None) -> Tensor:
    """The older linalg.cholesky."""
    return _C.linalg_cholesky(input, upper=upper, out=out)


def qr(input: Tensor, some: builtins.bool = True, *, out: Sequence[Tensor] | None = None) -> Any:
    """The older linalg.qr: some=False is mode "complete"."""
    return _C.linalg_qr(input, "reduced" if some else "complete", out=out)


def svd_lowrank(A: Tensor, q: builtins.int | None = 6, niter: builtins.int | None = 2,
                M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """U, S, V of the q largest singular values, found in a random subspace that niter steps turn towards them."""
    data = A if M is None else A - M
    width = builtins.min(6 if q is None else q, *data.shape[-2:])
    basis = _C.randn((*data.shape[:-2], data.shape[-1], width), dtype=data.dtype, device=data.device)
    found = _C.linalg_qr(data @ basis, "reduced")[0]
    for _ in builtins.range(2 if niter is None else niter):
        found = _C.linalg_qr(data.mH @ found, "reduced")[0]
        found = _C.linalg_qr(data @ found, "reduced")[0]
    u, s, vh = _C.linalg_svd(found.mH @ data, full_matrices=False)
    return found @ u, s, vh.mH


def pca_lowrank(A: Tensor, q: builtins.int | None = None, center: builtins.bool = True,
                niter: builtins.int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """svd_lowrank of a matrix whose columns are centred: the columns of V are the principal directions of its rows."""
    most = builtins.min(A.shape[-2:])
    if q is None:
        q = builtins.min(6, most)
    if not 0 <= q <= most:
        raise ValueError("q(=%d) must be non-negative integer and not greater than min(m, n)=%d" % (q, most))
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter)


_public(globals())
