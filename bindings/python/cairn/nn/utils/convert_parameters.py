"""Parameters as one vector and back."""
from __future__ import annotations

from typing import Iterable

from ... import _C
from ..._tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements, one after the other."""
    return _C.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Gives the parameters the elements of a vector as their data."""
    if not isinstance(vec, Tensor):
        raise TypeError("expected a Tensor, but got: %s" % type(vec).__name__)
    at = 0
    for p in parameters:
        n = p.numel()
        p.data = vec[at:at + n].view_as(p).data
        at += n
