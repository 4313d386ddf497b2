"""Tracing below autograd, which is not there: make_fx raises, and no such mode is ever on."""
from __future__ import annotations

from typing import Any

from ... import _absent
from .._symbolic_trace import is_fx_tracing

__all__ = ["get_proxy_mode", "is_fx_tracing", "make_fx"]

_WHY = "there is no tracer below autograd; fx.symbolic_trace and cairn.export make graphs"
make_fx = _absent.function(__name__, "make_fx", _WHY)
ProxyTorchDispatchMode = _absent.kind(__name__, "ProxyTorchDispatchMode", _WHY)


def get_proxy_mode() -> Any:
    """None."""
    return None
