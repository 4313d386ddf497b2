"""cairn.compile and cairn.compiler: functions and modules captured at their first call, and run as graphs later.

Place in the flow: a call's arguments are taken apart into tensors, floats (inputs like tensors, see _weak.py, unless
the function asks for their values) and the rest; the rest, and what the function refers to outside (modules,
optimisers, tensors, plain constants), has a number, its key; _C.CompiledBase finds the program of that key and of the
tensors' kinds, or captures one by calling the function with tensors that have no values. What else Python reads while
it is captured is baked in, as in jax.jit.
"""
from __future__ import annotations

import functools
import types
import weakref
from typing import Any, Callable, Iterable, Iterator, TypeVar, overload

from . import _C, nn
from ._arguments import only_speed, place_of, refused
from ._control import host_call
from ._tensor import Tensor
from ._weak import Weak, watched
from .optim.optimizer import Optimizer

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "explain",
           "host_call", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "stats"]

_Code = TypeVar("_Code", bound=Callable[..., Any])
_Result = TypeVar("_Result")
_CONSTANTS = (bool, int, float, complex, str, bytes, type(None), _C.dtype, _C.device)
_MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_BACKENDS = ("inductor", "cairn", "cudagraphs")


# ---- nested values: their tensors, and the rest ----
class _Slot:
    """Where a tensor was."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Slot) and other.index == self.index

    def __hash__(self) -> int:
        return self.index


def _mapped(tree: Any, is_leaf: Callable[[Any], bool], leaf: Callable[[Any], Any]) -> Any:
    """The nested value with other leaves; what is neither a leaf nor a container stays."""
    if is_leaf(tree):
        return leaf(tree)
    if isinstance(tree, dict):
        items = {key: _mapped(value, is_leaf, leaf) for key, value in tree.items()}
        return items if type(tree) is dict else _remade(tree, items)
    if isinstance(tree, tuple) and hasattr(tree, "_make"):  # also of one whose class takes other arguments
        return tree._make(_mapped(value, is_leaf, leaf) for value in tree)
    if isinstance(tree, (list, tuple)):
        several = [_mapped(value, is_leaf, leaf) for value in tree]
        return several if type(tree) is list else tuple(several) if type(tree) is tuple else _remade(tree, several)
    return tree


def _remade(like: Any, values: Any) -> Any:
    """An object of the class of `like` that holds these values."""
    try:
        return type(like)(values)
    except TypeError:
        return values


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _is_slot(value: Any) -> bool:
    return isinstance(value, _Slot)


def _is_given(value: Any) -> bool:
    """Is it an input of programs: a tensor, or a float in its place?"""
    return isinstance(value, (Tensor, _Float))


def _called(fn: Any, args: Any, kwargs: Any, given: Iterable[Any]) -> tuple[list[Tensor], Any]:
    """Calls a function with other tensors in its arguments. Its tensors, and the rest with places for them."""
    following = iter(given)
    args, kwargs = _mapped((args, kwargs), _is_given, lambda _: next(following))
    made: list[Tensor] = []

    def slot(tensor: Tensor) -> _Slot:
        made.append(tensor)
        return _Slot(len(made) - 1)
    note = _mapped(fn(*args, **kwargs), _is_tensor, slot)
    return made, note


class _Float:
    """A float among the arguments, which programs get as an input; number: which of them."""

    def __init__(self, value: float, number: int) -> None:
        self.value, self.number = value, number


class _Read(BaseException):
    """The function asked for the values of floats: they are part of its programs from now on. No error of the function:
    whoever captures it passes this on."""


class _Same:
    """Stands for an object that has no equal: it is the same as itself alone, which it keeps alive."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


def _key(tree: Any, outside: bool) -> Any:
    """What a program depends on of a value, hashable. Tensors among the arguments are looked at below; those outside
    are known by identity."""
    if isinstance(tree, Tensor):
        return _Same(tree) if outside else Tensor
    if isinstance(tree, _Float):
        return _Float
    if isinstance(tree, nn.Module):
        return _C._module_key(tree)
    if isinstance(tree, Optimizer):
        return (_Same(tree), tree._program_key())
    if isinstance(tree, dict):
        return (dict, tuple((key, _key(value, outside)) for key, value in tree.items()))
    if isinstance(tree, (list, tuple)):
        return (type(tree), tuple(_key(value, outside) for value in tree))
    if isinstance(tree, _CONSTANTS):
        return (type(tree), tree)
    return _Same(tree)


# ---- what a function refers to ----
def _names(code: types.CodeType) -> set[str]:
    """The global names in a function and those inside of it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _worth_watching(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= 100 and all(_worth_watching(one) for one in value)
    return isinstance(value, (nn.Module, Tensor, Optimizer) + _CONSTANTS)


def _watched(fn: Any) -> list[Callable[[], Any]]:
    """How to look at each value that a function finds outside of its arguments, where a program can depend on it. What
    is of another kind when the function is compiled is baked in."""
    if isinstance(fn, functools.partial):
        return _watched(fn.func)
    if isinstance(fn, nn.Module):
        return [lambda: fn]
    found: list[Callable[[], Any]] = []
    owner = getattr(fn, "__self__", None)
    if owner is None and not hasattr(fn, "__code__"):  # an object that can be called
        owner = fn
    if isinstance(owner, nn.Module):
        found.append(lambda: owner)
    elif owner is not None:  # numbers there may be counters: they are baked in
        attributes = getattr(owner, "__dict__", {})
        found += [functools.partial(attributes.get, name) for name, value in attributes.items()
                  if isinstance(value, (nn.Module, Tensor, Optimizer, bool, str))]
    fn = getattr(fn, "__func__", fn)
    code = getattr(fn, "__code__", None)
    if code is None:
        return found
    found += [functools.partial(getattr, cell, "cell_contents", None) for cell in fn.__closure__ or ()
              if _worth_watching(getattr(cell, "cell_contents", None))]
    found += [functools.partial(fn.__globals__.get, name) for name in sorted(_names(code))
              if name in fn.__globals__ and _worth_watching(fn.__globals__[name])]
    return found


def _modules(value: Any) -> list[nn.Module]:
    """The modules whose attributes code may set: one and those below it."""
    return list(value.modules()) if isinstance(value, nn.Module) else []


def _attributes(module: nn.Module) -> Callable[[], None]:
    """Notes the attributes of a module; what is returned puts them back."""
    attributes, buffers = dict(module.__dict__), dict(module._buffers)

    def restore() -> None:
        module.__dict__.clear()
        module.__dict__.update(attributes)
        for name, value in buffers.items():
            if module._buffers.get(name) is not value:
                module._buffers[name] = value
    return restore


# ---- compiled functions ----
_all: weakref.WeakSet[_Compiled] = weakref.WeakSet()


class _Compiled:
    """A function with its programs."""

    def __init__(self, fn: Callable[..., Any], fullgraph: bool) -> None:
        functools.update_wrapper(self, fn)
        self._torchdynamo_orig_callable = fn
        self._fn, self._fullgraph = fn, fullgraph
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        name = getattr(self._fn, "__qualname__", None) or type(self._fn).__name__
        self._programs = _C.CompiledBase(name, self._fullgraph)
        self._numbers: dict[Any, int] = {}
        self._watched = _watched(self._fn)
        self._floats: dict[Any, set[int]] = {}  # for each form of arguments: the floats that the function reads
        self._before: list[Callable[[], None]] = []
        self._modules: list[nn.Module] = []  # kept, so that no other gets their address

    def _number(self, arguments: Any) -> int:
        """The number of what a program depends on besides tensors."""
        key = (arguments, *[_key(look(), True) for look in self._watched])
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            self._modules += [m for m in (look() for look in self._watched) if isinstance(m, nn.Module)]
        return number

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], int, Callable[..., Any]]:
        """The tensors and floats of a call, its key's number, and what computes it from other tensors."""
        given: list[Any] = []
        if not kwargs and all(type(value) is Tensor for value in args):  # most calls
            given += args
            number = self._number(len(args))
            return given, number, functools.partial(self._compute, args, kwargs, None)
        floats: list[_Float] = []

        def taken(value: float) -> _Float:
            floats.append(_Float(value, len(floats)))
            return floats[-1]
        tree = _mapped((args, kwargs), lambda value: type(value) is float, taken)
        form = _key(tree, False)
        read = self._floats.setdefault(form, set())
        if read:
            tree = _mapped(tree, lambda value: isinstance(value, _Float) and value.number in read, lambda f: f.value)
        _mapped(tree, _is_given, lambda value: given.append(value.value if isinstance(value, _Float) else value))
        number = self._number((form, _key(tree, False)) if read else form)
        return given, number, functools.partial(self._compute, tree[0], tree[1], read)

    def _compute(self, args: tuple[Any, ...], kwargs: dict[str, Any], read: set[int] | None,
                 given: list[Tensor]) -> tuple[list[Tensor], Any]:
        """What a call computes, from other tensors: see _called. read: gets the floats that the function reads."""
        if not _C._tracing():  # it could not be captured: attributes that were set on the way have no values
            for restore in self._before:
                restore()
            self._before = []
            return _called(self._fn, args, kwargs, self._as_they_are(args, kwargs, given))
        if not self._before:  # a function with sizes that depend on data is captured several times in one call
            self._before = [_attributes(value) for look in self._watched for value in _modules(look())]
        try:
            return self._captured(args, kwargs, read, given)
        except _C.CaptureError as error:
            raise _C.CaptureError("%s (%s)" % (error, place_of(error))) from None

    @staticmethod
    def _as_they_are(args: Any, kwargs: Any, given: list[Tensor]) -> Iterator[Any]:
        """The tensors that are given, and the floats of the arguments."""
        places: list[Any] = []
        _mapped((args, kwargs), _is_given, places.append)
        return (place.value if isinstance(place, _Float) else t for place, t in zip(places, given))

    def _captured(self, args: Any, kwargs: Any, read: set[int] | None, given: list[Tensor]) -> tuple[list[Tensor], Any]:
        """The function with floats that are inputs of the graph; raises _Read where it asks for their values."""
        places: list[Any] = []
        _mapped((args, kwargs), _is_given, places.append)
        floats = [place for place in places if isinstance(place, _Float)]
        if not floats or read is None:
            return _called(self._fn, args, kwargs, given)
        asked: set[int] = set()
        weak = [Weak(t, place.value, functools.partial(asked.add, place.number)) if isinstance(place, _Float) else t
                for place, t in zip(places, given)]
        everyone = {place.number for place in floats}
        with watched() as seen:
            try:
                made, note = _called(self._fn, args, kwargs, weak)
                _mapped(note, lambda value: type(value) is Weak, float)  # one that is returned is read
            except Exception:  # it may be right with floats that are floats
                asked |= everyone
        for one in weak:
            if type(one) is Weak:
                one.forget()
        if asked or seen.asks_types:
            read |= everyone if seen.asks_types else asked
            raise _Read
        return made, note

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _C._tracing():  # part of a larger graph
            return self._fn(*args, **kwargs)
        results, note = self._again(self._programs.call, args, kwargs)
        if type(note) is _Slot:
            return results[note.index]
        return _mapped(note, _is_slot, lambda slot: results[slot.index])

    def _again(self, call: Callable[..., _Result], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Result:
        """A call, once more where its first capture shows that floats are part of the program."""
        while True:
            self._before = []
            try:
                return call(*self._prepared(args, kwargs))
            except _Read:
                pass

    def __reduce__(self) -> Any:
        """Copies and files have the function; programs are made anew."""
        return _Compiled, (self._fn, self._fullgraph)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """A method: bound, and compiled for each object."""
        if owner is None:
            return self
        return _Compiled(self._fn.__get__(owner, kind), self._fullgraph)

    def _explained(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return self._again(self._programs.explain, args, kwargs)


class OptimizedModule(nn.Module):
    """A module whose calls are compiled. It has the attributes of the module, which is its child `_orig_mod`."""
    _orig_mod: nn.Module

    def __init__(self, module: nn.Module, fullgraph: bool) -> None:
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        object.__setattr__(self, "_compiled", _Compiled(module, fullgraph))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            return getattr(super().__getattr__("_modules")["_orig_mod"], name)


@overload
def compile(model: _Code, *, fullgraph: bool = ..., dynamic: bool | None = ..., backend: Any = ...,
            mode: str | None = ..., options: dict[str, Any] | None = ..., disable: bool = ...) -> _Code: ...
@overload
def compile(model: None = ..., *, fullgraph: bool = ..., dynamic: bool | None = ..., backend: Any = ...,
            mode: str | None = ..., options: dict[str, Any] | None = ...,
            disable: bool = ...) -> Callable[[_Code], _Code]: ...


def compile(model: Any = None, *, fullgraph: bool = False, dynamic: bool | None = None, backend: Any = "inductor",
            mode: str | None = None, options: dict[str, Any] | None = None, disable: bool = False) -> Any:
    """The function or module, captured at its first call of each kind and run as a graph later. Without one,
    compile(mode=...) is a decorator. fullgraph: code that cannot be captured raises, instead of running as it is.
    backend "eager": the function itself."""
    if mode is not None and options is not None:
        raise RuntimeError("compile: mode and options were given; only one of them can be")
    if mode is not None and mode not in _MODES:
        raise RuntimeError("compile: unknown mode %r; it is one of %s" % (mode, ", ".join(_MODES)))
    if model is None:
        return lambda code: compile(code, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
                                    options=options, disable=disable)
    if not callable(model):
        raise TypeError("compile: expected a function or a module, not %s" % type(model).__name__)
    if disable or backend in ("eager", "aot_eager"):
        return model
    if callable(backend) or backend not in _BACKENDS:
        refused("compile", "programs are made by cairn itself; \"eager\" runs the code as it is", backend=backend)
    only_speed("compile", mode=mode, options=options, dynamic=dynamic)
    if isinstance(model, nn.Module):
        return OptimizedModule(model, fullgraph)
    return model if isinstance(model, _Compiled) else _Compiled(model, fullgraph)


# ---- looking in ----
def stats(fn: Any = None) -> dict[str, int]:
    """Counts of one compiled function or module, or of all: executables, runs, recompiles, eager_calls, groups."""
    return _C._compile_stats() if fn is None else _compiled(fn)._programs.stats()


def explain(fn: Any, *args: Any, **kwargs: Any) -> str:
    """What runs for these arguments, as text: the graphs, or why there are none."""
    found = fn if isinstance(fn, _Compiled) else getattr(fn, "_compiled", None)
    return (found if isinstance(found, _Compiled) else _Compiled(fn, False))._explained(args, kwargs)


def _compiled(fn: Any) -> _Compiled:
    found = fn if isinstance(fn, _Compiled) else fn.__dict__.get("_compiled") if isinstance(fn, nn.Module) else None
    if found is None:
        raise TypeError("compiler: expected a compiled function or module, not %s" % type(fn).__name__)
    return found


def reset() -> None:
    """All programs go; functions are captured again when they are called."""
    for one in list(_all):
        one._reset()
    _C._compile_stats_reset()


def is_compiling() -> bool:
    """Is the code that asks being captured?"""
    return _C._tracing()


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Is the code that asks being captured for a file?"""
    return False


# ---- marks in programs ----
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that is never captured: code that calls it runs as it is."""
    if fn is None:
        return lambda code: disable(code, recursive, reason=reason)
    only_speed("compiler.disable", True, recursive=recursive)

    @functools.wraps(fn)
    def plain(*args: Any, **kwargs: Any) -> Any:
        if _C._tracing():
            raise _C.CaptureError("%s is marked with compiler.disable%s" % (
                getattr(fn, "__qualname__", fn), ": " + reason if reason else ""))
        return fn(*args, **kwargs)
    return plain


def allow_in_graph(fn: Any) -> Any:
    """The function itself: what it computes with tensors is captured anyway."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself: what is no tensor is baked in anyway."""
    return fn


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """Names that compile's backend can have."""
    return list(_BACKENDS) + ([] if exclude_tags else ["eager", "aot_eager"])


def cudagraph_mark_step_begin() -> None:
    """Says that a new step begins. Results are their caller's own memory here: nothing to do."""
