"""cairn.stablehlo: what a function or module computes as StableHLO, the text that XLA and its plugins compile.

    text = cairn.stablehlo.export(model, images)                    # parameters are the first arguments
    text = cairn.stablehlo.export(step, images, labels, donate=True)

Place in the flow: the function is traced (cairn.export), and the library writes the graph. Invariant: arguments are, in
this order, what is read from outside (of a module its state dictionary, in its order), the tensors among the arguments,
and, where random numbers are drawn, their seed and offset. See docs/TPU.md.
"""
from __future__ import annotations

from typing import Any

from . import _C, nn
from .export import traced

__all__ = ["export", "refused"]


def export(fn: Any, *args: Any, parameters: str = "arguments", donate: bool = False, **kwargs: Any) -> str:
    """The text of `func.func public @main`. parameters: "arguments", or "constants" for a program by itself. donate:
    arguments that a call writes may give their memory to the results that they become."""
    if parameters not in ("arguments", "constants"):
        raise ValueError("stablehlo.export: parameters must be 'arguments' or 'constants', not %r" % (parameters,))
    if not callable(fn):
        raise TypeError("stablehlo.export: expected a function or a module, not %s" % type(fn).__name__)
    call = fn
    if isinstance(fn, nn.Module) and parameters == "arguments":
        held = list(fn.state_dict(keep_vars=True).values())

        def call(*given: Any, **named: Any) -> Any:
            for tensor in held:  # in this order they become states, read or not
                tensor.detach()
            return fn(*given, **named)
    return traced(call, args, kwargs, [])._graph.stablehlo(parameters == "constants", donate)


def refused() -> dict[str, str]:
    """The ops that have no form in StableHLO, and why."""
    return _C._stablehlo_refused()
