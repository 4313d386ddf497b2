"""Functions of sparse tensors: torch.sparse's names.

Place in the flow: the ops that torch names here are made of the op table's; layouts and methods are Tensor's. Names of
torch.sparse that have no counterpart raise when they are used.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Sequence

from .. import _C
from .._absent import function as _function, kind as _kind
from .._forms import _into
from .._forms_sparse import _word
from .._tensor import Tensor

if TYPE_CHECKING:
    from .._C import _Dtype, _layout, _Number

__all__ = ["SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
           "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm",
           "softmax", "solve", "spdiags", "spsolve", "sum", "to_sparse_semi_structured"]


def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The product of a sparse matrix and a dense or sparse one; reduce: how the terms of an element are put together
    ("sum", "mean", "amax", "amin")."""
    made = _C.mm(mat1, mat2) if reduce is None else _C.sparse_mm_reduce(mat1, mat2, reduce)
    return _into(out, made)


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1,
          out: Tensor | None = None) -> Tensor:
    """beta * mat + alpha * (mat1 x mat2), where mat1 is sparse."""
    return _into(out, _C.addmm(mat, mat1, mat2, beta=beta, alpha=alpha))


def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _Number = 1, alpha: _Number = 1,
                  out: Tensor | None = None) -> Tensor:
    """beta * input + alpha * (mat1 x mat2) at the places of the sparse input."""
    made = _C.sparse_sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    if out is None:
        return made
    out.copy_(made)
    return out


def sum(input: Tensor, dim: Any = None, dtype: _Dtype | None = None) -> Tensor:
    """The sum of a sparse tensor, of all elements or along dims: sparse while a sparse dim is left."""
    return _C.sparse_sum(input, (dim,) if isinstance(dim, int) else dim, dtype=dtype)


def softmax(input: Tensor, dim: int, *, dtype: _Dtype | None = None) -> Tensor:
    """softmax along a dim in which what is not there counts as minus infinity."""
    return _C.sparse_softmax(input, dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: _Dtype | None = None) -> Tensor:
    """The logarithm of softmax."""
    return _C.sparse_log_softmax(input, dim, dtype=dtype)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Sequence[int], layout: _layout | None = None) -> Tensor:
    """A matrix whose diagonals are the rows of a matrix, at offsets."""
    if layout is not None and layout not in (_C.sparse_coo, _C.sparse_csr, _C.sparse_csc):
        raise RuntimeError("Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got %r" % (layout,))
    return _C.sparse_spdiags(diagonals, offsets, tuple(shape), _word(layout))


class check_sparse_tensor_invariants:
    """Whether indices are checked where sparse tensors are made: cairn always does, so this only says what was asked
    for; as a context, a decorator, or by enable() and disable()."""

    _on = False

    def __init__(self, enable: bool = True) -> None:
        self.state = enable
        self.saved_state: bool | None = None

    @staticmethod
    def is_enabled() -> bool:
        return check_sparse_tensor_invariants._on

    @staticmethod
    def enable() -> None:
        check_sparse_tensor_invariants._on = True

    @staticmethod
    def disable() -> None:
        check_sparse_tensor_invariants._on = False

    def __enter__(self) -> None:
        self.saved_state = self.is_enabled()
        check_sparse_tensor_invariants._on = self.state

    def __exit__(self, *error: Any) -> None:
        check_sparse_tensor_invariants._on = bool(self.saved_state)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import functools

        @functools.wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            with type(self)(self.state):
                return function(*args, **named)

        return call


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """A gradcheck of functions of sparse tensors: they are taken apart into values, which are what is varied."""
    def check(fn: Callable[..., Any], inputs: Any, **named: Any) -> bool:
        named.pop("masked", None)
        given = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        plain = [t._values().detach().requires_grad_(t.requires_grad) if _is_sparse(t) else t for t in given]

        def on_values(*values: Any) -> Any:
            made = fn(*(_with_values(t, v) if _is_sparse(t) else v for t, v in zip(given, values)))
            results = made if isinstance(made, (tuple, list)) else (made,)
            dense = tuple(r.to_dense() if _is_sparse(r) else r for r in results)
            return dense if isinstance(made, (tuple, list)) else dense[0]

        return gradcheck(on_values, tuple(plain), **named)

    return check


def _is_sparse(t: Any) -> bool:
    return isinstance(t, Tensor) and t.layout != _C.strided


def _with_values(t: Tensor, values: Tensor) -> Tensor:
    """t with other values."""
    if t.is_sparse:
        return _C.sparse_coo_tensor(t._indices(), values, t.shape, is_coalesced=t.is_coalesced())
    rows = t.layout in (_C.sparse_csr, _C.sparse_bsr)
    index, plain = (t.crow_indices(), t.col_indices()) if rows else (t.ccol_indices(), t.row_indices())
    return _C.sparse_compressed_tensor(index, plain, values, t.shape, layout=_word(t.layout))


_SOLVE = "sparse systems of equations are not solved in cairn; to_dense() and linalg.solve do it for small ones"
_SEMI = "the structured sparsity of NVIDIA's processors has no counterpart in cairn"
spsolve = _function(__name__, "spsolve", _SOLVE)
solve = _function(__name__, "solve", _SOLVE)
to_sparse_semi_structured = _function(__name__, "to_sparse_semi_structured", _SEMI)
SparseSemiStructuredTensor, SparseSemiStructuredTensorCUSPARSELT, SparseSemiStructuredTensorCUTLASS = (
    _kind(__name__, name, _SEMI) for name in
    ("SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS"))
