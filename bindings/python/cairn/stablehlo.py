"""cairn.stablehlo: what a function or module computes as StableHLO, the text that XLA and its plugins compile.

    text = cairn.stablehlo.export(model, images)                    # parameters are the first arguments
    text = cairn.stablehlo.export(step, images, labels, donate=True)
    text = cairn.stablehlo.export(model, images, mesh=mesh, shardings={"args": [("data",)], "*.weight": ("model",)})

Place in the flow: the function is traced (cairn.export), and the library writes the graph. Invariant: arguments are, in
this order, what is read from outside (of a module its state dictionary, in its order), the tensors among the arguments,
and, where random numbers are drawn, their seed and offset. See docs/TPU.md.
"""
from __future__ import annotations

import fnmatch
from typing import Any, Mapping

from . import _C, nn
from ._tensor import Tensor
from .export import traced
from .sharding import Mesh, _text

__all__ = ["export", "refused"]


def _shardings(states: dict[str, Tensor], given: Mapping[Any, Any]) -> list[str | None]:
    """Of the states, by patterns of their names or by the tensors themselves, then of the arguments' tensors."""
    found: dict[str, str] = {}
    for key, dims in given.items():
        if isinstance(key, Tensor):
            names = [name for name, state in states.items() if state.data_ptr() == key.data_ptr()]
        else:
            names = [name for name in states if fnmatch.fnmatchcase(name, key)] if key != "args" else list(states)
        if not names and key != "args":
            raise ValueError("stablehlo.export: there is no state %s; there are %s" % (
                "that is this tensor" if isinstance(key, Tensor) else repr(key), ", ".join(states) or "none"))
        for name in names if key != "args" else ():
            found.setdefault(name, _text(dims))
    inputs = [None if dims is None else _text(dims) for dims in given.get("args", ())]
    return [found.get(name) for name in states] + inputs


def export(fn: Any, *args: Any, parameters: str = "arguments", donate: bool = False, mesh: Mesh | None = None,
           shardings: Mapping[Any, Any] | None = None, partitioner: str = "gspmd", **kwargs: Any) -> str:
    """The text of `func.func public @main`. parameters: "arguments", or "constants" for a program by itself. donate:
    arguments that a call writes may give their memory to the results that they become.

    mesh: one program for all devices of a cairn.Mesh, which the compiler splits: as many partitions as devices, one
    replica, use_spmd_partitioning. shardings: how arguments lie there: "args" has a list with an entry for each tensor
    among the arguments; other keys are patterns for the names of a module's states ("*.weight"), or the tensors that a
    function reads from outside. An entry is as in Mesh.shard, or None. What is not named lies whole on each device. New
    values lie as the old ones; other results are whole, unless cairn.shard made them. partitioner: "gspmd", which the
    plugins of today take, or "shardy", its successor (use_shardy_partitioner)."""
    if parameters not in ("arguments", "constants"):
        raise ValueError("stablehlo.export: parameters must be 'arguments' or 'constants', not %r" % (parameters,))
    if not callable(fn):
        raise TypeError("stablehlo.export: expected a function or a module, not %s" % type(fn).__name__)
    if partitioner not in ("gspmd", "shardy"):
        raise ValueError("stablehlo.export: partitioner must be 'gspmd' or 'shardy', not %r" % (partitioner,))
    if shardings and mesh is None:
        raise ValueError("stablehlo.export: shardings need a mesh")
    call = fn
    if isinstance(fn, nn.Module) and parameters == "arguments":
        held = list(fn.state_dict(keep_vars=True).values())

        def call(*given: Any, **named: Any) -> Any:
            for tensor in held:  # in this order they become states, read or not
                tensor.detach()
            return fn(*given, **named)
    graph, constants = traced(call, args, kwargs, [])._graph, parameters == "constants"
    states = {} if constants else graph.states()
    if isinstance(fn, nn.Module) and not constants:  # what is no part of its state is a constant
        graph.name_states(fn)
        own = fn.state_dict()
        states = {name: state for name, state in graph.states().items() if name in own}
        constants = not states
    axes = None if mesh is None else list(mesh.axes.items())
    given = _shardings(states, shardings or {})
    return graph.stablehlo(constants, donate, axes, given, partitioner == "shardy", len(states))


def refused() -> dict[str, str]:
    """The ops that have no form in StableHLO, and why."""
    return _C._stablehlo_refused()
