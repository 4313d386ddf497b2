"""Limits on gradients."""
from __future__ import annotations

from typing import Iterable

from ... import _C
from ..._modes import no_grad
from ..._arguments import only_speed
from ..._tensor import Tensor

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


def _list(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _check(norm: Tensor, wanted: bool) -> None:
    if wanted and not bool(norm.isfinite()):
        raise RuntimeError("The total norm of the gradients is not finite, so they cannot be clipped; "
                           "error_if_nonfinite=False lets it pass")


def get_total_norm(tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:
    """The norm of all tensors together."""
    only_speed("get_total_norm", foreach=foreach)
    norms = [_C.linalg_vector_norm(t, float(norm_type)) for t in _list(tensors)]
    if not norms:
        return _C.tensor(0.0)
    total = _C.linalg_vector_norm(_C.stack([n.to(norms[0].device) for n in norms]), float(norm_type))
    _check(total, error_if_nonfinite)
    return total


def clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor,
                          foreach: bool | None = None) -> None:
    """Scales gradients by max_norm / total_norm where that is below one."""
    only_speed("clip_grads_with_norm_", foreach=foreach)
    with no_grad():
        scale = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for p in _list(parameters):
            if p.grad is not None:
                p.grad.mul_(scale.to(p.grad.device))


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Scales the gradients so that their norm, all taken together, is at most max_norm; gives what it was."""
    only_speed("clip_grad_norm_", foreach=foreach)
    chosen = tuple(p for p in _list(parameters) if p.grad is not None)
    if not chosen:
        return _C.tensor(0.0)
    if error_if_nonfinite:
        _check(get_total_norm([p.grad for p in chosen if p.grad is not None], norm_type), True)
    return _C._clip_grad_norm(chosen, float(max_norm), float(norm_type))


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Limits every element of the gradients to +-clip_value."""
    only_speed("clip_grad_value_", foreach=foreach)
    _C._clip_grad_value(tuple(p for p in _list(parameters) if p.grad is not None), float(clip_value))
