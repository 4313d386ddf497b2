"""Hooks of modules: functions that run around calls, in backward, and when state is saved or loaded."""
from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable

from .. import _C

__all__ = ()

_numbers = itertools.count()


class RemovableHandle:
    """What the register functions return: remove() takes the hook away."""

    def __init__(self, hooks: dict[int, Any], owner: Any = None, extra: tuple[dict[int, Any], ...] = ()) -> None:
        self.id = next(_numbers)
        self._hooks, self._extra = hooks, extra
        self._owner = weakref.ref(owner) if owner is not None else None

    def remove(self) -> None:
        for hooks in (self._hooks, *self._extra):
            hooks.pop(self.id, None)
        owner = self._owner() if self._owner is not None else None
        if owner is not None:
            owner._hooks_changed()
        elif self._owner is None:
            _tell_global()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.remove()


_KINDS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# Beside the hooks: which of them want keyword arguments, or are called whatever happens. All are made when asked for.
_FLAGS = ("_forward_hooks_with_kwargs", "_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
_LISTS = frozenset(_KINDS + _FLAGS + ("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                                      "_load_state_dict_post_hooks"))
_global: dict[str, dict[int, Any]] = {kind: OrderedDict() for kind in _KINDS + _FLAGS}
_registration: dict[str, dict[int, Any]] = {kind: OrderedDict() for kind in ("buffer", "module", "parameter")}


def _tell_global() -> None:
    _C._set_global_module_hooks(any(_global.values()))


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What is to be registered after the hooks of all modules have seen it."""
    for hook in list(_registration[kind].values()) if value is not None else ():
        result = hook(module, name, value)
        value = value if result is None else result
    return value


def announce(root: Any) -> None:
    """Tells the registration hooks what a layer of the library has made for itself."""
    for module in list(root.modules()):
        for kind, part in (("parameter", module._parameters), ("buffer", module._buffers), ("module", module._modules)):
            for name, value in list(part.items()):
                made = registered(kind, module, name, value)
                if made is not value:
                    part[name] = made


class Hooks:
    """The part of Module that keeps hooks and calls them."""

    __slots__ = ()

    if TYPE_CHECKING:  # ModuleBase has them
        def _set_hooked(self, on: bool, /) -> None: ...
        def _call_plain(self, args: tuple[Any, ...], kwargs: dict[str, Any], /) -> Any: ...

    def _hook_list(self, kind: str) -> OrderedDict[int, Any]:
        hooks: OrderedDict[int, Any] = self.__dict__.setdefault(kind, OrderedDict())
        return hooks

    def _hooks_changed(self) -> None:
        self._set_hooked(any(self.__dict__.get(kind) for kind in _KINDS))

    def _register(self, kind: str, hook: Any, prepend: bool = False, flags: tuple[str, ...] = ()) -> RemovableHandle:
        hooks = self._hook_list(kind)
        marks = tuple(self._hook_list(flag) for flag in flags)
        handle = RemovableHandle(hooks, self if kind in _KINDS else None, marks)
        hooks[handle.id] = hook
        for mark in marks:
            mark[handle.id] = True
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        self._hooks_changed()
        return handle

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """hook(module, args, output) after each call; with_kwargs: hook(module, args, kwargs, output). What it returns
        replaces the output, unless None."""
        return self._register("_forward_hooks", hook, prepend, _flags(with_kwargs, always_call))

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """hook(module, args) before each call; with_kwargs: hook(module, args, kwargs). What it returns replaces the
        arguments, unless None."""
        return self._register("_forward_pre_hooks", hook, prepend,
                              ("_forward_pre_hooks_with_kwargs",) if with_kwargs else ())

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) in backward; what it returns replaces grad_input, unless None."""
        return self._register("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self.register_full_backward_hook(hook)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) in backward; what it returns replaces grad_output, unless None."""
        return self._register("_backward_pre_hooks", hook, prepend)

    # ---- calls ----
    def _all(self, kind: str) -> list[tuple[int, Any]]:
        own = self.__dict__.get(kind)
        return [*_global[kind].items(), *(own.items() if own else ())]

    def _flagged(self, flag: str, number: int) -> bool:
        return number in _global[flag] or number in self.__dict__.get(flag, ())

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments after the forward pre-hooks."""
        for number, hook in self._all("_forward_pre_hooks"):
            if self._flagged("_forward_pre_hooks_with_kwargs", number):
                result = hook(self, args, kwargs)
                if result is None:
                    continue
                if not isinstance(result, tuple) or len(result) != 2:
                    raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs), but "
                                       "got %r." % (result,))
                args, kwargs = result
            else:
                result = hook(self, args)
                if result is not None:
                    args = result if isinstance(result, tuple) else (result,)
        return args, kwargs

    def _after(self, hook: Any, number: int, args: Any, kwargs: Any, result: Any) -> Any:
        """What a forward hook returns."""
        if self._flagged("_forward_hooks_with_kwargs", number):
            return hook(self, args, kwargs, result)
        return hook(self, args, result)

    def _call_hooked_plainly(self, *args: Any, **kwargs: Any) -> Any:
        """A call with hooks, as it is: what compile() compiles."""
        return self._call_all(args, kwargs)

    def _call_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        compiled = self.__dict__.get("_compiled")
        return self._call_all(args, kwargs) if compiled is None else compiled(*args, **kwargs)

    def _call_all(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        called: set[int] = set()
        watch = result = None
        try:
            args, kwargs = self._before(args, kwargs)
            backward = [hook for _, hook in self._all("_backward_hooks")]
            before = [hook for _, hook in self._all("_backward_pre_hooks")]
            if backward or before:
                from . import _backward_hooks
                watch = _backward_hooks.Watch(self, backward, before)
                args = watch.inputs(args)
            result = self._call_plain(args, kwargs)
            for number, hook in self._all("_forward_hooks"):
                called.add(number)
                replaced = self._after(hook, number, args, kwargs, result)
                if replaced is not None:
                    result = replaced
        except Exception:
            for number, hook in self._all("_forward_hooks"):
                if self._flagged("_forward_hooks_always_called", number) and number not in called:
                    try:
                        self._after(hook, number, args, kwargs, result)
                    except Exception as error:  # the first failure is the one to be told
                        warnings.warn("a forward hook that is always called failed: %s" % error)
            raise
        return watch.results(result) if watch is not None else result

    # ---- state ----
    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata) after state_dict."""
        return self._register("_state_dict_hooks", hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, prefix, keep_vars) before state_dict."""
        return self._register("_state_dict_pre_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)."""
        return self._register("_load_state_dict_pre_hooks", (hook, True))

    def _register_load_state_dict_pre_hook(self, hook: Callable[..., Any],
                                           with_module: bool = False) -> RemovableHandle:
        return self._register("_load_state_dict_pre_hooks", (hook, with_module))

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """hook(module, incompatible_keys) after load_state_dict; it may change the two lists."""
        return self._register("_load_state_dict_post_hooks", hook)

    def _run_state_dict_pre_hooks(self, prefix: str, keep_vars: bool) -> None:
        for hook in list(self.__dict__.get("_state_dict_pre_hooks", {}).values()):
            hook(self, prefix, keep_vars)

    def _run_state_dict_hooks(self, destination: Any, prefix: str, metadata: Any) -> Any:
        for hook in list(self.__dict__.get("_state_dict_hooks", {}).values()):
            result = hook(self, destination, prefix, metadata)
            if result is not None:
                destination = result
        return destination

    def _run_load_pre_hooks(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        hooks = self.__dict__.get("_load_state_dict_pre_hooks", {})
        for hook, with_module in list(hooks.values()):
            hook(self, state_dict, prefix, *rest) if with_module else hook(state_dict, prefix, *rest)

    def _run_load_post_hooks(self, keys: Any) -> None:
        hooks = self.__dict__.get("_load_state_dict_post_hooks", {})
        for hook in list(hooks.values()):
            if hook(self, keys) is not None:
                raise AssertionError("a load_state_dict post hook changes the keys in place and returns None")


def _flags(with_kwargs: bool, always_call: bool) -> tuple[str, ...]:
    """The lists that a forward hook is noted in."""
    return (("_forward_hooks_with_kwargs",) if with_kwargs else ()) + \
        (("_forward_hooks_always_called",) if always_call else ())


def _register_global(kind: str, hook: Any, flags: tuple[str, ...] = ()) -> RemovableHandle:
    marks = tuple(_global[flag] for flag in flags)
    handle = RemovableHandle(_global[kind], None, marks)
    _global[kind][handle.id] = hook
    for mark in marks:
        mark[handle.id] = True
    _tell_global()
    return handle


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False,
                                 always_call: bool = False) -> RemovableHandle:
    """A forward hook of all modules."""
    return _register_global("_forward_hooks", hook, _flags(with_kwargs, always_call))


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """A forward pre-hook of all modules."""
    return _register_global("_forward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """A backward hook of all modules."""
    return _register_global("_backward_hooks", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """A backward hook of all modules, by its older name; the gradients are those of the full one."""
    return _register_global("_backward_hooks", hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """A backward pre-hook of all modules."""
    return _register_global("_backward_pre_hooks", hook)


def _register_registration(kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    handle = RemovableHandle(_registration[kind])
    _registration[kind][handle.id] = hook
    return handle


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, name, buffer) when a module gets a buffer; what it returns, unless None, is put in its place."""
    return _register_registration("buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, name, submodule) when a module gets a child; what it returns, unless None, is put in its place."""
    return _register_registration("module", hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """hook(module, name, param) when a module gets a parameter; what it returns, unless None, is put in its place."""
    return _register_registration("parameter", hook)
