"""cairn.jit: torch's older ways to ask that code be compiled, for programs that contain them.

Place in the flow: names of cairn that are loaded when a program asks for them. trace makes graphs, which save and load
keep in files; script compiles no source code: it is the code itself, whose ops run in C as they are called.
"""
from __future__ import annotations

import sys
import typing
from types import ModuleType
from typing import Any, Callable, Final, TypeVar

from . import nn, random
from ._arguments import only_speed, refused
from ._tensor import Tensor
from .compiler import _is_tensor, _mapped, compile, is_compiling
from .export import ExportedProgram, load as load_program, traced as _traced

__all__ = ["Final", "ScriptModule", "TracedFunction", "TracedModule", "compile", "export", "ignore", "is_scripting",
           "is_tracing", "load", "save", "script", "script_method", "trace", "unused"]

__path__: list[str] = []  # torch.jit.annotations is a name in here

_Code = TypeVar("_Code", bound=Callable[..., Any])


def script(obj: _Code, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
           example_inputs: Any = None) -> _Code:
    """The function, class or module itself."""
    if not callable(obj):
        raise TypeError("script: expected a function, a class or a module, not %s" % type(obj).__name__)
    only_speed("script", optimize=optimize)
    only_speed("script", example_inputs=example_inputs)
    return obj


class TracedFunction:
    """A function whose calls run as graphs, made from one call."""

    def __init__(self, fn: Any, example: tuple[Any, ...], named: dict[str, Any]) -> None:
        self._fn, self._example, self._named = fn, example, named
        self._compiled = compile(fn, fullgraph=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def _program(self) -> ExportedProgram:
        """What it computes, for any size of the first dimension where it allows that."""
        try:
            return _traced(self._fn, self._example, self._named, _batches(self._example, self._named))
        except RuntimeError:  # the size of the example is part of what is computed
            return _traced(self._fn, self._example, self._named, [])

    @property
    def graph(self) -> str:
        """The graph as text."""
        return self._program().graph

    def save(self, f: Any, _extra_files: Any = None) -> None:
        """Writes what it computes, without gradients, as a file that needs none of the code."""
        refused("jit.save", "the file holds the graph alone", _extra_files=_extra_files)
        self._program().save(f)


class TracedModule(TracedFunction, nn.Module):
    """The same for a module, whose parts it has."""

    def __init__(self, module: nn.Module, example: tuple[Any, ...], named: dict[str, Any]) -> None:
        nn.Module.__init__(self)
        for name, child in module.named_children():
            self.add_module(name, child)
        for name, parameter in module.named_parameters(recurse=False):
            self.register_parameter(name, parameter)
        for name, buffer in module.named_buffers(recurse=False):
            self.register_buffer(name, buffer)
        self.training = module.training
        for name, value in (("_fn", module), ("_example", example), ("_named", named)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_compiled", compile(module, fullgraph=True))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    __call__ = nn.Module.__call__


def _batches(args: Any, kwargs: Any) -> list[tuple[int, int, str, int, int]]:
    """The first dimension of each tensor, where all have the same, may vary."""
    tensors: list[Tensor] = []
    _mapped((args, kwargs), _is_tensor, tensors.append)
    sizes = {t.shape[0] if t.ndim else None for t in tensors}
    return [(i, 0, "batch", 0, 0) for i in range(len(tensors))] if len(sizes) == 1 and None not in sizes else []


def _check(fn: Any, made: Any, args: Any, kwargs: Any, rtol: float) -> None:
    """Raises where the traced function computes something else than the function."""
    seen: list[list[Tensor]] = []
    for f in (fn, made):
        seed = random.get_rng_state()
        seen.append([])
        _mapped(f(*args, **kwargs), _is_tensor, seen[-1].append)
        random.set_rng_state(seed)
    for i, (a, b) in enumerate(zip(*seen)):
        if a.shape != b.shape or not a.allclose(b, rtol=rtol, equal_nan=True):
            raise RuntimeError("jit.trace: the trace gives another result %d than the function does" % i)


def trace(func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
          check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: Any = None,
          _module_class: Any = None, _compilation_unit: Any = None, example_kwarg_inputs: Any = None,
          _store_inputs: bool = True) -> Any:  # unused: strict (there is one way)
    """The function or module as a graph, from a call with the examples: a tensor, a tuple of arguments, or
    example_kwarg_inputs. What Python reads besides is baked in; reading a value raises."""
    only_speed("jit.trace", optimize=optimize, _force_outplace=_force_outplace)
    only_speed("jit.trace", True, _store_inputs=_store_inputs)
    refused("jit.trace", "it is a TracedModule", _module_class=_module_class, _compilation_unit=_compilation_unit)
    args = example_inputs if isinstance(example_inputs, tuple) else tuple(example_inputs) if isinstance(
        example_inputs, list) else () if example_inputs is None else (example_inputs,)
    kwargs = dict(example_kwarg_inputs or {})
    kind = TracedModule if isinstance(func, nn.Module) else TracedFunction
    made = kind(func, args, kwargs)
    for inputs in ([args] if check_trace else []) + list(check_inputs or []):
        _check(func, made, inputs if isinstance(inputs, tuple) else (inputs,), kwargs, check_tolerance)
    if not check_trace:
        made(*args, **kwargs)
    return made


def ignore(drop: Any = False, **how: Any) -> Any:  # unused: how (of saved code, which there is none of)
    """A decorator of methods that are not compiled; none is."""
    return drop if callable(drop) else lambda code: code


def script_method(fn: _Code) -> _Code:
    """A decorator of the methods of a ScriptModule; the method itself."""
    return fn


unused = export = script_method


class ScriptModule(nn.Module):
    """A module whose methods would be compiled."""


def is_scripting() -> bool:
    """Is this call part of a compilation of source code? Never."""
    return False


is_tracing = is_compiling


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Writes what was traced as a file that needs none of the code."""
    if not isinstance(m, TracedFunction):
        raise NotImplementedError("jit.save: only what jit.trace made can be saved; for a module see cairn.export")
    m.save(f, _extra_files)


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """What jit.save or export.save wrote, as a module."""
    refused("jit.load", "the file holds the graph alone", _extra_files=_extra_files)
    only_speed("jit.load", False, _restore_shapes=_restore_shapes)
    if map_location is not None and str(map_location) != "cpu":
        refused("jit.load", "the graph runs where its inputs are traced", map_location=map_location)
    return load_program(f).module()


def _annotations() -> ModuleType:
    """torch.jit.annotations: names of typing."""
    made = ModuleType(__name__ + ".annotations", "Names for annotations, as typing has them.")
    vars(made).update({name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple", "Union")})
    return made


sys.modules[__name__ + ".annotations"] = _annotations()


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    from . import _jit_more
    if not hasattr(_jit_more, name):
        raise AttributeError("module 'cairn.jit' has no attribute %r" % (name,))
    return getattr(_jit_more, name)
