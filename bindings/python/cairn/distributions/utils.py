"""What the distributions share: parameters brought to one shape, probabilities and their logits, values computed once,
and lower triangles as vectors.
"""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Callable, Generic, TypeVar, overload

import cairn as cn

if TYPE_CHECKING:
    from typing import Sequence, TypeAlias

    from cairn import Size, Tensor
    from cairn._C import _device, _dtype

    Parameter: TypeAlias = Tensor | float  # what a distribution takes for a number it depends on
    Shape: TypeAlias = Sequence[int]

__all__ = ["broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
           "tril_matrix_to_vec", "vec_to_tril_matrix"]

T = TypeVar("T")
euler_constant = 0.57721566490153286060


class lazy_property(Generic[T]):
    """A method that becomes an attribute: computed when first asked for and kept in the object from then on."""

    def __init__(self, wrapped: Callable[[Any], T]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)  # type: ignore[arg-type]  # for its name and docstring

    @overload
    def __get__(self, instance: None, owner: Any = None) -> lazy_property[T]: ...
    @overload
    def __get__(self, instance: object, owner: Any = None) -> T: ...

    def __get__(self, instance: object, owner: Any = None) -> lazy_property[T] | T:
        if instance is None:
            return self
        with cn.enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


def broadcast_all(*values: Parameter) -> tuple[Tensor, ...]:
    """The values as tensors of one shape. A number takes the type and place of the first tensor, or the default type
    where all are numbers."""
    for value in values:
        if not isinstance(value, (cn.Tensor, int, float)):
            raise ValueError("a parameter must be a number or a Tensor, not %s" % type(value).__name__)
    first = next((v for v in values if isinstance(v, cn.Tensor)), None)
    dtype, device = (cn.get_default_dtype(), None) if first is None else (first.dtype, first.device)
    tensors = [v if isinstance(v, cn.Tensor) else cn.tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(cn.broadcast_tensors(*tensors))


def all_numbers(*values: object) -> bool:
    """Whether no value is a tensor, so that the distribution is a single one."""
    return all(isinstance(v, (int, float)) for v in values)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the resolution of their type."""
    eps = cn.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logits: of each its own (log odds) when is_binary, else over the last dimension."""
    return cn.sigmoid(logits) if is_binary else cn.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The inverse of logits_to_probs: log odds when is_binary, else logarithms."""
    inside = clamp_probs(probs)
    return inside.log() - (-inside).log1p() if is_binary else inside.log()


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the last `dims` dimensions."""
    return value if dims == 0 else value.sum(tuple(range(-dims, 0)))


def standard_normal(shape: Size, dtype: _dtype, device: _device) -> Tensor:
    """Draws of mean 0 and variance 1."""
    return cn.randn(shape, dtype=dtype, device=device)


def one_of(probs: object, logits: object) -> bool:
    """Whether it is probs that was given; an error unless exactly one of them was."""
    if (probs is None) == (logits is None):
        raise ValueError("give either `probs` or `logits`, and not both")
    return probs is not None


def _side(count: int) -> int:
    """The number of rows of the lower triangle that has `count` places, its diagonal included."""
    return (math.isqrt(8 * count + 1) - 1) // 2


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangular matrices of the last dimension, filled row by row up to the diagonal number `diag` (0 or less);
    zero elsewhere."""
    n = _side(vec.shape[-1]) - diag
    if vec.shape[-1] != (n + diag) * (n + diag + 1) // 2:
        raise ValueError("%d values fill no lower triangle" % vec.shape[-1])
    row, column = cn.tril_indices(n, n, diag, device=vec.device).unbind()
    flat = vec.new_zeros(tuple(vec.shape[:-1]) + (n * n,))
    places = (row * n + column).expand(vec.shape)
    return flat.scatter(-1, places, vec).reshape(tuple(vec.shape[:-1]) + (n, n))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The places of the last two dimensions on and below the diagonal number `diag`, row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError("diag is %d; a %d x %d matrix has the diagonals %d to %d" % (diag, n, n, -n, n - 1))
    row, column = cn.tril_indices(n, n, diag, device=mat.device).unbind()
    return mat.flatten(-2).index_select(-1, row * n + column)


# torch's own names for two of them, which programs are seen to import.
_sum_rightmost = sum_rightmost
_standard_normal = standard_normal
