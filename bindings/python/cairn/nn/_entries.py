"""The dictionaries of a module (_parameters, _buffers, _modules): what they are told is written to the tree in C and
to the module's attributes, which is where `module.weight` is looked up."""
from __future__ import annotations

from typing import Any

from .. import _C

__all__ = ()

_missing = object()


class _Entries(dict[str, Any]):
    """Parameters (kind 0), buffers (1) or children (2) by name. `tree` is the module in C; `names` the attributes."""

    __slots__ = ("kind", "tree", "names", "transient")

    def __init__(self, kind: int, tree: Any, names: dict[str, Any]) -> None:
        super().__init__()
        self.kind, self.tree, self.names = kind, tree, names
        self.transient: set[str] = set()  # buffers that stay out of state dictionaries

    def __setitem__(self, key: str, value: Any) -> None:
        _C._module_put(self.tree, self.kind, key, value, key not in self.transient)
        super().__setitem__(key, value)
        self.names[key] = value

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self.names.pop(key, None)
        _C._module_drop(self.tree, key)

    def pop(self, key: str, default: Any = _missing) -> Any:
        if key not in self:
            if default is _missing:
                raise KeyError(key)
            return default
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def move_to_end(self, key: str, last: bool = True) -> None:
        """As OrderedDict has it; the order in C follows by taking all out and in again."""
        rest = [(k, v) for k, v in self.items() if k != key]
        one = (key, self[key])
        order = rest + [one] if last else [one] + rest
        self.clear()
        for k, v in order:
            self[k] = v

    def become(self, entries: Any) -> None:
        """Takes the place of an assignment to the module's attribute: these entries, in their order, and no others."""
        wanted = dict(entries)
        if list(wanted) != list(self):
            self.clear()
        self.update(wanted)

    def copy(self) -> dict[str, Any]:
        return dict(self)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)
