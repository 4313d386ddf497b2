"""torch.autograd.forward_ad: tensors with a direction, and how results change along it.

Place in the flow: inside of a dual_level, make_dual gives a tensor that remembers its direction (its tangent), and
unpack_dual tells that of a result: it walks backward twice, through the gradient as a function of its seed, as
func.jvp does. Invariant: a tangent is the exact derivative of what was recorded; a level records, also inside of
no_grad, and where recording is off inside of it there is none to take, so make_dual raises there.
"""
from __future__ import annotations

from types import TracebackType
from typing import Any, NamedTuple

from .. import _C
from .._modes import enable_grad, is_grad_enabled
from .._tensor import Tensor
from .function import forward_mode

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """A tensor and its direction, None where it has none."""
    primal: Tensor
    tangent: Tensor | None


_mode = forward_mode()
_recording: list[enable_grad] = []
_levels: list[list[tuple[Tensor, Tensor]]] = []  # of each level its duals: (the tensor, its tangent)


def enter_dual_level() -> int:
    """Begins a level; its number. One level at a time."""
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _levels.append([])
    _mode.__enter__()
    _recording.append(enable_grad())  # directions are no gradients: they are there in no_grad, too
    _recording[-1].__enter__()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Ends it: duals are plain tensors afterwards."""
    if not _levels or level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created.")
    _levels.pop()
    _recording.pop().__exit__(None, None, None)
    _mode.__exit__()


class dual_level:
    """`with dual_level():`"""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        exit_dual_level()


def _level(level: int | None, what: str) -> list[tuple[Tensor, Tensor]]:
    if not _levels or level not in (None, 0):
        raise RuntimeError("Trying to %s a dual Tensor for forward AD but no level exists, make sure to "
                           "enter_dual_level() first." % what)
    return _levels[-1]


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """The tensor with this direction; gradients flow to it as before."""
    duals = _level(level, "create")
    for what, t in (("tensor", tensor), ("tangent", tangent)):
        if not t.is_floating_point():
            raise ValueError("Expected %s to be floating point or complex, but got: %s" % (what, t.dtype))
    if tensor.shape != tangent.shape or tensor.dtype != tangent.dtype:
        raise RuntimeError("Expected tangent and primal to have the same shape and type, but got %s, %s and %s, %s"
                           % (tuple(tangent.shape), tangent.dtype, tuple(tensor.shape), tensor.dtype))
    if not is_grad_enabled():
        raise RuntimeError("make_dual: directions are taken from what is recorded, and recording is off (no_grad)")
    dual: Tensor = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_()
    duals.append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """(the tensor, its direction)."""
    if not _levels:
        return UnpackedDualTensor(tensor, None)
    duals = _level(level, "unpack")
    own = next((tangent for dual, tangent in duals if dual is tensor), None)
    plain = tensor if any(not dual.is_leaf for dual, _ in duals) else tensor.detach()
    return UnpackedDualTensor(plain, own if own is not None else _along(tensor, duals))


def _along(result: Tensor, duals: list[tuple[Tensor, Tensor]]) -> Tensor | None:
    """How a result changes along the directions of what it was computed from."""
    if not result.requires_grad or not duals:
        return None
    places = [dual for dual, _ in duals]
    with enable_grad():
        seed = _C.ones_like(result).requires_grad_()
        back = _C._grad((result,), tuple(places), (seed,), True, True, True)
        used: list[Any] = [(b, tangent) for b, (_, tangent) in zip(back, duals) if b is not None]
        if not used:
            return None
        linear = [(b, tangent) for b, tangent in used if b.requires_grad]
        if not linear:
            return _C.zeros_like(result)
        keep = any(tangent.requires_grad for _, tangent in linear) or _has_others(result, places)
        found, = _C._grad(tuple(b for b, _ in linear), (seed,), tuple(t for _, t in linear), True, keep, True)
    return _C.zeros_like(result) if found is None else found


def _has_others(result: Tensor, duals: list[Tensor]) -> bool:
    """Was it computed from leaves that require gradients besides the duals?"""
    views: list[Any] = [dual.view_as(dual).grad_fn for dual in duals if dual.is_leaf]
    own = [view.next_functions[0][0] for view in views]
    waiting: list[Any] = [result.grad_fn]
    seen: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if not node.next_functions and node not in own:
            return True
        waiting += [inner for inner, _ in node.next_functions]
    return False
