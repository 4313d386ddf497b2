"""Settings of PyTorch's own compilers, for programs that set them: they concern how fast code runs there.

Place in the flow: cairn._dynamo.config and cairn._inductor.config. Invariant: what is set can be read, and is said to
have no effect, once."""
from __future__ import annotations

import contextlib
from types import ModuleType
from typing import Any, Iterator

from ._arguments import note_once

__all__ = ["Settings"]


class Settings(ModuleType):
    """Attributes by name; known: what can be read before it is set, with torch's values."""

    def __init__(self, name: str, **known: Any) -> None:
        super().__init__(name)
        vars(self).update(known)

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):
            note_once("%s.%s has no effect here: cairn compiles in its own way (cairn.compile)" % (self.__name__, name))
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise AttributeError("%s.%s was not set: cairn compiles in its own way" % (self.__name__, name))

    @contextlib.contextmanager
    def patch(self, changes: Any = None, /, **more: Any) -> Iterator[None]:
        """Sets some for a while."""
        given = {changes: more.pop("value", None)} if isinstance(changes, str) else {**(changes or {}), **more}
        before = dict(vars(self))
        for name, value in given.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)
