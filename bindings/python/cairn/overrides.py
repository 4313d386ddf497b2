"""cairn.overrides: classes with a say in what ops return, __torch_function__: classes derived from Tensor, others that
ops are given objects of, and modes.

Place in the flow: _tensor.py loads it when a program derives a class, C when an op gets an object of another class with
the method; from then on ops on such objects come here first (src/override.c). What a class does not change is an object
of that class again. Ops that Python code of
cairn is made of are what a class sees, not the function around them. Invariant: inside __torch_function__'s default,
and DisableTorchFunctionSubclass, ops run as they are.
"""
from __future__ import annotations

import functools
from types import TracebackType
from typing import Any, Callable, Iterable

from . import _C
from ._tensor import Tensor
from ._tensor_compat import switched_off

__all__ = ["DisableTorchFunction", "DisableTorchFunctionSubclass", "TorchFunctionMode", "get_default_nowrap_functions",
           "get_ignored_functions", "get_overridable_functions", "handle_torch_function", "has_torch_function",
           "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
           "resolve_name", "wrap_torch_function"]

_modes: list[Any] = []  # those that are entered, the innermost last


class DisableTorchFunctionSubclass:
    """While inside, ops run as they are, whatever class their tensors have."""

    def __enter__(self) -> None:
        _C._plain_ops(True)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _C._plain_ops(False)


DisableTorchFunction = DisableTorchFunctionSubclass


def _has_say(cls: type[Any]) -> bool:
    """Does a class look at ops? Tensor does not, nor does one that says it is switched off."""
    method = getattr(cls, "__torch_function__", None)
    return cls is not Tensor and method is not None and getattr(method, "__func__", method) is not switched_off


def _flat(values: Iterable[Any]) -> Iterable[Any]:
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from _flat(value)
        else:
            yield value


def _classes(values: Iterable[Any]) -> list[type[Any]]:
    """The classes with a say among values, each once, derived ones before those they are derived from."""
    found: list[type[Any]] = []
    for value in _flat(values):
        cls = type(value)
        if cls not in found and _has_say(cls):
            at = next((i for i, other in enumerate(found) if issubclass(cls, other)), len(found))
            found.insert(at, cls)
    return found


def _ask(func: Callable[..., Any], classes: list[type[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for cls in classes:
        result = cls.__torch_function__(func, tuple(classes), args, kwargs)
        if result is not NotImplemented:
            return result
    raise TypeError("no implementation found for %r on types that implement __torch_function__: %s" % (
        getattr(func, "__name__", func), [cls.__name__ for cls in classes]))


def _decide(name: str, method: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Called from C with an op's name and arguments: the result of a class, or NotImplemented."""
    classes = _classes((*args, *kwargs.values()))
    if not classes and not _modes:
        return NotImplemented
    import cairn
    func = getattr(Tensor, name, None) if method else getattr(cairn, name, None)
    func = getattr(_C, name) if func is None else func
    return _ask_mode(func, classes, args, kwargs) if _modes else _ask(func, classes, args, kwargs)


def _ask_mode(func: Any, classes: list[type[Any]], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What the innermost mode makes of a call; the ops that it calls itself are the next one's."""
    mode = _modes.pop()
    _C._override_modes(False)
    try:
        result = mode.__torch_function__(func, tuple(classes), args, kwargs)
    finally:
        _modes.append(mode)
        _C._override_modes(True)
    if result is NotImplemented:
        raise TypeError("no implementation found for %r by the mode %r" % (getattr(func, "__name__", func), mode))
    return result


class TorchFunctionMode:
    """While one is entered, its __torch_function__ sees each op of this thread. Derive from it."""

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError("a TorchFunctionMode needs a method __torch_function__")

    def __enter__(self) -> TorchFunctionMode:
        watch()
        _modes.append(self)
        _C._override_modes(True)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _modes.pop()
        _C._override_modes(False)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> TorchFunctionMode:
        """An object of the class, to be entered."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """Changes nothing."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode() -> TorchFunctionMode | None:
    """The innermost mode."""
    return _modes[-1] if _modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """All modes, the innermost last."""
    return list(_modes)


def _as(value: Any, cls: type[Any]) -> Any:
    """A result, its tensors as objects of the class."""
    if isinstance(value, Tensor):
        return value if isinstance(value, cls) else value.as_subclass(cls)
    if type(value) in (tuple, list):
        return type(value)(_as(v, cls) for v in value)
    if isinstance(value, tuple) and hasattr(value, "n_fields"):  # results with names
        made: Any = type(value)
        return made([_as(v, cls) for v in value])
    return value


def default(cls: type[Any], func: Callable[..., Any], types: Iterable[type[Any]], args: tuple[Any, ...] = (),
            kwargs: dict[str, Any] | None = None) -> Any:
    """What Tensor.__torch_function__ does: the op as it is, its results as objects of the class."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return _as(result, cls) if func not in get_default_nowrap_functions() else result


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results stay plain tensors: none of them is an op here."""
    return set()


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Has one of the classes a say?"""
    return bool(_classes(relevant_args))


def has_torch_function_unary(tensor: Any) -> bool:
    """Has its class a say?"""
    return bool(_classes((tensor,)))


def has_torch_function_variadic(*tensors: Any) -> bool:
    """Has one of their classes a say?"""
    return bool(_classes(tensors))


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """A decorator of functions: classes of what dispatcher(arguments) returns are asked first."""
    def around(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            return (handle_torch_function(wrapped, relevant, *args, **kwargs) if has_torch_function(relevant)
                    else func(*args, **kwargs))
        return wrapped
    return around


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any,
                          **kwargs: Any) -> Any:
    """Asks a mode or the classes of relevant_args what the function is to return for these arguments."""
    if _modes:
        return _ask_mode(public_api, _classes(relevant_args), args, kwargs)
    return _ask(public_api, _classes(relevant_args), args, kwargs)


def is_tensor_like(inp: object) -> bool:
    """Is it a tensor, or of a class with __torch_function__?"""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Is it a tensor's method, or what reads one of its attributes?"""
    name = getattr(func, "__name__", "")
    return name == "__get__" or getattr(Tensor, name, None) is func


def get_ignored_functions() -> set[Any]:
    """Functions that ask no class: those of no tensor."""
    import cairn
    return {getattr(cairn, name) for name in ("is_tensor", "tensor", "from_numpy", "manual_seed", "set_default_dtype",
                                             "get_default_dtype", "is_grad_enabled", "compile", "load", "save")}


def get_overridable_functions() -> dict[Any, list[Any]]:
    """{module or class: its functions that ask classes}: the ops."""
    import cairn
    ops, ignored = set(_C._op_names()), get_ignored_functions()
    found: dict[Any, list[Any]] = {}
    for space in (cairn, Tensor, cairn.nn.functional, cairn.linalg, cairn.special):
        for name in dir(space):
            value = getattr(space, name, None)
            if callable(value) and not isinstance(value, type) and name.rstrip("_") in ops and value not in ignored:
                found.setdefault(space, []).append(value)
    return found


def resolve_name(f: Any) -> str | None:
    """The dotted name of a function that asks classes; None of others."""
    import cairn
    name: str = getattr(f, "__name__", "")
    for space, text in ((cairn, "torch"), (Tensor, "torch.Tensor"), (cairn.nn.functional, "torch.nn.functional"),
                        (cairn.linalg, "torch.linalg"), (cairn.special, "torch.special")):
        if getattr(space, name, None) is f:
            return "%s.%s" % (text, name)
    return None


def _repr(self: Any) -> str:
    """As a tensor, with the name of the class in front."""
    with DisableTorchFunctionSubclass():
        text = _C.TensorBase.__repr__(self)
    name = type(self).__name__
    first, *rest = text.split("\n")
    longer = len(name) - len("tensor")
    rest = [" " * longer + line if longer >= 0 else line[-longer:] for line in rest]
    return "\n".join([name + first[len("tensor"):], *rest])


def watch() -> None:
    """From now on ops ask here."""
    _C._set_overrides(_decide)


def derived(cls: type[Any]) -> None:
    """Called for each class that a program derives from Tensor."""
    printer: Any = cls.__repr__
    if printer is _C.TensorBase.__repr__:
        setattr(cls, "__repr__", _repr)
    watch()
