"""Hooks of modules: functions that run around calls, in backward, and when state is saved or loaded."""
from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Callable

from .. import _C

__all__ = ()

_numbers = itertools.count()


class RemovableHandle:
    """What the register functions answer: remove() takes the hook away."""

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
_global: dict[str, dict[int, Any]] = {kind: OrderedDict() for kind in _KINDS}


def _tell_global() -> None:
    _C._set_global_module_hooks(any(_global.values()))


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

    def _register(self, kind: str, hook: Any, prepend: bool = False) -> RemovableHandle:
        hooks = self._hook_list(kind)
        handle = RemovableHandle(hooks, self if kind in _KINDS else None)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        self._hooks_changed()
        return handle

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """hook(module, args, output) after each call; with_kwargs: hook(module, args, kwargs, output). What it answers
        replaces the output, unless None."""
        return self._register("_forward_hooks", (hook, with_kwargs, always_call), prepend)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """hook(module, args) before each call; with_kwargs: hook(module, args, kwargs). What it answers replaces the
        arguments, unless None."""
        return self._register("_forward_pre_hooks", (hook, with_kwargs), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_input, grad_output) in backward; what it answers replaces grad_input, unless None."""
        return self._register("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        return self.register_full_backward_hook(hook)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """hook(module, grad_output) in backward; what it answers replaces grad_output, unless None."""
        return self._register("_backward_pre_hooks", hook, prepend)

    # ---- calls ----
    def _all(self, kind: str) -> list[Any]:
        own = self.__dict__.get(kind)
        return [*_global[kind].values(), *(own.values() if own else ())]

    def _call_hooked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook, with_kwargs in self._all("_forward_pre_hooks"):
            answer = hook(self, args, kwargs) if with_kwargs else hook(self, args)
            if answer is None:
                continue
            if with_kwargs:
                if not isinstance(answer, tuple) or len(answer) != 2:
                    raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs), but "
                                       "got %r." % (answer,))
                args, kwargs = answer
            else:
                args = answer if isinstance(answer, tuple) else (answer,)
        watch = None
        backward, before = self._all("_backward_hooks"), self._all("_backward_pre_hooks")
        if backward or before:
            from . import _backward_hooks
            watch = _backward_hooks.Watch(self, backward, before)
            args = watch.inputs(args)
        try:
            result = self._call_plain(args, kwargs)
        except Exception:
            for hook, with_kwargs, always in self._all("_forward_hooks"):
                if always:
                    hook(self, args, kwargs, None) if with_kwargs else hook(self, args, None)
            raise
        for hook, with_kwargs, _ in self._all("_forward_hooks"):
            answer = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
            if answer is not None:
                result = answer
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
            answer = hook(self, destination, prefix, metadata)
            if answer is not None:
                destination = answer
        return destination

    def _run_load_pre_hooks(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        hooks = self.__dict__.get("_load_state_dict_pre_hooks", {})
        for hook, with_module in list(hooks.values()):
            hook(self, state_dict, prefix, *rest) if with_module else hook(state_dict, prefix, *rest)

    def _run_load_post_hooks(self, keys: Any) -> None:
        hooks = self.__dict__.get("_load_state_dict_post_hooks", {})
        for hook in list(hooks.values()):
            if hook(self, keys) is not None:
                raise AssertionError("a load_state_dict post hook changes the keys in place and answers None")


def _register_global(kind: str, hook: Any) -> RemovableHandle:
    handle = RemovableHandle(_global[kind])
    _global[kind][handle.id] = hook
    _tell_global()
    return handle


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False,
                                 always_call: bool = False) -> RemovableHandle:
    """A forward hook of all modules."""
    return _register_global("_forward_hooks", (hook, with_kwargs, always_call))


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """A forward pre-hook of all modules."""
    return _register_global("_forward_pre_hooks", (hook, False))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """A backward hook of all modules."""
    return _register_global("_backward_hooks", hook)
