"""torch.utils._python_dispatch: modes below autograd, which are not there, and questions about classes that would need
them."""
from __future__ import annotations

from typing import Any

from .. import _absent

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass"]

_WHY = "there is no dispatch below autograd in Python; overrides.TorchFunctionMode sees ops from above"
TorchDispatchMode = _absent.kind(__name__, "TorchDispatchMode", _WHY)
BaseTorchDispatchMode = _absent.kind(__name__, "BaseTorchDispatchMode", _WHY)


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Is it a tensor that stands for others (__tensor_flatten__)?"""
    return hasattr(type(t), "__tensor_flatten__") and hasattr(type(t), "__tensor_unflatten__")


def _get_current_dispatch_mode() -> Any:
    """None: there are no such modes."""
    return None


def _get_current_dispatch_mode_stack() -> list[Any]:
    """None of them."""
    return []
