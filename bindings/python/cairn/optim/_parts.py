"""Small parts that optimisers written in Python take from torch.optim.optimizer.

Place in the flow: optimizer.py has their names. Invariant: what only concerns how fast torch's own kernels run is
answered with no; a step that is wrapped computes what it says."""
from __future__ import annotations

import functools
from typing import Any, Callable

from .. import _C
from .._modes import set_grad_enabled
from .._tensor import Tensor

__all__: list[str] = []  # all are private in torch, too

_params_doc = "params (iterable): parameters, (name, parameter) pairs, or dicts that define groups of parameters."
_foreach_doc = "foreach (bool, optional): all parameters at once."
_maximize_doc = "maximize (bool, optional): go up rather than down."
_capturable_doc = "capturable (bool, optional): steps may be captured in a CUDA graph."
_differentiable_doc = "differentiable (bool, optional): gradients go through the step."
_fused_doc = "fused (bool, optional): one kernel does the step."


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator of step(): gradients are recorded in it where the optimiser is differentiable."""
    @functools.wraps(func)
    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        with set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)
    return step


def _get_value(x: Any) -> Any:
    """The number in a tensor of one element; other values as they are."""
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Any) -> Any:
    """Values as they are: only torch's compiler wants one tensor of them."""
    return x


def _dispatch_sqrt(x: Any) -> Any:
    """The root of a tensor or number."""
    return x.sqrt() if isinstance(x, Tensor) else x ** 0.5


def _disable_dynamo_if_unsupported(single_tensor_fn: Any = None
                                   ) -> Callable[[Any], Any]:  # unused: single_tensor_fn (nothing is switched off)
    """A decorator that changes nothing."""
    return lambda func: func


def _default_to_fused_or_foreach(params: Any, differentiable: bool, use_fused: bool = False
                                 ) -> tuple[bool, bool]:  # unused: params, differentiable, use_fused (never)
    """(fused, foreach): neither is faster here."""
    return False, False


def _get_capturable_supported_devices(supports_xla: bool = True) -> list[str]:
    """Kinds of devices whose steps may be captured in graphs."""
    return ["cuda", "xpu", "hpu", "privateuseone"] + (["xla"] if supports_xla else [])


def _get_fused_kernels_supported_devices() -> list[str]:
    """Kinds of devices for which torch has steps of one kernel."""
    return ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


_get_foreach_kernels_supported_devices = _get_fused_kernels_supported_devices


def _get_scalar_dtype(is_fused: Any = None) -> _C.dtype:
    """The type that step counts have."""
    if is_fused:
        return _C.float32
    return _C.float64 if _C.get_default_dtype() == _C.float64 else _C.float32


def _view_as_real(params: Any, *state_and_grads: Any) -> None:
    """Replaces complex tensors in lists by views of their parts."""
    for i, p in enumerate(params):
        if p.is_complex():
            params[i] = _C.view_as_real(p)
            for held in state_and_grads:
                held[i] = _C.view_as_real(held[i])


def group_by_device_and_dtype(tensorlistlist: Any, with_indices: bool = False) -> dict[Any, Any]:
    """{(device, dtype): (lists like the given ones with those tensors, their places)}, by the first list's tensors."""
    found: dict[Any, Any] = {}
    for i, first in enumerate(tensorlistlist[0]):
        lists, places = found.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for held, given in zip(lists, tensorlistlist):
            if given:
                held.append(given[i])
        places.append(i)
    return found if with_indices else {key: (lists, []) for key, (lists, _) in found.items()}
