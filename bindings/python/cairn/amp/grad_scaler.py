"""GradScaler: scales losses so that small gradients survive float16, and skips steps in which they overflowed.

    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""
from __future__ import annotations

import warnings
from typing import Any, Iterable, overload

import cairn

from .. import _C
from .._tensor import Tensor
from ..optim._native import Native
from ..optim.optimizer import Optimizer

__all__ = ["GradScaler"]


def _is_librarys(optimizer: Optimizer) -> bool:
    """Is a step all the library's, so that a device can skip it? What Python does besides must know."""
    step = type(optimizer).step
    return getattr(step, "__wrapped__", step) is Native.step and not optimizer._has_step_hooks()


class GradScaler:
    """The scale begins with init_scale; it is multiplied by backoff_factor after gradients that are not finite, and by
    growth_factor after growth_interval good steps in a row. On a device all of this happens there: steps of SGD, Adam
    and AdamW wait for nothing, and get_scale() does."""

    def __init__(self, device: str = "cuda", init_scale: float = 2.0**16, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:
        self._device, self._enabled = device, bool(enabled)
        if self._enabled and device == "cuda" and not cairn.cuda.is_available():
            warnings.warn("GradScaler is enabled for 'cuda', but CUDA is not available. Disabling", stacklevel=2)
            self._enabled = False
        if self._enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if self._enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._core = _C.GradScalerBase(init_scale, growth_factor, backoff_factor, growth_interval, self._enabled,
                                       device)

    @overload
    def scale(self, outputs: Tensor) -> Tensor: ...
    @overload
    def scale(self, outputs: list[Tensor]) -> list[Tensor]: ...
    @overload
    def scale(self, outputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]: ...
    @overload
    def scale(self, outputs: Iterable[Tensor]) -> Iterable[Tensor]: ...

    def scale(self, outputs: Any) -> Any:
        """A tensor, or an iterable of them, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return self._core.scale(outputs)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(o) for o in outputs)
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divides the gradients of an optimiser's parameters by the scale: before they are clipped. step() does it
        otherwise."""
        if self._enabled:
            self._core.unscale(optimizer._rates_push())

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """optimizer.step(), unless gradients are not finite."""
        if self._enabled:
            if "closure" in kwargs or args:
                raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
            core = optimizer._rates_push()
            if not self._core.may_step(core, _is_librarys(optimizer)):
                return None
            result = optimizer.step(*args, **kwargs)
            self._core.stepped(core)  # in captured code: it is taken back where gradients are not finite
            return result
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """The scale of the next iteration: by what happened in this one, or as given."""
        if not self._enabled:
            return
        if new_scale is None:
            self._core.update()
        else:
            self._set("scale", float(new_scale))

    def _state(self, name: str) -> Any:
        return self._core.state()[name]

    def _set(self, name: str, value: Any) -> None:
        self._core.load({**self._core.state(), name: value})

    def get_scale(self) -> float:
        """The scale; 1 where it is disabled."""
        return self._core.get()

    def get_growth_factor(self) -> float:
        return float(self._state("growth_factor"))

    def set_growth_factor(self, new_factor: float) -> None:
        self._set("growth_factor", float(new_factor))

    def get_backoff_factor(self) -> float:
        return float(self._state("backoff_factor"))

    def set_backoff_factor(self, new_factor: float) -> None:
        self._set("backoff_factor", float(new_factor))

    def get_growth_interval(self) -> int:
        return int(self._state("growth_interval"))

    def set_growth_interval(self, new_interval: int) -> None:
        self._set("growth_interval", int(new_interval))

    def is_enabled(self) -> bool:
        """Does it scale?"""
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """The scale and its rules; empty where it is disabled."""
        return self._core.state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled "
                               "instance of GradScaler.")
        self._core.load(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        return {"device": self._device, "enabled": self._enabled, "state": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._device, self._enabled = state["device"], state["enabled"]
        self._core = _C.GradScalerBase(2.0**16, 2.0, 0.5, 2000, self._enabled, self._device)
        if self._enabled:
            self._core.load(state["state"])
