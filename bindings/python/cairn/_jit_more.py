"""The rest of torch.jit's names: marks for its compiler, and helpers that work without one.

Place in the flow: cairn.jit takes them from here when they are asked for. Invariant: nothing here claims that code was
compiled.
"""
from __future__ import annotations

import builtins
import contextlib
import functools
import types
import typing
from typing import Any, Callable, Iterator

from . import _absent, jit
from .futures import Future as Future

__all__ = ["Attribute", "CompilationUnit", "Error", "Future", "RecursiveScriptModule", "ScriptFunction",
           "TracerWarning",
           "annotate", "fork", "freeze", "fuser", "isinstance", "optimize_for_inference", "optimized_execution",
           "script_if_tracing", "set_fusion_strategy", "trace_module", "wait"]

_WHY = "cairn compiles no source text; jit.trace and cairn.export make graphs"
CompilationUnit = _absent.kind("cairn.jit", "CompilationUnit", _WHY)
ScriptFunction = jit.TracedFunction
RecursiveScriptModule = TopLevelTracedModule = jit.TracedModule
_get_trace_graph = _absent.function("cairn.jit", "_get_trace_graph", _WHY)


class Error(RuntimeError):
    """Of torch's compiler of source text."""


class TracerWarning(Warning):
    """A trace may not hold for other inputs."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Nothing to ignore."""


class Attribute(typing.NamedTuple):
    """A value with a type, for a ScriptModule."""
    value: Any
    type: Any


def annotate(the_type: Any, the_value: Any) -> Any:  # unused: the_type (for a compiler)
    """The value."""
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Is it of the type, which may be List[int], Dict[str, Tensor], Optional[...] and so on?"""
    kinds = target_type if builtins.isinstance(target_type, (tuple, list)) else (target_type,)
    return any(_fits(obj, kind) for kind in kinds)


def _fits(obj: Any, kind: Any) -> bool:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin is None:
        return kind is Any or (obj is None if kind in (None, type(None)) else builtins.isinstance(obj, kind))
    if origin is typing.Union or builtins.isinstance(kind, types.UnionType):
        return any(_fits(obj, one) for one in args)
    if origin is dict:
        return builtins.isinstance(obj, dict) and all(_fits(k, args[0]) and _fits(v, args[1]) for k, v in obj.items())
    if origin is tuple:
        return builtins.isinstance(obj, tuple) and len(obj) == len(args) and all(map(_fits, obj, args))
    return builtins.isinstance(obj, origin) and all(_fits(one, args[0]) for one in obj)


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """A future of func(*args, **kwargs), which is computed at once: threads are the library's own."""
    made: Future[Any] = Future()
    try:
        made.set_result(func(*args, **kwargs))
    except Exception as error:
        made.set_exception(error)
    return made


def wait(future: Future[Any]) -> Any:
    """The value of a future."""
    return future.wait()


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True,
           preserve_parameters: bool = False
           ) -> Any:  # unused: preserved_attrs, optimize_numerics, preserve_parameters (speed)
    """The module, which must be in evaluation mode."""
    if getattr(mod, "training", False):
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() on "
                           "your "
                           "module before freezing.")
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:  # unused: other_methods (speed)
    """The module."""
    return mod


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:  # unused: should_optimize (speed)
    """Nothing to switch."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:  # unused: name (speed)
    """Nothing to choose."""
    yield


def set_fusion_strategy(strategy: Any) -> list[Any]:  # unused: strategy (speed)
    """Nothing to set; there was none before."""
    return []


def script_if_tracing(fn: Any) -> Any:
    """The function itself, also while it is traced."""
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)
    return wrapper


def trace_module(mod: Any, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True,
                 check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, **more: Any) -> Any:
    """trace of a module's forward; other methods have no graphs."""
    if set(inputs) != {"forward"}:
        raise NotImplementedError("trace_module: a graph is made of forward alone, not of %s" % sorted(inputs))
    return jit.trace(mod, inputs["forward"], optimize, check_trace, check_inputs, check_tolerance, strict, **more)


_overload = _overload_method = interface = strict_fusion = jit.script_method
