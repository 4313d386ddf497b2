"""torch._dynamo's names, for programs that use them beside torch.compile: marks and questions are cairn.compiler's.

Invariant: a mark that only concerns speed changes nothing; what has no counterpart raises when it is used."""
from __future__ import annotations

import sys
from typing import Any

from .. import _absent, _C
from .._arguments import note_once
from .._settings_of import Settings
from ..compiler import (OptimizedModule, allow_in_graph, assume_constant_result, compile as _compile, disable,
                        is_compiling, list_backends, reset)

__all__ = ["OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable", "graph_break",
           "is_compiling", "list_backends", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
           "optimize", "reset"]

_WHY = "cairn captures code in its own way: see cairn.compiler"
config = sys.modules[__name__ + ".config"] = Settings(
    __name__ + ".config", allow_rnn=False, allow_unspec_int_on_nn_module=False, assume_static_by_default=True,
    automatic_dynamic_shapes=True, cache_size_limit=8, capture_dynamic_output_shape_ops=False,
    capture_scalar_outputs=False, disable=False, dont_skip_tracing=False, dynamic_shapes=True,
    error_on_recompile=False, force_parameter_static_shapes=True, guard_nn_modules=True, inline_inbuilt_nn_modules=True,
    optimize_ddp=True, recompile_limit=8, skip_fwd_side_effects_in_bwd_under_checkpoint=False, specialize_int=False,
    suppress_errors=False, trace_numpy=True, verbose=False)
_made = _absent.spaces(__name__, {
    "eval_frame": "OptimizeContext", "utils": "CompileProfiler", "exc": "TensorifyScalarRestartAnalysis",
    "testing": "CompileCounter CompileCounterWithBackend EagerAndRecordGraphs", "backends": "", "backends.common":
    "aot_autograd", "backends.registry": "register_backend lookup_backend", "backends.debugging": "", "decorators": "",
    "external_utils": "", "symbolic_convert": "", "variables": "", "guards": "", "trace_rules": "",
    "allowed_functions": "", "_trace_wrapped_higher_order_op": ""}, _WHY)


def mark_dynamic(t: Any, index: Any, **bounds: Any) -> None:  # unused: t, index, bounds (programs are made by sizes)
    """Says that a size varies: capturing finds that out."""


maybe_mark_dynamic = mark_static = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:  # unused: t, guard (addresses are no part of programs)
    """Says that a tensor stays where it is."""


def graph_break(msg: str = "") -> None:
    """Code that is captured ends here: it runs as it is."""
    if _C._tracing():
        raise _C.CaptureError("graph_break" + (": " + msg if msg else ""))


def optimize(backend: Any = "inductor", *, nopython: bool = False, **options: Any) -> Any:
    """A decorator: compile with these arguments."""
    return _compile(backend=backend, fullgraph=nopython, **options)


def is_dynamo_supported() -> bool:
    """Can code be compiled?"""
    return True


def _warn_once(msg: str, stacklevel: int = 1) -> None:  # unused: stacklevel (the program's line is named)
    """A warning, the first time."""
    note_once(msg)


class Unsupported(RuntimeError):
    """Code cannot be captured."""


class TransformGetItemToIndex:
    """Inside, x[t] with a tensor of no dimensions indexes: it does anyway."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


_own: dict[str, dict[str, Any]] = {
        "eval_frame": {"OptimizedModule": OptimizedModule, "is_dynamo_supported": is_dynamo_supported,
                       "reset": reset, "disable": disable},
        "utils": {"counters": {}, "is_compiling": is_compiling, "warn_once": _warn_once},
        "exc": {"Unsupported": Unsupported, "TorchDynamoException": RuntimeError, "TorchRuntimeError": RuntimeError,
                "BackendCompilerFailed": RuntimeError},
        "decorators": {"disable": disable, "allow_in_graph": allow_in_graph, "mark_static_address": mark_static_address,
                       "mark_dynamic": mark_dynamic, "assume_constant_result": assume_constant_result,
                       "graph_break": graph_break},
        "external_utils": {"is_compiling": is_compiling},
        "_trace_wrapped_higher_order_op": {"TransformGetItemToIndex": TransformGetItemToIndex}}
for _space, _values in _own.items():
    for _name, _value in _values.items():
        setattr(_made[_space], _name, _value)
del _own, _space, _values, _name, _value
