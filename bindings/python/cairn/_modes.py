"""Switches for recording: no_grad, enable_grad, set_grad_enabled, inference_mode.

Each is a context manager and a decorator, of generators too. A mode belongs to the thread that entered it, as in
torch: a new thread begins with recording on.
"""

from __future__ import annotations

import functools
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Generator, TypeVar, overload

from . import _C

if TYPE_CHECKING:
    from typing import Self

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "is_grad_enabled",
           "is_inference_mode_enabled"]

is_grad_enabled = _C.is_grad_enabled
is_inference_mode_enabled = _C.is_inference_mode_enabled

_NO_GRAD, _GRAD, _INFERENCE = 0, 1, 2

_F = TypeVar("_F", bound=Callable[..., Any])  # a decorated function or class keeps its type


def _wrap_generator(mode: _Mode, func: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Any]:
    """A generator function whose body runs in the mode; between its steps the caller's modes hold."""

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = func(*args, **kwargs)
        resume: Callable[[Any], Any] = generator.send
        value: Any = None
        try:
            while True:
                try:
                    with mode.clone():
                        item = resume(value)
                except StopIteration as stop:
                    return stop.value
                try:
                    value = yield item
                    resume = generator.send
                except GeneratorExit:
                    with mode.clone():
                        generator.close()
                    raise
                except BaseException as error:  # goes to the generator, which may handle it
                    resume, value = generator.throw, error
        finally:
            with mode.clone():
                generator.close()

    return wrapped


def _is_generator(function: Callable[..., Any]) -> bool:
    """Does calling it make a generator? (inspect would say it too, and double the time that import takes.)"""
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


class _Mode:
    """A context manager that may be entered again, and a decorator."""

    def __init__(self) -> None:
        self._saved: list[int] = []

    def _begin(self) -> int:
        raise NotImplementedError

    def __enter__(self) -> None:
        self._saved.append(self._begin())

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _C._mode_end(self._saved.pop())

    def clone(self) -> _Mode:
        """A fresh one of the same kind: calls of a decorated function may overlap."""
        return type(self)()

    def __call__(self, func: _F) -> _F:
        made: _F = self._around(func)  # of the same signature
        return made

    def _around(self, func: Any) -> Any:
        """The function so that it runs in the mode; of a class, as torch has it, the construction."""
        if isinstance(func, type):
            setattr(func, "__init__", self._around(getattr(func, "__init__")))
            return func
        if _is_generator(func):
            return _wrap_generator(self, func)

        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return func(*args, **kwargs)

        return wrapped


class _BareMode(_Mode):
    """A mode without arguments, which decorates with and without parentheses."""

    # The class is a decorator itself, whose result is no object of it: mypy asks for a reason.
    @overload
    def __new__(cls, func: _F) -> _F: ...  # type: ignore[misc]
    @overload
    def __new__(cls, func: None = None) -> Self: ...

    def __new__(cls, func: Any = None) -> Any:
        self = super().__new__(cls)
        if func is None:
            return self
        _Mode.__init__(self)
        return self(func)

    if not TYPE_CHECKING:  # __new__ says what it is made from
        def __init__(self, func=None):  # unused: func (__new__ takes it)
            super().__init__()


class no_grad(_BareMode):
    """Ops inside are not recorded; their results need no gradient."""

    def _begin(self) -> int:
        return _C._mode_begin(_NO_GRAD)


class enable_grad(_BareMode):
    """Ops inside are recorded, also within no_grad. Inside inference_mode it changes nothing."""

    def _begin(self) -> int:
        return _C._mode_begin(_GRAD)


class set_grad_enabled(_Mode):
    """Switches recording on or off: at once when called, and back at the end when used with `with`."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self.mode = bool(mode)
        self._before = self._begin()

    def _begin(self) -> int:
        return _C._mode_begin(_GRAD if self.mode else _NO_GRAD)

    def __enter__(self) -> None:
        self._saved.append(self._before)
        self._begin()

    def __call__(self, func: _F) -> _F:
        _C._mode_end(self._before)  # a decorator changes nothing where it is written
        return super().__call__(func)

    def clone(self) -> _Mode:
        return type(self)(self.mode)

    def __str__(self) -> str:
        return f"cairn.set_grad_enabled(mode={self.mode})"

    __repr__ = __str__


class inference_mode(_Mode):
    """Like no_grad, and results can never take part in recording later. inference_mode(False) ends it for a while."""

    mode: bool

    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: _F) -> _F: ...  # type: ignore[misc]  # as _BareMode: @inference_mode without parentheses

    def __new__(cls, mode: Any = True) -> Any:
        self = super().__new__(cls)
        if isinstance(mode, bool):
            return self
        _Mode.__init__(self)
        self.mode = True
        return self(mode)

    if not TYPE_CHECKING:
        def __init__(self, mode=True):
            super().__init__()
            self.mode = mode

    def _begin(self) -> int:
        return _C._mode_begin(_INFERENCE) if self.mode else _C._mode_normal()

    def clone(self) -> _Mode:
        return type(self)(self.mode)
