"""Modules and parameters in lists and dictionaries."""
from __future__ import annotations

import operator
from collections import OrderedDict
from typing import Any, Iterable, Iterator, Mapping

from .. import _C
from .._tensor import Tensor
from .layer import _Layer, _register
from .module import Module, _indented
from .parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Numbered(_Layer):
    """Children under the names "0", "1", ..."""

    _modules: Any

    def _place(self, index: Any) -> int:
        """A number from 0 up."""
        at = operator.index(index)
        if not -len(self) <= at < len(self):
            raise IndexError("index %d is out of range" % at)
        return at % len(self)

    def _key(self, index: Any) -> str:
        key: str = list(self._modules)[self._place(index)]
        return key

    def _restore(self, modules: Iterable[Module | None]) -> None:
        """These children from now on, numbered anew."""
        kept = list(modules)
        self._modules.clear()
        for i, module in enumerate(kept):
            self._modules[str(i)] = module

    def __getitem__(self, index: Any) -> Any:
        return self._modules[self._key(index)]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))

    def __delitem__(self, index: Any) -> None:
        keys = list(self._modules)[index] if isinstance(index, slice) else [self._key(index)]
        for key in keys:
            del self._modules[key]
        self._restore(self._modules.values())

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._key(index), module)

    def append(self, module: Module) -> Any:
        """Adds one at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        if not isinstance(module, _C.ModuleBase):
            raise AssertionError("module should be of type: %s" % Module)
        if not -len(self) <= index <= len(self):
            raise IndexError("Index out of range: %s" % index)
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._restore(modules)
        return self

    def pop(self, key: Any = -1) -> Any:
        module = self[key]
        del self[key]
        return module

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if not n.isdigit()]


class Sequential(_Numbered):
    """Its children one after the other: Sequential(a, b), or Sequential(OrderedDict(first=a, second=b))."""

    _own_forward = False

    def __init__(self, *args: Module | Mapping[str, Module]) -> None:
        self._build("Sequential")
        first = args[0] if len(args) == 1 else None
        named: Iterable[tuple[Any, Any]] = first.items() if isinstance(first, Mapping) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._key(index)]

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError("add operator supports only objects of Sequential class, but %s is given."
                             % type(other))
        return type(self)(*self, *other)

    def __iadd__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError("add operator supports only objects of Sequential class, but %s is given."
                             % type(other))
        self.extend(other)
        return self

    def __mul__(self, other: int) -> Sequential:
        if not isinstance(other, int):
            raise TypeError("unsupported operand type(s) for *: %s and %s" % (type(self), type(other)))
        if other <= 0:
            raise ValueError("Non-positive multiplication factor %d for %s" % (other, type(self)))
        return type(self)(*(module for _ in range(other) for module in self))

    __rmul__ = __mul__


class ModuleList(_Numbered):
    """Modules by number, for a class that calls them itself."""

    _own_forward = False

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        self._build("ModuleList")
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._modules[self._key(index)]

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        self.extend(modules)
        return self

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return type(self)([*self, *other])

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        if not isinstance(modules, Iterable):
            raise TypeError("ModuleList.extend should be called with an iterable, but got %s"
                            % type(modules).__name__)
        super().extend(modules)
        return self

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError('Module [%s] is missing the required "forward" function' % type(self).__name__)

    def __repr__(self) -> str:
        """Neighbours that print the same are printed once."""
        texts = [repr(module) for module in self]
        if not texts:
            return self._get_name() + "()"
        runs: list[list[Any]] = []
        for i, text in enumerate(texts):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        lines = []
        for first, last, text in runs:
            label = "(%d)" % first if first == last else "(%d-%d)" % (first, last)
            times = "" if first == last else "%d x " % (last - first + 1)
            lines.append(_indented("%s: %s%s" % (label, times, text), 2))
        return "%s(\n  %s\n)" % (self._get_name(), "\n  ".join(lines))


class ModuleDict(_Layer):
    """Modules by name, for a class that calls them itself."""

    _own_forward = False
    _modules: Any

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        self._build("ModuleDict")
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        if hasattr(self, key) and key not in self._modules:
            raise KeyError("attribute '%s' already exists" % key)
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        self._modules.clear()

    def pop(self, key: str) -> Any:
        return self._modules.pop(key)

    def keys(self) -> Any:
        return self._modules.keys()

    def items(self) -> Any:
        return self._modules.items()

    def values(self) -> Any:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        if not isinstance(modules, Iterable):
            raise TypeError("ModuleDict.update should be called with an iterable of key/value pairs, but got %s"
                            % type(modules).__name__)
        pairs = modules.items() if hasattr(modules, "items") else modules
        for key, module in pairs:
            self[key] = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError('Module [%s] is missing the required "forward" function' % type(self).__name__)


# ---- parameters ----

def _shown(value: Any, kind: str) -> str:
    """A line of extra_repr."""
    if not isinstance(value, Tensor):
        return "Object of type: " + type(value).__name__
    name = "Parameter" if isinstance(value, Parameter) else "Tensor"
    size = "x".join(str(n) for n in value.shape)
    where = "" if value.device.type == "cpu" else " (GPU %s)" % value.device.index
    return "%s containing: [%s of size %s%s]" % (name, kind, size, where)


class ParameterList(Module):
    """Parameters by number. Tensors become parameters; other objects are kept as they are."""

    _own_forward = False

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _key(self, index: Any) -> str:
        at = operator.index(index)
        if not -len(self) <= at < len(self):
            raise IndexError("index %d is out of range" % at)
        return str(at % len(self))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            made = type(self)()
            made.extend(self[i] for i in range(*index.indices(len(self))))
            return made
        return getattr(self, self._key(index))

    def __setitem__(self, index: int, value: Any) -> None:
        self._put(self._key(index), value)

    def _put(self, key: str, value: Any) -> None:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, key, value)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        self._size += 1
        self._put(str(self._size - 1), value)
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError("ParameterList.extend should be called with an iterable, but got %s"
                            % type(values).__name__)
        for value in values:
            self.append(value)
        return self

    def pop(self, index: int = -1) -> Any:
        value = self[index]
        rest = [v for i, v in enumerate(self) if i != int(self._key(index))]
        delattr(self, str(len(self) - 1))
        self._size -= 1
        for i, v in enumerate(rest):
            self._put(str(i), v)
        return value

    def extra_repr(self) -> str:
        return "\n".join("  (%d): %s" % (i, _shown(v, str(getattr(v, "dtype", "")))) for i, v in enumerate(self))

    def __dir__(self) -> list[str]:
        return [n for n in super().__dir__() if not n.isdigit()]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """Parameters by name. Tensors become parameters; other objects are kept as they are."""

    _own_forward = False

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError("Index given to ParameterDict cannot be used as a key as it is not a string (type is %s)."
                            % type(key).__name__)
        self._keys[key] = None
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            value = Parameter(value)
        setattr(self, key, value)

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        return type(self)(OrderedDict((k, self[k]) for k in self._keys))

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        return type(self)((k, default) for k in keys)

    def keys(self) -> Any:
        return self._keys.keys()

    def items(self) -> Any:
        return ((k, self[k]) for k in self._keys)

    def values(self) -> Any:
        return (self[k] for k in self._keys)

    def update(self, parameters: Any) -> None:
        if not isinstance(parameters, Iterable):
            raise TypeError("ParameterDict.update should be called with an iterable of key/value pairs, but got %s"
                            % type(parameters).__name__)
        for key, value in parameters.items() if hasattr(parameters, "items") else parameters:
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        made = self.copy()
        made.update(other.items())
        return made

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other.items())
        return self

    def extra_repr(self) -> str:
        return "\n".join("  (%s): %s" % (k, _shown(v, v.type() if isinstance(v, Tensor) else ""))
                         for k, v in self.items())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")


_register(globals(), __all__)
