"""Optimizer: the base of all optimisers, to derive own ones from: groups of parameters, state, hooks.

An optimiser written in Python keeps what it remembers in self.state[p] and updates parameters in step(). Those of the
library (_native.py) keep both in C. Rate schedules and loss scaling are C as well; for an optimiser written in Python
they look at a stand-in (Shadow) that has the same parameters and rates.
"""
from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from typing import Any, Callable, Hashable, Iterable, Iterator, MutableMapping, TypeAlias

from .. import _C
from .._tensor import Tensor
from . import _parts
from ._parts import (  # noqa: F401  (optimisers of programs take them from here)
    _capturable_doc as _capturable_doc, _default_to_fused_or_foreach as _default_to_fused_or_foreach,
    _differentiable_doc as _differentiable_doc, _disable_dynamo_if_unsupported as _disable_dynamo_if_unsupported,
    _dispatch_sqrt as _dispatch_sqrt, _foreach_doc as _foreach_doc, _fused_doc as _fused_doc,
    _get_capturable_supported_devices as _get_capturable_supported_devices,
    _get_foreach_kernels_supported_devices as _get_foreach_kernels_supported_devices,
    _get_fused_kernels_supported_devices as _get_fused_kernels_supported_devices,
    _get_scalar_dtype as _get_scalar_dtype, _get_value as _get_value, _maximize_doc as _maximize_doc,
    _params_doc as _params_doc, _stack_if_compiling as _stack_if_compiling,
    _use_grad_for_differentiable as _use_grad_for_differentiable, _view_as_real as _view_as_real)

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook", "required"]

ParamsT: TypeAlias = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]
_Hook: TypeAlias = Callable[..., Any]


class _Required:
    """Stands in `defaults` for what every group must say itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()


class _Handle:
    """Removes a hook; also a context manager that does so at its end."""

    def __init__(self, hooks: MutableMapping[int, _Hook], hook: _Hook, first: bool = False) -> None:
        _Handle.count = self.id = _Handle.count + 1
        self._hooks = hooks
        hooks[self.id] = hook
        if first and isinstance(hooks, OrderedDict):
            hooks.move_to_end(self.id, last=False)

    count = 0

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> _Handle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


_before_all: OrderedDict[int, _Hook] = OrderedDict()
_after_all: OrderedDict[int, _Hook] = OrderedDict()


def register_optimizer_step_pre_hook(hook: _Hook) -> _Handle:
    """hook(optimizer, args, kwargs) before every step of every optimiser."""
    return _Handle(_before_all, hook)


def register_optimizer_step_post_hook(hook: _Hook) -> _Handle:
    """hook(optimizer, args, kwargs) after every step of every optimiser."""
    return _Handle(_after_all, hook)


def _hooked(step: Callable[..., Any]) -> Callable[..., Any]:
    """step() with the hooks around it. A step that calls its parent's is one step."""

    @functools.wraps(step)
    def wrapped(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._stepping:
            return step(self, *args, **kwargs)
        self._stepping = self._opt_called = True
        try:
            for hook in (*_before_all.values(), *self._step_pre_hooks.values()):
                changed = hook(self, args, kwargs)
                if isinstance(changed, tuple) and len(changed) == 2:
                    args, kwargs = changed
                elif changed is not None:
                    raise RuntimeError(f"{hook} must return None or a tuple (args, kwargs), not {changed}")
            result = step(self, *args, **kwargs)
            for hook in (*self._step_post_hooks.values(), *_after_all.values()):
                hook(self, args, kwargs)
            return result
        finally:
            self._stepping = False

    setattr(wrapped, "hooked", True)
    return wrapped


class Shadow:
    """An optimiser of the library with the parameters and rates of one written in Python: what schedules move and
    loss scaling looks at. It never steps."""

    RATES = ("lr", "initial_lr", "max_lr", "min_lr", "swa_lr", "base_momentum", "max_momentum", "momentum", "betas")

    def __init__(self, groups: list[dict[str, Any]]) -> None:
        self.core = _C.OptimBase("Adam" if any("betas" in g for g in groups) else "SGD", {})
        self.count = 0

    def push(self, groups: list[dict[str, Any]]) -> None:
        for g in groups[self.count:]:
            self.core.add(tuple(g["params"]))
        self.count = len(groups)
        self.core.sync(groups)
        for i, g in enumerate(groups):
            for name in self.RATES:
                if g.get(name) is not None:
                    self.core.put(i, name, g[name])

    def pull(self, groups: list[dict[str, Any]]) -> None:
        for i, g in enumerate(groups):
            for name, value in self.core.group(i).items():
                if name in self.RATES and (name in g or name not in ("momentum", "betas")):
                    assign(g, name, value)


def same(a: Any, b: Any) -> bool:
    """Are they the same setting? Lists and tuples may be alike."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, Tensor):
        a = a.item() if a.numel() == 1 else None
    return bool(a == b)


def assign(group: dict[str, Any], name: str, value: Any) -> None:
    """Sets what differs. A rate that is a tensor stays that tensor."""
    old = group.get(name)
    if name in group and same(old, value):
        return
    if name == "lr" and isinstance(old, Tensor):
        old.fill_(value)
    else:
        dict.__setitem__(group, name, value)


def _listed(group: dict[str, Any]) -> None:
    """Makes group["params"] a list of tensors, and group["param_names"] one of names where pairs were given."""
    params = group["params"]
    if isinstance(params, Tensor):
        group["params"] = [params]
        return
    if isinstance(params, set):
        raise TypeError("optimizer parameters need to be organized in ordered collections: the order of a set changes "
                        "between runs. Use a list")
    group["params"] = params = list(params)
    named = [isinstance(p, tuple) for p in params]
    if any(named):
        if not all(named):
            raise ValueError("all optimizer params should be with names, or all without")
        group["params"], group["param_names"] = [p for _, p in params], [name for name, _ in params]


class Optimizer:
    """Updates parameters by their gradients. Derive from it, give defaults to __init__, and write step():

        class Plain(cairn.optim.Optimizer):
            def __init__(self, params, lr=0.1):
                super().__init__(params, {"lr": lr})

            @cairn.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is not None:
                            p.add_(p.grad, alpha=-group["lr"])
    """

    state: MutableMapping[Any, Any]
    param_groups: list[dict[str, Any]]
    defaults: dict[str, Any]
    _stepping = False
    _opt_called = False
    _shadow: Shadow | None = None

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        self._make_hooks()
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            "a Tensor")
        self.state = defaultdict(dict)
        self.param_groups = []
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        for name in ("step_pre", "step_post", "state_dict_pre", "state_dict_post", "load_state_dict_pre",
                     "load_state_dict_post"):
            setattr(self, f"_{name}_hooks", OrderedDict())
        cls = type(self)
        if not hasattr(cls.step, "hooked"):
            setattr(cls, "step", _hooked(cls.step))

    _step_pre_hooks: OrderedDict[int, _Hook]
    _step_post_hooks: OrderedDict[int, _Hook]
    _state_dict_pre_hooks: OrderedDict[int, _Hook]
    _state_dict_post_hooks: OrderedDict[int, _Hook]
    _load_state_dict_pre_hooks: OrderedDict[int, _Hook]
    _load_state_dict_post_hooks: OrderedDict[int, _Hook]

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist: Any, with_indices: bool = False) -> Any:
        """Lists of tensors, apart by device and type."""
        return _parts.group_by_device_and_dtype(tensorlistlist, with_indices)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if "_step_pre_hooks" not in self.__dict__:
            self._make_hooks()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines + [")"])

    # ---- groups ----

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Another group of parameters, with settings of its own where it has them."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        _listed(param_group)
        params = param_group["params"]
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if self.param_groups and ("param_names" in self.param_groups[0]) != ("param_names" in param_group):
            raise ValueError("all optimizer param groups should be with names, or all without")
        here = {id(p) for p in params}
        if len(here) != len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; each is kept once",
                          stacklevel=3)
            _unique(param_group)
        if any(id(p) in here for group in self.param_groups for p in group["params"]):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or sets them to zero."""
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:  # without a look at it: a captured step then does not depend on what was there
                    p.grad = None
                elif p.grad is not None:
                    p.grad = p.grad.detach() if p.grad.requires_grad else p.grad
                    p.grad.zero_()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of all parameters. closure evaluates the loss anew, runs backward and returns the loss."""
        raise NotImplementedError

    # ---- what schedules and loss scaling look at ----

    def _program_key(self) -> Any:
        """What a captured step depends on, hashable: settings are numbers of Python, which are baked in."""
        return tuple((name, value if isinstance(value, (int, float, str, tuple)) else id(value))
                     for group in self.param_groups for name, value in group.items() if name != "params")

    def _cycles(self) -> bool:
        """Does a captured step follow a momentum that goes round?"""
        return False

    def _rates_push(self) -> _C.OptimBase:
        """The optimiser of the library that has these rates and parameters, up to date."""
        if self._shadow is None:
            self._shadow = Shadow(self.param_groups)
        self._shadow.push(self.param_groups)
        return self._shadow.core

    def _rates_pull(self) -> None:
        """Takes over rates that a schedule has set there."""
        if self._shadow is not None:
            self._shadow.pull(self.param_groups)

    # ---- state ----

    def _numbers(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """Groups, and the numbers of their parameters counted through."""
        first = 0
        for group in self.param_groups:
            yield group, list(range(first, first + len(group["params"])))
            first += len(group["params"])

    def _packed_groups(self) -> list[dict[str, Any]]:
        return [{**{k: v for k, v in group.items() if k != "params"}, "params": numbers}
                for group, numbers in self._numbers()]

    def _packed_state(self) -> dict[Any, Any]:
        number = {id(p): n for group, numbers in self._numbers() for p, n in zip(group["params"], numbers)}
        return {number[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}

    def state_dict(self) -> dict[str, Any]:
        """{"state": what is remembered of each parameter, by number, "param_groups": the settings}."""
        for hook in self._state_dict_pre_hooks.values():
            hook(self)
        made: dict[str, Any] = {"state": self._packed_state(), "param_groups": self._packed_groups()}
        for hook in self._state_dict_post_hooks.values():
            changed = hook(self, made)
            made = made if changed is None else changed
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over the settings and copies of what was remembered; parameters stay these."""
        state_dict = dict(state_dict)
        for hook in self._load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(a["params"]) != len(b["params"]) for a, b in zip(self.param_groups, groups)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's "
                             "group")
        self._take_state(own(state_dict["state"]), own(groups))
        for hook in self._load_state_dict_post_hooks.values():
            hook(self)

    def _take_state(self, state: dict[Any, Any], groups: list[dict[str, Any]]) -> None:
        param = {n: p for a, b in zip(self.param_groups, groups) for n, p in zip(b["params"], a["params"])}
        taken: defaultdict[Hashable, Any] = defaultdict(dict)
        for key, value in state.items():
            taken[param.get(key, key)] = _like(param[key], value) if key in param else value
        fresh = [{**{k: v for k, v in b.items() if k != "params"}, "params": a["params"]}
                 for a, b in zip(self.param_groups, groups)]
        self.__setstate__({"state": taken, "param_groups": fresh})

    # ---- hooks ----

    def _has_step_hooks(self) -> bool:
        return bool(_before_all or _after_all or self._step_pre_hooks or self._step_post_hooks)

    def register_step_pre_hook(self, hook: _Hook) -> _Handle:
        """hook(optimizer, args, kwargs) before step; may return other arguments."""
        return _Handle(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: _Hook) -> _Handle:
        """hook(optimizer, args, kwargs) after step."""
        return _Handle(self._step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: _Hook, prepend: bool = False) -> _Handle:
        """hook(optimizer) before state_dict."""
        return _Handle(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: _Hook, prepend: bool = False) -> _Handle:
        """hook(optimizer, state_dict) after it; may return another one."""
        return _Handle(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook: _Hook, prepend: bool = False) -> _Handle:
        """hook(optimizer, state_dict) before load_state_dict; may return another one."""
        return _Handle(self._load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook: _Hook, prepend: bool = False) -> _Handle:
        """hook(optimizer) after load_state_dict."""
        return _Handle(self._load_state_dict_post_hooks, hook, prepend)


def _unique(group: dict[str, Any]) -> None:
    first = {id(p): i for i, p in reversed(list(enumerate(group["params"])))}
    kept = sorted(first.values())
    for name in ("params", "param_names"):
        if name in group:
            group[name] = [group[name][i] for i in kept]


def own(value: Any) -> Any:
    """Nested data with tensors of other libraries made cairn's; lists and dictionaries are new ones."""
    if isinstance(value, dict):
        return {k: own(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(own(v) for v in value)
    if hasattr(value, "__dlpack__") and not isinstance(value, Tensor) and hasattr(value, "detach"):
        return _C.from_dlpack(value.detach())
    return value


def _like(param: Tensor, value: Any, key: str = "") -> Any:
    """What is remembered, as this parameter needs it: on its device and of its type, but for step counts."""
    if isinstance(value, dict):
        return {k: _like(param, v, str(k)) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_like(param, v, key) for v in value)
    if not isinstance(value, Tensor):
        return value
    if key == "step":
        return value.clone()
    typed = param.is_floating_point() and value.is_floating_point()
    return value.to(device=param.device, dtype=param.dtype if typed else value.dtype, copy=True)
