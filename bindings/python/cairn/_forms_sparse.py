"""Sparse tensors in torch's forms: functions that make them, and what tensors have of them as methods.

Place in the flow: like the other _forms files. Invariant: layouts are cairn.layout here, words for the ops.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Sequence

from . import _C
from ._forms import _into, _methods, _public
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._C import _Device, _Dtype, _layout, _Number

__all__ = ["hspmm", "smm", "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor",
           "sparse_csc_tensor", "sparse_csr_tensor", "sspaddmm"]

_words = {getattr(_C, "sparse_" + word): word for word in ("coo", "csr", "csc", "bsr", "bsc")}


def _word(layout: Any) -> Any:
    """The op's word for a layout."""
    if layout is None or isinstance(layout, str):
        return layout
    if layout not in _words:
        raise RuntimeError("expected a sparse layout, but got %r" % (layout,))
    return _words[layout]


def _indices(data: Any, device: Any) -> Tensor:
    if isinstance(data, Tensor):
        return data
    return _C.tensor(data, dtype=_C.int64, device=device)


def _values(data: Any, dtype: Any, device: Any) -> Tensor:
    made: Any = data if isinstance(data, Tensor) else _C.tensor(data, dtype=dtype, device=device)
    moved: Tensor = made.to(device=device, dtype=dtype) if dtype is not None or device is not None else made
    return moved


def _made(t: Tensor, requires_grad: builtins.bool) -> Tensor:
    return t.detach().requires_grad_(True) if requires_grad else t


def sparse_coo_tensor(indices: Any, values: Any = None, size: Sequence[builtins.int] | None = None, *,
                      dtype: _Dtype | None = None, device: _Device | None = None,
                      pin_memory: builtins.bool = False, requires_grad: builtins.bool = False,
                      check_invariants: builtins.bool | None = None,
                      is_coalesced: builtins.bool | None = None) -> Tensor:
    """A tensor of values at indices, (dims, n), zero elsewhere. Indices are always checked. Also
    sparse_coo_tensor(size): nothing is there."""
    _pinned("sparse_coo_tensor", pin_memory)
    if values is None and not isinstance(indices, Tensor):  # the form that takes a size alone
        size = tuple(indices) if size is None else size
        made = _C.sparse_coo_tensor(_C.zeros((len(size), 0), dtype=_C.int64, device=device),
                                    _C.zeros((0,), dtype=dtype, device=device), size)
        return _made(made, requires_grad)
    places = _indices(indices, device)
    numbers = _values(values, dtype, device)
    if places.ndim == 1 and not places.numel() and not numbers.numel():
        places = places.reshape(0 if size is None else len(size) - numbers.ndim + 1, 0)
    if check_invariants and is_coalesced:
        _check_order(places, size)
    if size is not None and -1 in size:
        raise RuntimeError("size must not be negative")
    made = _C.sparse_coo_tensor(places.to(numbers.device), numbers, None if size is None else tuple(size),
                                is_coalesced=bool(is_coalesced))
    return _made(made, requires_grad)


def _check_order(places: Tensor, size: Any) -> None:
    """Are they different, and in order?"""
    plain = _C.sparse_coo_tensor(places, _C.ones((places.shape[1],)), size if size is None else tuple(size))
    if not _C.coalesce(plain)._indices().equal(places):
        raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


def _pinned(who: str, pin_memory: builtins.bool) -> None:
    if pin_memory:
        raise NotImplementedError("%s: pin_memory=True is not supported for sparse tensors" % who)


def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any,
                             size: Sequence[builtins.int] | None = None, *, dtype: _Dtype | None = None,
                             layout: _layout | None = None, device: _Device | None = None,
                             pin_memory: builtins.bool = False, requires_grad: builtins.bool = False,
                             check_invariants: builtins.bool | None = None) -> Tensor:
    """A tensor by rows or columns, in blocks or not, as layout says. Indices are always checked."""
    if check_invariants not in (None, True, False):
        raise TypeError("check_invariants must be True, False or None, not %r" % (check_invariants,))
    if layout is None:
        raise RuntimeError("sparse_compressed_tensor: layout must be given")
    _pinned("sparse_compressed_tensor", pin_memory)
    numbers = _values(values, dtype, device)
    made = _C.sparse_compressed_tensor(_indices(compressed_indices, device).to(numbers.device),
                                       _indices(plain_indices, device).to(numbers.device), numbers,
                                       None if size is None else tuple(size), layout=_word(layout))
    return _made(made, requires_grad)


def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Sequence[builtins.int] | None = None,
                      **more: Any) -> Tensor:
    """A tensor by rows: where each begins, the column of each value, values."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, layout=_C.sparse_csr, **more)


def sparse_csc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[builtins.int] | None = None,
                      **more: Any) -> Tensor:
    """A tensor by columns: where each begins, the row of each value, values."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, layout=_C.sparse_csc, **more)


def sparse_bsr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Sequence[builtins.int] | None = None,
                      **more: Any) -> Tensor:
    """A tensor by rows of blocks."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, layout=_C.sparse_bsr, **more)


def sparse_bsc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Sequence[builtins.int] | None = None,
                      **more: Any) -> Tensor:
    """A tensor by columns of blocks."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, layout=_C.sparse_bsc, **more)


def smm(input: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse matrix and a dense one, as a sparse matrix."""
    return _C.mm(input, mat).to_sparse()


def hspmm(mat1: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The same with one sparse dimension: rows that are there, dense."""
    return _into(out, _C.mm(mat1, mat2).to_sparse(1))


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1,
             out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (mat1 x mat2): input and mat1 sparse, mat2 dense, the sum sparse."""
    return _into(out, input * beta + smm(mat1, mat2) * alpha)


# ---- methods ----
def _method_indices(self: Tensor) -> Tensor:
    """The indices of a sparse_coo tensor as they are, coalesced or not."""
    return _C._sparse_parts(self)[0]


def _method_values(self: Tensor) -> Tensor:
    """The values of a sparse tensor as they are, coalesced or not."""
    return _C._sparse_parts(self)[1] if self.is_sparse else _C.values(self)


def to_sparse(self: Tensor, sparse_dim: Any = None, *, layout: _layout | None = None,
              blocksize: Sequence[builtins.int] | None = None, dense_dim: builtins.int | None = None) -> Tensor:
    """What is not zero as a sparse tensor: to_sparse(sparse_dim), or of that layout."""
    if isinstance(sparse_dim, _C.layout):
        sparse_dim, layout = None, sparse_dim
    if layout is not None and layout not in (_C.sparse_bsr, _C.sparse_bsc) and blocksize is not None:
        raise RuntimeError("to_sparse for %s to %s conversion does not use the specified blocksize argument"
                           % (self.layout, layout))
    return _C.to_sparse(self, sparse_dim, layout=_word(layout), blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_coo(self: Tensor) -> Tensor:
    """The tensor in the layout sparse_coo."""
    return to_sparse(self)


def _coalesced_(self: Tensor, coalesced: builtins.bool) -> Tensor:
    """Says of a sparse_coo tensor that it is coalesced, or that it is not."""
    indices, values = _C._sparse_parts(self)
    self._replace(_C.sparse_coo_tensor(indices, values, self.shape, is_coalesced=coalesced))
    return self


def sparse_resize_(self: Tensor, size: Sequence[builtins.int], sparse_dim: builtins.int,
                   dense_dim: builtins.int) -> Tensor:
    """Another size, and other numbers of dims where nothing is there; what is there stays at its place."""
    return _resized(self, tuple(size), sparse_dim, dense_dim, self._nnz() == 0)


def sparse_resize_and_clear_(self: Tensor, size: Sequence[builtins.int], sparse_dim: builtins.int,
                             dense_dim: builtins.int) -> Tensor:
    """Another size with nothing in it."""
    return _resized(self, tuple(size), sparse_dim, dense_dim, True)


def _resized(self: Tensor, size: tuple[builtins.int, ...], sparse_dim: builtins.int, dense_dim: builtins.int,
             clear: builtins.bool) -> Tensor:
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError("number of dimensions must be sparse_dim (%d) + dense_dim (%d), but got %d"
                           % (sparse_dim, dense_dim, len(size)))
    if self.requires_grad and self.is_leaf and _C.is_grad_enabled():
        raise RuntimeError("sparse_resize_: a leaf that requires a gradient cannot be changed in place")
    if clear:
        indices = _C.zeros((sparse_dim, 0), dtype=_C.int64, device=self.device)
        values = _C.zeros((0, *size[sparse_dim:]), dtype=self.dtype, device=self.device)
    else:
        if (sparse_dim, dense_dim) != (self.sparse_dim(), self.dense_dim()):
            raise RuntimeError("changing the number of sparse or dense dimensions on a non-empty tensor is not "
                               "supported")
        if any(new < old for new, old in zip(size, self.shape)):
            raise RuntimeError("shrinking the size of dimensions on a non-empty sparse tensor is not supported")
        indices, values = _C._sparse_parts(self)
        grow = [pair for new, old in reversed(list(zip(size, self.shape))[sparse_dim:]) for pair in (0, new - old)]
        values = _C.constant_pad_nd(values, grow) if any(grow) else values
    self._replace(_C.sparse_coo_tensor(indices, values, size, is_coalesced=clear or self.is_coalesced()))
    return self


def _sspaddmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1) -> Tensor:
    """sspaddmm"""
    return sspaddmm(self, mat1, mat2, beta=beta, alpha=alpha)


_public(globals())
_methods(to_sparse, to_sparse_coo, sparse_resize_, sparse_resize_and_clear_, smm, _coalesced_,
         _indices=_method_indices, _values=_method_values, sspaddmm=_sspaddmm)
