"""cairn.compile and cairn.compiler: functions and modules captured at their first call, and run as graphs later.

Place in the flow: a call's arguments are taken apart into tensors, floats (inputs like tensors, see _weak.py, unless
the function asks for their values) and the rest; the rest, and what the function refers to outside (modules,
optimisers, tensors, plain constants), has a number, its key; _C.CompiledBase finds the program of that key and of the
tensors' kinds, or captures one by calling the function with tensors that have no values. What else Python reads while
it is captured is baked in, as in jax.jit, and so are attributes that the function itself sets (a counter).
"""
from __future__ import annotations

import copy
import dataclasses
import functools
import types
import weakref
from typing import Any, Callable, Iterable, Iterator, TypeVar, overload

from . import _C, nn
from ._arguments import only_speed, place_of, refused
from ._control import host_call
from ._refers import CONSTANTS, outside, reads, referred
from ._tensor import Tensor
from ._undo import note
from ._weak import Weak, watched
from .optim.optimizer import Optimizer

__all__ = ["allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable", "explain",
           "host_call", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "stats"]

_Code = TypeVar("_Code", bound=Callable[..., Any])
_Result = TypeVar("_Result")
_MODES = ("default", "fast", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
_BACKENDS = ("inductor", "cairn", "cudagraphs")
_MOST_KEYS = 256  # that are remembered, more than a function has programs


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
    if _is_record(tree):
        made = object.__new__(type(tree))  # not by the copy module, whose code asks for types: see _weak.watched
        getattr(made, "__dict__", {}).update(getattr(tree, "__dict__", {}))
        for name, value in _fields(tree):
            object.__setattr__(made, name, _mapped(value, is_leaf, leaf))
        return made
    return tree


def _is_record(tree: Any) -> bool:
    """Is it an object of a dataclass? Its fields are looked at, as elements of a container are."""
    return hasattr(type(tree), "__dataclass_fields__") and not isinstance(tree, (Tensor, nn.Module, _C.CompiledBase))


def _fields(record: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(record, field.name)) for field in dataclasses.fields(record)
            if hasattr(record, field.name)]


def _remade(like: Any, values: Any) -> Any:
    """An object of the class of `like` that holds these values."""
    try:
        return type(like)(values)
    except TypeError:
        if not isinstance(like, dict):
            return values
    made = copy.copy(like)  # a defaultdict, which has more than its items
    made.update(values)
    return made


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
    before = _mapped((args, kwargs), lambda _: False, lambda leaf: leaf)
    made: list[Tensor] = []

    def slot(tensor: Tensor) -> _Slot:
        made.append(tensor)
        return _Slot(len(made) - 1)
    note = _mapped(fn(*args, **kwargs), _is_tensor, slot)
    if not _unchanged((args, kwargs), before):
        raise _C.CaptureError("compile: the function changes a list, dictionary or record among its arguments: return "
                              "what is new instead")
    return made, note


def _unchanged(tree: Any, before: Any) -> bool:
    """Does a nested value still hold what it held? before: a copy of its containers."""
    if tree is before:
        return True
    if isinstance(tree, dict):
        return list(tree) == list(before) and all(_unchanged(tree[key], before[key]) for key in tree)
    if isinstance(tree, (list, tuple)):
        return len(tree) == len(before) and all(map(_unchanged, tree, before))
    return _is_record(tree) and type(tree) is type(before) and _unchanged(_state(tree), _state(before))


def _state(record: Any) -> dict[str, Any]:
    return {**getattr(record, "__dict__", {}), **dict(_fields(record))}


class _AsIs:
    """The result of a call that was not captured."""

    def __init__(self, result: Any) -> None:
        self.result = result


class _Call:
    """A call: its arguments, what takes back what a capture changes outside, and keys of what it may change."""
    __slots__ = ("args", "kwargs", "undo", "noted")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.args, self.kwargs = args, kwargs
        self.undo: list[Callable[[], None]] = []
        self.noted: list[tuple[Callable[[], dict[str, Any]], dict[str, Any]]] = []

    def take_back(self) -> None:
        undo, self.undo = self.undo, []
        for one in undo:
            one()


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


def _key(tree: Any, outside: bool, names: set[str]) -> Any:
    """What a program depends on of a value, hashable. Tensors among the arguments are looked at below; those outside
    are known by identity. names: attributes of modules that count."""
    if isinstance(tree, Tensor):
        return _Same(tree) if outside else Tensor
    if isinstance(tree, _Float):
        return _Float
    if isinstance(tree, nn.Module):
        return _C._module_key(tree, names)
    if isinstance(tree, Optimizer):
        return (_Same(tree), tree._program_key())
    if isinstance(tree, dict):
        return (dict, tuple((type(key), key, _key(value, outside, names)) for key, value in tree.items()))
    if isinstance(tree, (list, tuple)):
        return (type(tree), tuple(_key(value, outside, names) for value in tree))
    if isinstance(tree, (float, complex)):
        return (type(tree), repr(tree))  # zeros of both signs are two, and nan is itself
    if isinstance(tree, CONSTANTS):
        return (type(tree), tree)
    if _is_record(tree):
        return (type(tree), tuple(_key(value, outside, names) for _, value in _fields(tree)))
    return _Same(tree)


# ---- attributes of modules ----
def _modules(value: Any) -> list[nn.Module]:
    """The modules whose attributes code may set: one and those below it."""
    return list(value.modules()) if isinstance(value, nn.Module) else []


# ---- compiled functions ----
_all: weakref.WeakSet[_Compiled] = weakref.WeakSet()


class _Compiled:
    """A function with its programs."""

    def __init__(self, fn: Callable[..., Any], fullgraph: bool, fast: bool) -> None:
        functools.update_wrapper(self, fn)
        self._torchdynamo_orig_callable = fn
        self._fn, self._fullgraph, self._fast = fn, fullgraph, fast
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        name = getattr(self._fn, "__qualname__", None) or type(self._fn).__name__
        self._programs = _C.CompiledBase(name, self._fullgraph, self._fast)
        self._numbers: dict[Any, int] = {}
        self._last = 0  # number that was given
        self._watched = referred(self._fn)
        self._kinds: frozenset[type] = frozenset({type(None)})  # of the modules that it refers to
        self._reads: set[str] = set()  # names of attributes that its code mentions
        self._own: set[str] = set()  # attributes and variables that it sets itself
        self._names: set[str] = set()  # of attributes that count: the former without the latter
        self._note_reads(self._below())
        self._floats: dict[Any, set[int]] = {}  # for each form of arguments: the floats that the function reads
        self._modules: dict[int, nn.Module] = {}  # kept, so that no other gets their address

    def _whole_key(self, arguments: Any) -> Any:
        """What a program depends on besides tensors. arguments: that of the arguments."""
        return (arguments, *[_key(look(), True, self._names) for name, look in self._watched if self._counts(name)])

    def _counts(self, name: str) -> bool:
        """Do programs depend on what it refers to by this name (see referred)?"""
        return name in self._names or ((name == "self" or " " in name) and name not in self._own)

    def _below(self) -> list[nn.Module]:
        """The modules that it refers to, and all parts of them."""
        return [value for _, look in self._watched for value in _modules(look())]

    def _note_reads(self, modules: list[nn.Module]) -> None:
        kinds = frozenset(type(module) for module in modules)
        if kinds != self._kinds:
            self._kinds = kinds
            self._reads |= reads(self._fn, kinds)
        self._names = self._reads - self._own

    def _number(self, arguments: Any) -> int:
        """The number of a key."""
        key = self._whole_key(arguments)
        number = self._numbers.get(key)
        if number is None:
            self._last += 1
            number = self._last
            self._remember(key, number)
            self._modules.update((id(m), m) for m in (look() for _, look in self._watched) if isinstance(m, nn.Module))
        return number

    def _remember(self, key: Any, number: int) -> None:
        if len(self._numbers) == _MOST_KEYS:
            del self._numbers[next(iter(self._numbers))]  # its program went long ago
        self._numbers[key] = number

    def _prepared(self, call: _Call) -> tuple[list[Any], int, Callable[..., Any]]:
        """The tensors and floats of a call, its key's number, and what computes it from other tensors."""
        given: list[Any] = []
        args, kwargs = call.args, call.kwargs
        if not kwargs and all(type(value) is Tensor for value in args):  # most calls
            given += args
            number = self._number(len(args))
            return given, number, functools.partial(self._compute, call, args, kwargs, None, len(args), number)
        floats: list[_Float] = []

        def taken(value: float) -> _Float:
            floats.append(_Float(value, len(floats)))
            return floats[-1]
        tree = _mapped((args, kwargs), lambda value: type(value) is float, taken)
        form = _key(tree, False, self._names)
        read = self._floats.setdefault(form, set())
        if read:
            tree = _mapped(tree, lambda value: isinstance(value, _Float) and value.number in read, lambda f: f.value)
        _mapped(tree, _is_given, lambda value: given.append(value.value if isinstance(value, _Float) else value))
        arguments = (form, _key(tree, False, self._names)) if read else form
        number = self._number(arguments)
        return given, number, functools.partial(self._compute, call, tree[0], tree[1], read, arguments, number)

    def _compute(self, call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any], read: set[int] | None,
                 arguments: Any, number: int, given: list[Tensor], refused: bool) -> tuple[list[Tensor], Any]:
        """What a call computes: as it is, or captured from other tensors (see _called). read: gets the floats that the
        function reads; arguments, number: of its key; refused: it is not captured, or could not be."""
        if not _C._tracing():
            if refused:
                call.take_back()
            result, made = self._fn(*call.args, **call.kwargs), list[Tensor]()
            _mapped(result, _is_tensor, made.append)
            return made, _AsIs(result)
        if not call.undo:  # a function with sizes that depend on data is captured several times in one call
            modules = self._below()
            call.undo = note([*modules, *outside(self._fn), *call.args, *call.kwargs.values()])
            looks = [functools.partial(_C._attribute_keys, value) for value in modules] + [self._variables]
            call.noted = [(look, look()) for look in looks]
        try:
            result = self._captured(args, kwargs, read, given)
        except _C.CaptureError as error:
            raise _C.CaptureError("%s (%s)" % (error, place_of(error))) from None
        if self._sets_more(call):  # or its code, or that of its parts, is another
            self._remember(self._whole_key(arguments), number)
        return result

    def _variables(self) -> dict[str, Any]:
        """The keys of what it refers to that code can set."""
        found = [(name, look()) for name, look in self._watched]
        return {name: _key(value, True, self._names) for name, value in found
                if not isinstance(value, (nn.Module, Tensor, Optimizer))}

    def _sets_more(self, call: _Call) -> bool:
        """Has the function that was captured set what was part of its key? It is no longer: a counter would be another
        in each call. True also where it has other code by now."""
        set_now = {name for look, before in call.noted for name, key in look().items() if before.get(name) != key}
        known = self._names
        self._own |= set_now
        self._note_reads(self._below())
        return bool(set_now) or self._names != known

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
        if type(note) is _AsIs:
            return note.result
        return _mapped(note, _is_slot, lambda slot: results[slot.index])

    def _again(self, call: Callable[..., _Result], args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Result:
        """A call, once more where its first capture shows that floats are part of the program."""
        while True:
            one = _Call(args, kwargs)
            try:
                return call(*self._prepared(one))
            except _Read:
                one.take_back()

    def __reduce__(self) -> Any:
        """Copies and files have the function; programs are made anew."""
        return _Compiled, (self._fn, self._fullgraph, self._fast)

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        """A method: bound, and compiled for each object, which keeps it."""
        if owner is None:
            return self
        methods = getattr(owner, "__dict__", {}).setdefault("_compiled_methods", {})
        name = self._fn.__qualname__
        if name not in methods:
            methods[name] = _Compiled(self._fn.__get__(owner, kind), self._fullgraph, self._fast)
        return methods[name]

    def _explained(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        return self._again(self._programs.explain, args, kwargs)


class OptimizedModule(nn.Module):
    """A module whose calls are compiled. It has the attributes of the module, which is its child `_orig_mod`."""
    _orig_mod: nn.Module

    def __init__(self, module: nn.Module, fullgraph: bool, fast: bool) -> None:
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        object.__setattr__(self, "_compiled", _Compiled(module, fullgraph, fast))

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
    backend "eager": the function itself. mode "fast": results may be rounded otherwise than the function's; all others
    mean speed alone, and give its results."""
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
    fast = mode == "fast"
    only_speed("compile", mode=None if fast else mode, options=options, dynamic=dynamic)
    if isinstance(model, nn.Module):
        return OptimizedModule(model, fullgraph, fast)
    return model if isinstance(model, _Compiled) else _Compiled(model, fullgraph, fast)


# ---- looking in ----
def stats(fn: Any = None) -> dict[str, int]:
    """Counts of one compiled function or module, or of all: executables, runs, recompiles, eager_calls,
    groups, and how many different groups have machine code by now."""
    return _C._compile_stats() if fn is None else _compiled(fn)._programs.stats()


def explain(fn: Any, *args: Any, **kwargs: Any) -> str:
    """What runs for these arguments, as text: the graphs, or why there are none."""
    found = fn if isinstance(fn, _Compiled) else getattr(fn, "_compiled", None)
    return (found if isinstance(found, _Compiled) else _Compiled(fn, False, False))._explained(args, kwargs)


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
