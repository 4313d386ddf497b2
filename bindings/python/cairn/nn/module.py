"""Module, the class that networks derive from. Its tree of parameters, buffers and children lives in C; what is here
walks it, names it, saves it and calls the hooks."""
from __future__ import annotations

from typing import Any, Callable, Iterator, TypeVar

from .. import _C
from .._tensor import Tensor
from . import _hooks, _state
from .parameter import Buffer, Parameter

__all__ = ["Module"]

T = TypeVar("T", bound="Module")


def _indented(text: str, spaces: int) -> str:
    """All lines but the first moved to the right."""
    return text.replace("\n", "\n" + " " * spaces)


class _CallSignature:
    """What inspect.signature says of a module: its forward's. Of a class it says what it otherwise would."""

    def __get__(self, instance: Module | None, owner: type[Module]) -> Any:
        if instance is None:
            raise AttributeError("__signature__")
        import inspect
        return inspect.signature(instance.forward)


class Module(_hooks.Hooks, _state.State, _C.ModuleBase):
    """What computes with parameters: derive from it, make layers in __init__ and use them in forward."""

    _version: int = 1
    _given: tuple[str, ...] = ()  # settings that are kept as they were given, not as tuples
    _own_forward = True  # does C call forward in Python? Classes of the library say no
    dump_patches = False
    call_super_init = False
    forward: Callable[..., Any]
    __signature__ = _CallSignature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = cls.__dict__.get("forward")
        if own is not None and "_own_forward" not in cls.__dict__ and not hasattr(own, "_native"):
            cls._own_forward = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            raise TypeError("%s.__init__() got an unexpected keyword argument %r"
                            % (type(self).__name__, next(iter(kwargs))))
        if args:
            raise TypeError("%s.__init__() takes 1 positional argument but %d were given"
                            % (type(self).__name__, len(args) + 1))
        self._begin()

    @staticmethod
    def _class_for(name: str) -> type[Module]:
        """A class for modules that were made in C and have none here."""
        from .._networks import CLASSES
        return CLASSES.get(name) or type(name, (_Made,), {"__module__": "cairn.nn"})

    def _wrapped(self) -> None:
        """Called when a module that was made in C gets its object here."""

    # ---- parts ----
    def __getattr__(self, name: str) -> Any:
        if name in _hooks._LISTS:  # programs look at them, and empty them
            return self._hook_list(name)
        if not name.startswith("_"):  # module.__getattr__("weight"): a dot would have found them before
            for parts in (self._parameters, self._buffers, self._modules):
                if name in parts:
                    return parts[name]
        raise AttributeError("'%s' object has no attribute '%s'" % (type(self).__name__, name))

    def _assign(self, name: str, value: Any) -> None:
        """What setattr does with names and values that concern the tree."""
        parameters, buffers, modules = self._parameters, self._buffers, self._modules
        if isinstance(value, Parameter):
            self._forget(name)
            parameters[name] = _hooks.registered("parameter", self, name, value)
        elif name in parameters:
            if value is not None:
                raise TypeError("cannot assign '%s' as parameter '%s' (cairn.nn.Parameter or None expected)"
                                % (type(value).__name__, name))
            parameters[name] = None
        elif isinstance(value, _C.ModuleBase):
            self._forget(name, modules)
            modules[name] = _hooks.registered("module", self, name, value)
        elif name in modules:
            if value is not None:
                raise TypeError("cannot assign '%s' as child module '%s' (cairn.nn.Module or None expected)"
                                % (type(value).__name__, name))
            modules[name] = None
        elif isinstance(value, Buffer) or name in buffers:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError("cannot assign '%s' as buffer '%s' (cairn.Tensor or None expected)"
                                % (type(value).__name__, name))
            if name not in buffers:
                self.register_buffer(name, value, getattr(value, "persistent", True))
            else:
                buffers[name] = value
        else:
            self._set_attribute(name, value)

    def _forget(self, name: str, but: Any = None) -> None:
        """Takes a name out of the other dictionaries, so that it can change its kind."""
        for part in (self._parameters, self._buffers, self._modules):
            if name in part and part is not but and (but is not None or part is not self._parameters):
                del part[name]

    def _remove(self, name: str) -> None:
        for part in (self._parameters, self._buffers, self._modules):
            if name in part:
                del part[name]
                self._buffers.transient.discard(name)

    @property
    def _non_persistent_buffers_set(self) -> set[str]:
        names: set[str] = self._buffers.transient
        return names

    def _check_name(self, name: str, what: str, part: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError("%s name should be a string. Got %s" % (what, type(name).__name__))
        if hasattr(self, name) and name not in part:
            raise KeyError("attribute '%s' already exists" % name)
        if "." in name:
            raise KeyError('%s name can\'t contain ".", got: %s' % (what, name))
        if name == "":
            raise KeyError('%s name can\'t be empty string ""' % what)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter; None is one that is absent."""
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError("cannot assign '%s' object to parameter '%s' (cairn.nn.Parameter or None required)"
                            % (type(param).__name__, name))
        if param is not None and not param.is_leaf:
            raise ValueError("cannot assign a Tensor with a history to parameter '%s': give its values, or compute it "
                             "in forward" % name)
        self._parameters[name] = _hooks.registered("parameter", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is not trained; one that is not persistent stays out of the state dictionary."""
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError("cannot assign '%s' object to buffer '%s' (cairn.Tensor or None required)"
                            % (type(tensor).__name__, name))
        if persistent:
            self._buffers.transient.discard(name)
        else:
            self._buffers.transient.add(name)
        self._buffers[name] = _hooks.registered("buffer", self, name, tensor)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a child."""
        if module is not None and not isinstance(module, _C.ModuleBase):
            raise TypeError("%s is not a Module subclass" % type(module).__name__)
        self._check_name(name, "module", self._modules)
        self._modules[name] = _hooks.registered("module", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        self.add_module(name, module)

    def _owner(self, target: str) -> tuple[Module, str]:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if not hasattr(owner, name):
            raise AttributeError("%s has no attribute `%s`" % (type(owner).__name__, name))
        return owner, name

    def get_submodule(self, target: str) -> Module:
        """The module that a path of names ("layer1.0") leads to."""
        found: Any = self
        for part in target.split(".") if target else []:
            if not hasattr(found, part):
                raise AttributeError("%s has no attribute `%s`" % (type(found).__name__, part))
            found = getattr(found, part)
            if not isinstance(found, _C.ModuleBase):
                raise AttributeError("`%s` is not an nn.Module" % part)
        module: Module = found
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replaces the module at the end of a path."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        if strict and not hasattr(owner, name):
            raise AttributeError("%s has no attribute `%s`" % (type(owner).__name__, name))
        setattr(owner, name, module)

    def get_parameter(self, target: str) -> Parameter:
        owner, name = self._owner(target)
        found = getattr(owner, name)
        if not isinstance(found, Parameter):
            raise AttributeError("`%s` is not an nn.Parameter" % name)
        return found

    def get_buffer(self, target: str) -> Tensor:
        owner, name = self._owner(target)
        if name not in owner._buffers:
            raise AttributeError("`%s` is not a buffer" % name)
        buffer: Tensor = owner._buffers[name]
        return buffer

    # ---- walking ----
    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo: set[Module] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, prefix + ("." if prefix else "") + name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def _named_members(self, members: Callable[[Module], Any], prefix: str = "", recurse: bool = True,
                       remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        seen = set()
        walk = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in walk:
            for name, value in members(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield path + ("." if path else "") + name, value

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        return self._named_members(lambda m: m._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        return self._named_members(lambda m: m._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self: T, fn: Callable[[Module], None]) -> T:
        """Calls fn with every module below, then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes, places, types ----
    def train(self: T, mode: bool = True) -> T:
        """Training mode, here and below."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: T) -> T:
        """Evaluation mode, here and below."""
        return self.train(False)

    def requires_grad_(self: T, requires_grad: bool = True) -> T:
        """Should gradients of the parameters be computed?"""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drops the gradients of the parameters, or sets them to zero."""
        for parameter in self.parameters():
            if set_to_none:  # without a look at it: a captured step then does not depend on what was there
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad = parameter.grad.detach().zero_()

    def _apply(self: T, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> T:
        """Replaces the data of parameters and buffers, and of gradients, by what fn makes of it."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                _replace(parameter, fn)
        for name, buffer in list(self._buffers.items()):
            if buffer is not None:
                made = fn(buffer)
                if made is not buffer:
                    self._buffers[name] = made
        return self

    def to(self: T, *args: Any, **kwargs: Any) -> T:
        """Moves parameters and buffers to a device, floating ones to a type: to(device), to(dtype), to(device, dtype),
        to(tensor). Parameters stay the same objects."""
        device, dtype, form = _place(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError("nn.Module.to only accepts floating point or complex dtypes, but got desired dtype=%s"
                            % dtype)

        def convert(t: Tensor) -> Tensor:
            moved = t.to(device, dtype if t.is_floating_point() or t.is_complex() else None)
            if form is not None and t.ndim in (4, 5):
                moved = moved.contiguous(memory_format=form)
            return moved

        return self._apply(convert)

    def cpu(self: T) -> T:
        return self.to("cpu")

    def cuda(self: T, device: Any = None) -> T:
        return self.to("cuda" if device is None else device)

    def xpu(self: T, device: Any = None) -> T:
        return self.to("xpu" if device is None else device)

    def type(self: T, dst_type: Any) -> T:
        return self._apply(lambda t: t.type(dst_type))

    def float(self: T) -> T:
        return self._cast(_C.float32)

    def double(self: T) -> T:
        return self._cast(_C.float64)

    def half(self: T) -> T:
        return self._cast(_C.float16)

    def bfloat16(self: T) -> T:
        return self._cast(_C.bfloat16)

    def _cast(self: T, dtype: Any) -> T:
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def to_empty(self: T, *, device: Any, recurse: bool = True) -> T:
        return self._apply(lambda t: _C.empty(t.shape, dtype=t.dtype, device=device), recurse)

    def share_memory(self: T) -> T:
        """Moves parameters, their gradients and buffers to memory that other processes see: what a child that is
        started later trains, its parent has."""
        for parameter in self.parameters():
            parameter.share_memory_()
            if parameter.grad is not None:
                parameter.grad.share_memory_()
        for buffer in self.buffers():
            buffer.share_memory_()
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compiles this module's calls in place, with the arguments of cairn.compile."""
        from ..compiler import compile
        made = compile(self._call_hooked_plainly, *args, **kwargs)
        object.__setattr__(self, "_compiled", made)
        self._set_hooked(True)

    # ---- looking ----
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What is printed between the brackets before the children."""
        return self._describe()

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = ["(%s): %s" % (name, _indented(repr(module), 2)) for name, module in self._modules.items()]
        return _layout(self._get_name(), lines, children)

    def _repr_html_(self) -> str:
        from . import _html
        return _html.table(self)

    def __dir__(self) -> list[str]:
        names = set(dir(type(self))) | set(self.__dict__)
        return sorted(n for n in names if not n[:1].isdigit())


def _layout(name: str, lines: list[str], children: list[str]) -> str:
    """Text between the brackets on one line where it fits, a line each otherwise."""
    if len(lines) == 1 and not children:
        return "%s(%s)" % (name, lines[0])
    body = lines + children
    return "%s(%s)" % (name, "\n  " + "\n  ".join(body) + "\n" if body else "")


class _Made(Module):
    """A module that was made in C, of a class that Python does not have."""

    _own_forward = False
    forward = _C.ModuleBase.forward

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Of the zoo's networks: made again by name, then filled."""
        if "_zoo" not in self.__dict__:
            raise TypeError("%s was made in C and cannot be pickled: save its state_dict()" % type(self).__name__)
        from ..zoo import _revive
        return _revive, self.__dict__["_zoo"], self.__getstate__()


def _replace(parameter: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
    """The parameter's data, and its gradient's, by what fn makes of them."""
    grad = parameter.grad
    data = parameter.data
    made = fn(data)
    if made is not data:
        if grad is not None:
            parameter.grad = None
        parameter.data = made
        if grad is not None:
            parameter.grad = fn(grad)


def _place(*args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False,
           memory_format: Any = None,
           tensor: Any = None) -> tuple[Any, Any, Any]:  # unused: non_blocking (see Tensor.to)
    """The arguments of to(): device, type, memory format."""
    for value in args:
        if isinstance(value, _C.dtype):
            dtype = value
        elif isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, bool):
            continue
        elif value is not None:
            device = value
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    return None if device is None else _C.device(device), dtype, memory_format
