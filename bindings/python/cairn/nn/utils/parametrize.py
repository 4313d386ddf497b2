"""Parameters that are computed from others: `module.weight` becomes a function of `module.parametrizations.weight`."""
from __future__ import annotations

import contextlib
from typing import Any, Iterator

from ... import _C
from ..._modes import no_grad
from ..._tensor import Tensor
from ..containers import ModuleDict, ModuleList
from ..module import Module
from ..parameter import Parameter

__all__ = ["ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
           "transfer_parametrizations_and_params", "type_before_parametrizations"]

_cache: dict[tuple[int, str], Any] = {}  # values computed inside cached()
_cached = 0  # how many cached() there are around


def _stored(value: Any, like: Tensor) -> Any:
    """A parameter where what is parametrized is one."""
    if isinstance(like, Parameter) and not isinstance(value, Parameter):
        return Parameter(value.detach(), requires_grad=like.requires_grad)
    return value


def _kept(value: Tensor, like: Tensor) -> Any:
    """The parameter itself, with another value: optimisers may know it already."""
    if isinstance(like, Parameter) and value is not like and value.dtype == like.dtype:
        like.data = value.detach()
        return like
    return _stored(value, like)


class ParametrizationList(ModuleList):
    """The functions of one parameter, with what they start from: original, or original0, original1, ..."""

    _own_forward = False

    def __init__(self, modules: list[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        value: Any = original
        with no_grad():
            for module in reversed(modules):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:  # then the value is what the function is given
                        pass
        self.is_tensor = isinstance(value, Tensor)
        if self.is_tensor:
            self._keep("original", _kept(value, original))
        else:
            self.ntensors = len(value)
            for i, part in enumerate(value):
                self._keep("original%d" % i, _stored(part, original))

    def _keep(self, name: str, value: Tensor) -> None:
        if isinstance(value, Parameter):
            self.register_parameter(name, value)
        else:
            self.register_buffer(name, value)

    def forward(self) -> Any:
        first, *rest = self
        x = first(self.original) if self.is_tensor else first(*(getattr(self, "original%d" % i)
                                                                for i in range(self.ntensors)))
        for module in rest:
            x = module(x)
        return x

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the parameter becomes that value."""
        with no_grad():
            made: Any = value
            for module in reversed(list(self)):
                made = module.right_inverse(made)
            if self.is_tensor:
                self.original.copy_(made)
            else:
                for i, part in enumerate(made):
                    getattr(self, "original%d" % i).copy_(part)


def _property(name: str) -> property:
    def get(self: Any) -> Any:
        if not _cached:
            return self.parametrizations[name]()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = (self.parametrizations[name](), self)  # the module is kept, so that its id stays its own
        return _cache[key][0]

    def put(self: Any, value: Tensor) -> None:
        _cache.pop((id(self), name), None)
        self.parametrizations[name].right_inverse(value)
    return property(get, put)


def _forward(self: Any, *args: Any, **kwargs: Any) -> Any:
    """The class's forward with the parameters as they are now."""
    if self._class_name is None:
        return super(type(self), self).forward(*args, **kwargs)
    for name in self.parametrizations:
        self._set_removed(name, getattr(self, name))
    try:
        return super(type(self), self).forward(*args, **kwargs)
    finally:
        if _C._tracing():  # what a captured function computes must not stay outside of it
            for name, parts in self.parametrizations.items():
                self._set_removed(name, next(parts.parameters()))


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Does it have a computed parameter, of that name?"""
    parts = getattr(module, "parametrizations", None)
    if parts is None or not isinstance(parts, ModuleDict):
        return False
    return len(parts) > 0 if tensor_name is None else tensor_name in parts


def type_before_parametrizations(module: Module) -> type[Any]:
    """The class that the module had when nothing of it was computed."""
    kind: type[Any] = getattr(type(module), "_parametrized", type(module))
    return kind


def _check(module: Any, name: str, parametrization: Any) -> None:
    """Does the function return what can stand for what it is given?"""
    present = getattr(module, name, None)
    if not isinstance(present, Tensor):
        return
    with no_grad():
        given: Any = present
        if hasattr(parametrization, "right_inverse"):
            try:
                given = parametrization.right_inverse(given)
            except NotImplementedError:
                pass
        made = parametrization(given) if isinstance(given, Tensor) else parametrization(*given)
    if not isinstance(made, Tensor):
        raise ValueError("A parametrization must return a tensor. Got %s." % type(made).__name__)
    for what in ("dtype", "shape"):
        if getattr(made, what) != getattr(present, what):
            raise ValueError("Registering a parametrization may not change the %s of the tensor, unless unsafe=True: "
                             "%s.%s is %s, the parametrization returns %s"
                             % (what, type(module).__name__, name, getattr(present, what), getattr(made, what)))


def register_parametrization(module: Any, tensor_name: str, parametrization: Module, *,
                             unsafe: bool = False) -> Any:
    """From now on module.NAME is parametrization(original). Unless unsafe, it must have the type and shape that NAME
    had."""
    parametrization.train(module.training)
    if not unsafe:
        _check(module, tensor_name, parametrization)
    if is_parametrized(module, tensor_name):
        module.parametrizations[tensor_name].append(parametrization)
        return module
    if tensor_name not in module._parameters and tensor_name not in module._buffers:
        raise ValueError("Module '%s' does not have a parameter, a buffer, or a parametrized element with name '%s'"
                         % (type(module).__name__, tensor_name))
    original = getattr(module, tensor_name)
    held = ParametrizationList([parametrization], original, unsafe)
    delattr(module, tensor_name)
    if not is_parametrized(module):
        base = type(module)
        names = {"forward": _forward, "__module__": base.__module__, "_parametrized": base}
        module.__class__ = type("Parametrized" + base.__name__, (base,), names)
        module.parametrizations = ModuleDict()
        module._set_patched(True)
    setattr(type(module), tensor_name, _property(tensor_name))
    module.parametrizations[tensor_name] = held
    return module


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Makes it a parameter of its own again, with the value it has, or had in the beginning."""
    if not is_parametrized(module, tensor_name):
        raise ValueError("Module %s does not have a parametrization on %s" % (module, tensor_name))
    held = module.parametrizations[tensor_name]
    first = held.original if held.is_tensor else held.original0
    with no_grad():
        value = held().detach() if leave_parametrized else held.original.detach()
    del module.parametrizations[tensor_name]
    delattr(type(module), tensor_name)
    if isinstance(first, Parameter):
        module.register_parameter(tensor_name, Parameter(value, requires_grad=first.requires_grad))
    else:
        module.register_buffer(tensor_name, value)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module)._parametrized
        module._set_patched(False)
    return module


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Inside, a computed parameter is computed when it is first used, and kept until the end."""
    global _cached
    _cached += 1
    try:
        yield
    finally:
        _cached -= 1
        if not _cached:
            _cache.clear()


def transfer_parametrizations_and_params(from_module: Module, to_module: Module,
                                         tensor_name: str | None = None) -> Module:
    """Gives another module the same functions and originals."""
    for name in [tensor_name] if tensor_name else list(from_module.parametrizations):
        for part in from_module.parametrizations[name]:
            register_parametrization(to_module, name, part)
        to_module.parametrizations[name].load_state_dict(from_module.parametrizations[name].state_dict())
    return to_module
