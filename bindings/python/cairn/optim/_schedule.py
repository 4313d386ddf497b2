"""LRScheduler: the base of rate schedules, and Native: those of the library.

Every schedule is one of C, which counts epochs and sets rates; a class derived in Python, of LRScheduler or of one of
the library's, gives C its get_lr() to ask for the next rates. Invariant: rates that a program put into groups are known
to C before a step, and those that C has set are in the groups after it.
"""
from __future__ import annotations

import functools
import warnings
import weakref
from typing import Any, Callable, ClassVar

from .. import _C
from .._tensor import Tensor
from .optimizer import Optimizer


_INNER = ("optimizer", "_core", "_schedulers", "lr_lambdas", "_is_initial", "_get_lr_called_within_step", "_making",
          "_jumping")
_WHOLE = ("num_bad_epochs", "cooldown_counter", "T_cur", "T_i")


def _of_library(method: Any) -> bool:
    """Is it one that the library wrote, not a program?"""
    return str(getattr(method, "__module__", "")).partition(".")[0] == "cairn"


class LRScheduler:
    """Sets the learning rates of an optimiser's groups. Derive from it and write get_lr(), which returns a rate for
    each group from self.last_epoch, self.base_lrs and the groups' present rates."""

    optimizer: Optimizer
    _core: _C.ScheduleBase | None = None
    _get_lr_called_within_step = False  # programs ask whether they are called rightly
    _is_initial = False
    _ordered = True  # has it an order in which it and the optimiser should step?
    _making = _jumping = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self._begin(optimizer, last_epoch, lambda core: _C._schedule_by(core, "LRScheduler", self._asked(), last_epoch),
                    True)

    def _begin(self, optimizer: Optimizer, last_epoch: int, make: Callable[[_C.OptimBase], _C.ScheduleBase],
               asked: bool = False) -> None:
        """Makes the schedule of C, which takes its first step. A class whose get_lr or step is the program's own takes
        it again, its way; asked: C has get_lr already."""
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        for i, group in enumerate(optimizer.param_groups if last_epoch != -1 else ()):
            if "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.optimizer = optimizer
        core = optimizer._rates_push()
        for name in ("last_epoch", "base_lrs", "_last_lr", "_step_count"):
            self.__dict__.pop(name, None)
        rates = tuple(float(group["lr"]) for group in optimizer.param_groups)
        self._making = True
        try:
            made = make(core)
        finally:
            del self._making
        self._core = made
        own_rates = asked or not _of_library(type(self).get_lr)
        if own_rates or (self._ordered and not _of_library(type(self).step)):
            made.rewind(rates, self._asked() if own_rates and not asked else None)
            optimizer._rates_pull()
            self._is_initial = True
            self.step()
            del self._is_initial
        optimizer._rates_pull()

    def _asked(self) -> Callable[[_C.ScheduleBase, int, int], float]:
        """What C calls for a rate: get_lr() once for all groups."""
        who = weakref.ref(self)
        rates: list[float] = []

        def rate(_core: _C.ScheduleBase, _epoch: int, group: int) -> float:
            self = who()
            if self is None:
                raise RuntimeError("the scheduler is gone")
            if self._making:  # the step that counts comes after it
                return float(self.optimizer.param_groups[group]["lr"])
            if group == 0:
                self.optimizer._rates_pull()
                rates[:] = self._answers()
            return rates[group]

        return rate

    def _answers(self) -> list[float]:
        """The rates that get_lr() returns within a step."""
        closed = getattr(self, "_get_closed_form_lr", None) if self._jumping else None
        self._get_lr_called_within_step = True
        try:
            return [float(r) for r in (self.get_lr() if closed is None else closed())]
        finally:
            del self._get_lr_called_within_step

    # ---- what C counts ----

    def _kept(self, name: str, value: Callable[[_C.ScheduleBase], Any], otherwise: Any) -> Any:
        return value(self._core) if self._core is not None else self.__dict__.get(name, otherwise)

    def _keep(self, name: str, value: Any) -> None:
        if self._core is None:
            self.__dict__[name] = value
        else:
            self._core.load({name: value})

    @property
    def last_epoch(self) -> int:
        """The epoch whose rates hold now."""
        epoch: int = self._kept("last_epoch", lambda core: core.epoch(), -1)
        return epoch

    @last_epoch.setter
    def last_epoch(self, epoch: int) -> None:
        self._keep("last_epoch", epoch)

    @property
    def base_lrs(self) -> list[float]:
        """The rates that groups began with."""
        rates: list[float] = self._kept("base_lrs", lambda core: core.base(), [])
        return rates

    @base_lrs.setter
    def base_lrs(self, rates: list[float]) -> None:
        self._keep("base_lrs", [float(r) for r in rates])

    @property
    def _last_lr(self) -> list[float]:
        rates: list[float] = self._kept("_last_lr", lambda core: core.last(), [])
        return rates

    @_last_lr.setter
    def _last_lr(self, rates: list[float]) -> None:
        self._keep("_last_lr", [float(r) for r in rates])

    @property
    def _step_count(self) -> int:
        count: int = self._kept("_step_count", lambda core: core.state()["_step_count"], 0)
        return count

    @_step_count.setter
    def _step_count(self, count: int) -> None:
        self._keep("_step_count", count)

    # ---- steps ----

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one for each group."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """The rates of self.last_epoch; to be written by derived classes."""
        raise NotImplementedError

    def _check_order(self) -> None:
        if self._ordered and self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn("lr_scheduler.step() was called before optimizer.step(): the first learning rate was never "
                          "used. Call optimizer.step() first", UserWarning, stacklevel=3)

    def _run(self, step: Callable[[_C.ScheduleBase], None]) -> None:
        if self._core is None:
            raise RuntimeError(f"{type(self).__name__}: LRScheduler.__init__ was not called")
        self.optimizer._rates_push()
        try:
            step(self._core)
        finally:
            self.optimizer._rates_pull()

    def step(self, epoch: float | None = None) -> None:
        """The rates of the next epoch, or of the one that is given. In captured code: in each run of it."""
        if _C._tracing():
            self._step_in_runs(epoch)
            return
        self._check_order()
        if epoch is None:
            self._run(lambda core: core.step())
        else:
            self._jumping = True
            try:
                self._run(lambda core: core.jump(epoch))
            finally:
                del self._jumping

    def _step_in_runs(self, epoch: float | None) -> None:
        for part in [self, *getattr(self, "_schedulers", ())]:
            if getattr(part, "cycle_momentum", False) and not self.optimizer._cycles():
                raise _C.CaptureError("%s: changes the momentum, which is part of a captured step: step it outside"
                                      % type(part).__name__)
        self.optimizer._rates_push().call_for_rates(functools.partial(self.step, epoch))

    def _formula(self) -> list[float]:
        """The rates of self.last_epoch by C's formula, from those that the groups have."""
        if self._core is None:
            raise RuntimeError(f"{type(self).__name__}: LRScheduler.__init__ was not called")
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                          UserWarning, stacklevel=3)
            self.optimizer._rates_push()
        return self._core.next()

    # ---- state ----

    def _own(self) -> dict[str, Any]:
        """Attributes that a derived class has set."""
        return {k: v for k, v in self.__dict__.items() if k not in _INNER}

    def _counted(self) -> dict[str, Any]:
        """What C counts. Its numbers are floats; those that count are whole here."""
        state = self._core.state() if self._core is not None else {}
        for name in _WHOLE:
            if name in state and float(state[name]).is_integer():
                state[name] = int(state[name])
        return state

    def state_dict(self) -> dict[str, Any]:
        """All but the optimiser."""
        made = {**self._own(), **self._counted()}
        if self._ordered:  # where torch has them
            last = made.pop("_last_lr", [])
            made.update(_is_initial=False, _get_lr_called_within_step=False, _last_lr=last)
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state over. The optimiser's rates come with the optimiser's state."""
        known = self._core.state() if self._core is not None else {}
        if self._core is not None:
            self._core.load({k: v for k, v in state_dict.items() if k in known and k != "_schedulers"})
        self._take({k: v for k, v in state_dict.items() if k not in known and k not in _INNER})

    def _take(self, rest: dict[str, Any]) -> None:
        self.__dict__.update(rest)


class Native(LRScheduler):
    """A schedule of the library; _class is its name there, _settings are its signature's."""

    _class: ClassVar[str]
    _settings: ClassVar[tuple[str, ...]]
    _by_group = ("base_lr", "max_lr", "base_momentum", "max_momentum", "swa_lr", "min_lr")

    def __init__(self, optimizer: Optimizer, given: dict[str, Any]) -> None:
        lists: dict[str, tuple[float, ...]] = {}
        settings = dict(given)
        for name, value in given.items():
            if isinstance(value, Tensor):
                settings[name] = value.item()
            elif name in self._by_group and isinstance(value, (list, tuple)):
                if len(value) != len(optimizer.param_groups):
                    raise ValueError(f"expected {len(optimizer.param_groups)} values for {name}, got {len(value)}")
                lists[name] = tuple(float(v) for v in value)
                settings[name] = lists[name][0]
            elif name == "milestones":
                settings[name] = [int(v) for v in value]
        self._begin(optimizer, given.get("last_epoch", -1),
                    lambda core: _C._schedule(core, self._class, settings, lists))

    def get_lr(self) -> list[float]:
        """The rates of self.last_epoch, from those that the groups have: for derived classes to begin with."""
        return self._formula()

    def _take(self, rest: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in rest.items() if k in self.__dict__})

    # Settings (scheduler.gamma) and numbers (scheduler.T_cur) are C's.
    def __getattr__(self, name: str) -> Any:
        core = self.__dict__.get("_core")
        if core is not None and not name.startswith("__"):
            state = self._counted()
            if name in state:
                return state[name]
            if name in self._settings:
                return None
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._settings and name != "last_epoch" and self._core is not None:
            self._core.load({name: value})
        else:
            object.__setattr__(self, name, value)
