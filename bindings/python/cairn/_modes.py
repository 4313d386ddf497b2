"""Switches for recording: no_grad, enable_grad, set_grad_enabled, inference_mode.

Each is a context manager and a decorator, of generators too. A mode belongs to the thread that entered it, as in
torch: a new thread begins with recording on.
"""

import functools

from . import _C

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "is_grad_enabled",
           "is_inference_mode_enabled"]

is_grad_enabled = _C.is_grad_enabled
is_inference_mode_enabled = _C.is_inference_mode_enabled

_NO_GRAD, _GRAD, _INFERENCE = 0, 1, 2


def _wrap_generator(mode, func):
    """A generator function whose body runs in the mode; between its steps the caller's modes hold."""

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        generator = func(*args, **kwargs)
        resume, value = generator.send, None
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


def _is_generator(function):
    """Does calling it make a generator? (inspect would say it too, and double the time that import takes.)"""
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & 0x20)


class _Mode:
    """A context manager that may be entered again, and a decorator."""

    def __init__(self):
        self._saved = []

    def _begin(self):
        raise NotImplementedError

    def __enter__(self):
        self._saved.append(self._begin())
        return None

    def __exit__(self, kind, value, trace):
        _C._mode_end(self._saved.pop())
        return False

    def clone(self):
        """A fresh one of the same kind: calls of a decorated function may overlap."""
        return type(self)()

    def __call__(self, func):
        if isinstance(func, type):  # as torch: its construction runs in the mode
            plain = func.__init__
            func.__init__ = self.__call__(plain)
            return func
        if _is_generator(func):
            return _wrap_generator(self, func)

        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            with self.clone():
                return func(*args, **kwargs)

        return wrapped


class _BareMode(_Mode):
    """A mode without arguments, which decorates with and without parentheses."""

    def __new__(cls, func=None):
        self = super().__new__(cls)
        if func is None:
            return self
        self.__init__()
        return self(func)

    def __init__(self, func=None):
        super().__init__()


class no_grad(_BareMode):
    """Ops inside are not recorded; their results need no gradient."""

    def _begin(self):
        return _C._mode_begin(_NO_GRAD)


class enable_grad(_BareMode):
    """Ops inside are recorded, also within no_grad. Inside inference_mode it changes nothing."""

    def _begin(self):
        return _C._mode_begin(_GRAD)


class set_grad_enabled(_Mode):
    """Switches recording on or off: at once when called, and back at the end when used with `with`."""

    def __init__(self, mode):
        super().__init__()
        self.mode = bool(mode)
        self._before = self._begin()

    def _begin(self):
        return _C._mode_begin(_GRAD if self.mode else _NO_GRAD)

    def __enter__(self):
        self._saved.append(self._before)
        self._begin()

    def __call__(self, func):
        _C._mode_end(self._before)  # a decorator changes nothing where it is written
        return super().__call__(func)

    def clone(self):
        return type(self)(self.mode)

    def __str__(self):
        return f"cairn.set_grad_enabled(mode={self.mode})"

    __repr__ = __str__


class inference_mode(_Mode):
    """Like no_grad, and results can never take part in recording later. inference_mode(False) ends it for a while."""

    def __new__(cls, mode=True):
        self = super().__new__(cls)
        if isinstance(mode, bool):
            return self
        self.__init__()
        return self(mode)  # @inference_mode without parentheses

    def __init__(self, mode=True):
        super().__init__()
        self.mode = mode if isinstance(mode, bool) else True

    def _begin(self):
        return _C._mode_begin(_INFERENCE) if self.mode else _C._mode_normal()

    def clone(self):
        return type(self)(self.mode)
