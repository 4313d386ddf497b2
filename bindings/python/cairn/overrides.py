"""cairn.overrides: classes derived from Tensor, and their say in what ops return: __torch_function__.

Place in the flow: _tensor.py loads it when a program derives a class; from then on ops on objects of that class come
here first (src/override.c). What a class does not change is an object of that class again. Ops that Python code of
cairn is made of are what a class sees, not the function around them. Invariant: inside __torch_function__'s default,
and DisableTorchFunctionSubclass, ops run as they are.
"""
from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, Iterable

from . import _C
from ._tensor import Tensor
from ._tensor_compat import switched_off

__all__ = ["DisableTorchFunctionSubclass", "get_default_nowrap_functions", "handle_torch_function",
           "has_torch_function", "is_tensor_like"]


class DisableTorchFunctionSubclass:
    """While inside, ops run as they are, whatever class their tensors have."""

    def __enter__(self) -> None:
        _C._plain_ops(True)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _C._plain_ops(False)


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
    if not classes:
        return NotImplemented
    import cairn
    func = getattr(Tensor, name, None) if method else getattr(cairn, name, None)
    return _ask(getattr(_C, name) if func is None else func, classes, args, kwargs)


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


def handle_torch_function(public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any,
                          **kwargs: Any) -> Any:
    """Asks the classes of relevant_args what the function is to return for these arguments."""
    return _ask(public_api, _classes(relevant_args), args, kwargs)


def is_tensor_like(inp: object) -> bool:
    """Is it a tensor, or of a class with __torch_function__?"""
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def _repr(self: Any) -> str:
    """As a tensor, with the name of the class in front."""
    with DisableTorchFunctionSubclass():
        text = _C.TensorBase.__repr__(self)
    name = type(self).__name__
    first, *rest = text.split("\n")
    longer = len(name) - len("tensor")
    rest = [" " * longer + line if longer >= 0 else line[-longer:] for line in rest]
    return "\n".join([name + first[len("tensor"):], *rest])


def derived(cls: type[Any]) -> None:
    """Called for each class that a program derives from Tensor."""
    printer: Any = cls.__repr__
    if printer is _C.TensorBase.__repr__:
        setattr(cls, "__repr__", _repr)
    _C._set_overrides(_decide)
