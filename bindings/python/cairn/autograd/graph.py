"""torch.autograd.graph: how values are kept for backward, and hooks on several gradients at once."""
from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Sequence

from .. import _C
from .._arguments import refused
from .._tensor import Tensor

__all__ = ["Node", "disable_saved_tensors_hooks", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks"]

Node = _C.Node


class _Refused(threading.local):
    message: str | None = None


_refused = _Refused()


class saved_tensors_hooks:
    """Inside, what an op keeps for backward goes through pack_hook, whose result (anything) is kept in its place; in
    backward unpack_hook makes a tensor of the same shape and type of it. Tensors that a custom Function saves itself
    are not touched."""

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._before: list[Any] = []

    def __enter__(self) -> None:
        if _refused.message is not None:
            raise RuntimeError(_refused.message)
        self._before.append(_C._set_saved_hooks((self.pack_hook, self.unpack_hook)))

    def __exit__(self, *exception: object) -> None:
        _C._set_saved_hooks(self._before.pop())


class save_on_cpu(saved_tensors_hooks):
    """Inside, what is kept for backward lies in host memory, and is brought back to its device in backward."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        refused("save_on_cpu", "only these have memory of their own", "cuda", device_type=device_type)

        def pack(t: Tensor) -> tuple[Any, Tensor]:
            if t.device.type == "cpu":
                return t.device, t
            moved = t.cpu()
            return t.device, moved.pin_memory() if pin_memory else moved

        def unpack(packed: tuple[Any, Tensor]) -> Tensor:
            device, t = packed
            return t.to(device)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Inside, saved_tensors_hooks is an error with that message."""
    before, _refused.message = _refused.message, error_message
    try:
        yield
    finally:
        _refused.message = before


class _Handles:
    """Removes several hooks."""

    def __init__(self, handles: tuple[Any, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all") -> _Handles:
    """mode "all": fn(gradients) once those of all tensors are known in a backward (every time that all have come);
    "any": fn(gradient) when the first is."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    known: dict[int, Tensor] = {}
    lock = threading.Lock()

    def told(place: int) -> Callable[[Tensor], None]:
        def hook(grad: Tensor) -> None:
            with lock:
                first = not known
                known[place] = grad
                complete = len(known) == len(tensors)
                grads = [known[i] for i in range(len(tensors))] if complete else []
                if complete:
                    known.clear()
            if mode == "any" and first:
                fn(grad)
            elif mode == "all" and complete:
                fn(grads)
        return hook

    return _Handles(tuple(t.register_hook(told(i)) for i, t in enumerate(tensors)))
