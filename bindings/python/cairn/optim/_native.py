"""Native: optimisers of the library, as Python sees them.

Settings and state live in C. A group is a dictionary whose assignments reach C at once; state[p] shows what C remembers
of a parameter. Invariant: before each step C is told of parameters whose tensors were replaced.
"""
from __future__ import annotations

import itertools
from math import nan
from typing import Any, Callable, ClassVar, Iterator, MutableMapping

from .. import _C
from .._arguments import only_speed
from .._modes import enable_grad
from .._tensor import Tensor
from .optimizer import Optimizer, ParamsT, assign


_numbers = itertools.count()


def _number_of(rate: Any) -> int:
    """One that no other tensor has had: an id may come back."""
    if not hasattr(rate, "_rate_number"):
        rate._rate_number = next(_numbers)
    number: int = rate._rate_number
    return number


def _plain(value: Any) -> Any:
    """A setting as C takes it: None in a list is nan there (Adafactor's eps)."""
    if isinstance(value, (list, tuple)):
        return tuple(nan if v is None else v for v in value)
    return value


class Group(dict[Any, Any]):
    """A group of parameters; what is set here is set in C."""

    __slots__ = ("_core", "_number")

    def __init__(self, core: _C.OptimBase, number: int, group: dict[str, Any]) -> None:
        super().__init__(group)
        self._core, self._number = core, number
        self._push(group)

    def _push(self, settings: dict[str, Any]) -> None:
        """Settings that depend on each other may come in any order: those that do not fit yet are tried again."""
        waiting = {k: _plain(v) for k, v in settings.items() if k != "params"}
        while waiting:
            failed: dict[str, Any] = {}
            for name, value in waiting.items():
                try:
                    self._core.put(self._number, name, value)
                except ValueError:
                    failed[name] = value
            if len(failed) == len(waiting):
                name, value = next(iter(failed.items()))
                self._core.put(self._number, name, value)
            waiting = failed

    def __setitem__(self, name: Any, value: Any) -> None:
        if name != "params":
            self._core.put(self._number, name, _plain(value))
        super().__setitem__(name, value)

    def setdefault(self, name: Any, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *args: Any, **kwargs: Any) -> None:
        given = dict(*args, **kwargs)
        self._push(given)
        super().update(given)

    def __ior__(self, other: Any) -> Group:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:  # copies and pickles are plain dictionaries
        return dict, (dict(self),)


class Memory(dict[Any, Any]):
    """What is remembered of one parameter: tensors of C; one that is set here is copied there."""

    def __init__(self, core: _C.OptimBase, place: tuple[int, int]) -> None:
        super().__init__()
        self._core, self._place = core, place

    def __setitem__(self, name: Any, value: Any) -> None:
        known = name in self or isinstance(value, Tensor)
        super().__setitem__(name, value)
        if known:
            self._core.remember(*self._place, dict(self))
            self._core.memory(*self._place, self)  # what C keeps is what is changed in place later

    def __delitem__(self, name: Any) -> None:
        super().__delitem__(name)
        self._core.remember(*self._place, dict(self))

    def clear(self) -> None:
        super().clear()
        self._core.remember(*self._place, {})

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, value in dict(*args, **kwargs).items():
            self[name] = value

    def setdefault(self, name: Any, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def pop(self, name: Any, *default: Any) -> Any:
        if name not in self:
            return super().pop(name, *default)
        found = self[name]
        del self[name]
        return found

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self),)


class State(dict[Any, Any]):
    """{parameter: Memory}, filled from C when it is looked at."""

    def __init__(self, optimizer: Native) -> None:
        super().__init__()
        self._optimizer = optimizer

    def _fresh(self, p: Any) -> Any:
        """The parameter's memory; None where there is none."""
        place = self._optimizer._places().get(id(p))
        if place is None:
            return super().get(p)
        found: Any = super().get(p)
        memory: Memory = Memory(self._optimizer._core, place) if found is None else found
        if self._optimizer._core.memory(*place, memory):
            super().__setitem__(p, memory)
            return memory
        return found

    def _all(self) -> State:
        for group in self._optimizer.param_groups:
            for p in group["params"]:
                self._fresh(p)
        return self

    def __getitem__(self, p: Any) -> Any:
        found = self._fresh(p)
        if found is None:
            place = self._optimizer._places().get(id(p))
            found = {} if place is None else Memory(self._optimizer._core, place)
            super().__setitem__(p, found)
        return found

    def __setitem__(self, p: Any, value: Any) -> None:
        place = self._optimizer._places().get(id(p))
        if place is None:
            super().__setitem__(p, value)
            return
        memory = Memory(self._optimizer._core, place)
        dict.update(memory, value)
        self._optimizer._core.remember(*place, dict(value))
        super().__setitem__(p, memory)

    def __delitem__(self, p: Any) -> None:
        self._fresh(p)
        super().__delitem__(p)
        place = self._optimizer._places().get(id(p))
        if place is not None:
            self._optimizer._core.remember(*place, {})

    def clear(self) -> None:
        for p in list(self):
            del self[p]

    def pop(self, p: Any, *default: Any) -> Any:
        found = self._fresh(p)
        if found is None:
            return super().pop(p, *default)
        found = dict(found)
        del self[p]
        return found

    def get(self, p: Any, default: Any = None) -> Any:
        found = self._fresh(p)
        return default if found is None else found

    def __contains__(self, p: object) -> bool:
        return self._fresh(p) is not None

    def __len__(self) -> int:
        return dict.__len__(self._all())

    def __iter__(self) -> Iterator[Any]:
        return dict.__iter__(self._all())

    def keys(self) -> Any:
        return dict.keys(self._all())

    def values(self) -> Any:
        return dict.values(self._all())

    def items(self) -> Any:
        return dict.items(self._all())

    def __repr__(self) -> str:
        return dict.__repr__(self._all())

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (dict(self.items()),)


def _keepable(value: Any) -> bool:
    """Can it be part of a state in C?"""
    if isinstance(value, dict):
        return all(isinstance(k, (str, int)) and _keepable(v) for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_keepable, value))
    return value is None or isinstance(value, (bool, int, float, str, Tensor))


class Native(Optimizer):
    """An optimiser of the library; _class is its name there, _settings are its signature's."""

    _class: ClassVar[str]
    _settings: ClassVar[tuple[str, ...]]
    _core: _C.OptimBase

    def __init__(self, params: ParamsT, given: dict[str, Any]) -> None:
        if given.get("differentiable"):
            raise NotImplementedError(f"{type(self).__name__}: differentiable=True is not there, as steps are not "
                                      "recorded; compute new parameters from the gradients (autograd.grad with "
                                      "create_graph) and call the module with them (func.functional_call)")
        if given.get("fused") and given.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
        only_speed(type(self).__name__, foreach=given.get("foreach"))
        self._make_core(given)
        super().__init__(params, {k: v if given.get(k) is None else given[k] for k, v in self._core.group(0).items()})

    def _make_core(self, given: dict[str, Any]) -> None:
        self._core = _C.OptimBase(self._class, {k: _plain(given[k]) for k in self._settings if k in given})
        self._state = State(self)
        self._placed: dict[int, tuple[int, int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "param_groups": [dict(g) for g in self.param_groups],
                "state": self._core.state()["state"]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        groups, self.defaults = state["param_groups"], state["defaults"]
        self._make_core(self.defaults)
        self._make_hooks()
        self.param_groups = []
        for group in groups:
            self.add_param_group(group)
        self._core.load({"state": state["state"], "param_groups": [_tree(g) for g in self._packed_groups()]})

    @property
    def state(self) -> MutableMapping[Any, Any]:
        return self._state

    @state.setter
    def state(self, value: MutableMapping[Any, Any]) -> None:
        given = list(value.items())
        if getattr(self, "param_groups", None):
            self._state.clear()
        for p, memory in given:
            self._state[p] = memory

    # ---- groups ----

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        super().add_param_group(param_group)
        added = self.param_groups.pop()
        number = self._core.add(tuple(added["params"]))
        self.param_groups.append(Group(self._core, number, added))

    def _places(self) -> dict[int, tuple[int, int]]:
        """Where each parameter is, by its id; counted anew when there are more."""
        if len(self._placed) != sum(len(g["params"]) for g in self.param_groups):
            self._placed = {id(p): (i, k) for i, g in enumerate(self.param_groups) for k, p in enumerate(g["params"])}
        return self._placed

    def _sync(self) -> None:
        for i, group in enumerate(self.param_groups):
            if type(group) is not Group or group._core is not self._core:  # somebody put another dictionary there
                self.param_groups[i] = Group(self._core, i, group)
        self._core.sync(self.param_groups)

    def _program_key(self) -> Any:
        """Captured steps note the settings that they read, in C; here it is which tensors are rates."""
        return tuple(_number_of(group["lr"]) for group in self.param_groups if isinstance(group.get("lr"), Tensor))

    def _cycles(self) -> bool:
        return self._core.cycles()

    def _rates_push(self) -> _C.OptimBase:
        self._sync()
        return self._core

    def _rates_pull(self) -> None:
        for i, group in enumerate(self.param_groups):
            for name, value in self._core.group(i).items():
                assign(group, name, value)

    # ---- steps ----

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of all parameters that have a gradient. closure evaluates the loss anew, runs backward and
        returns the loss, which is then the result."""
        self._sync()
        if self._class == "LBFGS":
            if closure is None:
                raise TypeError("LBFGS.step() needs a closure that evaluates the loss anew and runs backward")
            return self._core.minimise(closure)
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._core.step()
        return loss

    # ---- state ----

    def _packed_state(self) -> dict[Any, Any]:
        packed: dict[Any, Any] = self._core.state()["state"]
        for p, memory in dict.items(self._state):  # what a program has put beside it
            place = self._places().get(id(p))
            if place is None:
                packed[p] = memory
                continue
            number = sum(len(g["params"]) for g in self.param_groups[:place[0]]) + place[1]
            known = packed.get(number, {})
            more = {k: v for k, v in memory.items() if k not in known}
            if more:
                packed[number] = {**known, **more}
        return packed

    def _take_state(self, state: dict[Any, Any], groups: list[dict[str, Any]]) -> None:
        self._core.load({"state": {k: _tree(v) for k, v in state.items()}, "param_groups": [_tree(g) for g in groups]})
        dict.clear(self._state)
        self._take_more(state)
        for group, loaded in zip(self.param_groups, groups):
            for name, value in loaded.items():
                if name != "params" and not _keepable(value):
                    dict.__setitem__(group, name, value)
        self._rates_pull()


    def _take_more(self, state: dict[Any, Any]) -> None:
        """What a program has put beside C's memory, out of a state that was loaded."""
        params = [p for group in self.param_groups for p in group["params"]]
        for number, given in state.items():
            if not isinstance(number, int) or not isinstance(given, dict) or number >= len(params):
                continue
            memory = self._state[params[number]]
            for name, value in given.items():
                if name not in memory and isinstance(memory, Memory):
                    dict.__setitem__(memory, name, value)
            if not memory:
                dict.pop(self._state, params[number])


def _tree(group: Any) -> Any:
    """The part of a dictionary that C can keep."""
    return {k: v for k, v in group.items() if _keepable(v)} if isinstance(group, dict) else group
