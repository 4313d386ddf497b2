"""cairn.optim.lr_scheduler: schedules of learning rates.

They are the library's (_schedules.py). Here are those that take functions or other schedules, and those whose arguments
are more than a signature.
"""
from __future__ import annotations

from types import FunctionType
from typing import Any, Callable, Iterable, Sequence

from .. import _C
from .._arguments import refused
from . import _schedules
from ._schedule import LRScheduler as LRScheduler
from ._schedules import (ConstantLR as ConstantLR, CosineAnnealingLR as CosineAnnealingLR,
                         CosineAnnealingWarmRestarts as CosineAnnealingWarmRestarts, ExponentialLR as ExponentialLR,
                         LinearLR as LinearLR, MultiStepLR as MultiStepLR, OneCycleLR as OneCycleLR,
                         PolynomialLR as PolynomialLR, StepLR as StepLR, WarmupCosineLR as WarmupCosineLR)
from .optimizer import Optimizer

__all__ = ["ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
           "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR",
           "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR", "WarmupCosineLR"]

_LRScheduler = LRScheduler  # its name in older programs
_Factor = Callable[[int], float]


# ---- by functions ----

class _ByFunctions(LRScheduler):
    """A function of the epoch for all groups, or a list with one for each."""

    def __init__(self, optimizer: Optimizer, lr_lambda: _Factor | Sequence[_Factor], last_epoch: int = -1) -> None:
        if isinstance(lr_lambda, (list, tuple)):
            if len(lr_lambda) != len(optimizer.param_groups):
                raise ValueError(f"expected {len(optimizer.param_groups)} lr_lambdas, but got {len(lr_lambda)}")
            functions: list[_Factor] = list(lr_lambda)
        else:
            functions = [lr_lambda] * len(optimizer.param_groups)  # type: ignore[list-item]
        self.lr_lambdas = functions

        def factor(_core: _C.ScheduleBase, epoch: int, group: int) -> float:
            return float(functions[group](epoch))

        self._begin(optimizer, last_epoch,
                    lambda core: _C._schedule_by(core, type(self)._kind, factor, last_epoch))

    _kind = ""

    def get_lr(self) -> list[float]:
        """The rates of self.last_epoch: for derived classes to begin with."""
        return self._formula()

    def state_dict(self) -> dict[str, Any]:
        """All but the optimiser and functions; of objects that can be called, their attributes."""
        kept = [None if isinstance(f, FunctionType) or not hasattr(f, "__dict__") else dict(vars(f))
                for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for f, kept in zip(self.lr_lambdas, state_dict.get("lr_lambdas", ())):
            if kept is not None:
                vars(f).update(kept)


class LambdaLR(_ByFunctions):
    """The initial rate times lr_lambda(epoch)."""

    _kind = "LambdaLR"


class MultiplicativeLR(_ByFunctions):
    """The last rate times lr_lambda(epoch)."""

    _kind = "MultiplicativeLR"


# ---- of others ----

class _OfOthers(LRScheduler):
    """Schedules that belong to one optimiser. They are parts of this one from now on."""

    _ordered = False

    def _join(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler],
              milestones: list[int] | None) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler")
        whose = schedulers[0].optimizer if optimizer is None else optimizer
        cores: list[_C.ScheduleBase] = []
        for i, part in enumerate(schedulers):
            if not hasattr(part, "optimizer"):
                raise TypeError(f"{name}: the scheduler at index {i} has no optimizer")
            if isinstance(part, ReduceLROnPlateau):
                raise ValueError(f"{name} does not support ReduceLROnPlateau, whose step needs a metric; there is one "
                                 f"at index {i}")
            if part.optimizer is not whose:
                raise ValueError(f"{name} expects all schedulers to belong to the same optimizer; the one at index {i} "
                                 "belongs to another")
            if part._core is None:
                raise TypeError(f"{name}: the scheduler at index {i} did not call LRScheduler.__init__")
            cores.append(part._core)
        self._schedulers = list(schedulers)
        self._begin(whose, -1, lambda core: _C._schedule_of(core, tuple(cores), milestones))

    def get_lr(self) -> list[float]:
        """The rates that hold now."""
        return self.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """With the states of all parts."""
        return {**super().state_dict(), "_schedulers": [part.state_dict() for part in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        parts = state_dict["_schedulers"]
        if len(parts) != len(self._schedulers):
            raise ValueError("the state is of a scheduler with another number of parts")
        for part, state in zip(self._schedulers, parts):
            part.load_state_dict(state)
        if self._core is not None:
            now = self._core.state()
            self._core.load({k: now[k] if k == "_schedulers" else state_dict.get(k, now[k]) for k in now})

    def _keep(self, name: str, value: Any) -> None:
        if self._core is not None:
            self._core.load({name: value, "_schedulers": self._core.state()["_schedulers"]})


class ChainedScheduler(_OfOthers):
    """All schedules at once, in order."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._join(optimizer, schedulers, None)


class SequentialLR(_OfOthers):
    """One schedule after the other; the next ones take over at these epochs."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Iterable[int],
                 last_epoch: int = -1) -> None:
        refused("SequentialLR", "it begins where its schedules do", -1, last_epoch=last_epoch)
        self._milestones = [int(m) for m in milestones]
        if schedulers and len(self._milestones) != len(schedulers) - 1:
            raise ValueError(f"SequentialLR expects one milestone less than schedulers, but got {len(schedulers)} "
                             f"schedulers and {len(self._milestones)} milestones")
        self._join(optimizer, schedulers, self._milestones)


# ---- with more than a signature ----

class CyclicLR(_schedules.CyclicLR):
    """Up and down between base_lr and max_lr; mode triangular, triangular2 (each cycle half as high) or exp_range;
    or as high as scale_fn says, of the cycle or (scale_mode "iterations") of the epoch."""

    def __init__(self, optimizer: Optimizer, base_lr: float | Sequence[float], max_lr: float | Sequence[float],
                 step_size_up: int = 2000, step_size_down: int | None = None, mode: str = "triangular",
                 gamma: float = 1.0, scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle",
                 cycle_momentum: bool = True, base_momentum: float | Sequence[float] = 0.8,
                 max_momentum: float | Sequence[float] = 0.9, last_epoch: int = -1) -> None:
        super().__init__(optimizer, base_lr, max_lr, int(step_size_up),
                         None if step_size_down is None else int(step_size_down), mode, gamma, cycle_momentum,
                         base_momentum, max_momentum, last_epoch)
        if scale_fn is not None and self._core is not None:
            self._core.scale_by(scale_fn, scale_mode != "cycle")

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_scale_fn_custom": None}


class ReduceLROnPlateau(_schedules.ReduceLROnPlateau):
    """The rate times factor when a metric has not got better for more than patience epochs: step(metric)."""

    _ordered = False

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """The rates after an epoch that ended with this metric, a number or a tensor of one element."""
        refused("ReduceLROnPlateau.step", "steps are counted", epoch=epoch)
        value = float(metrics)
        self._run(lambda core: core.step_metric(value))

    @property
    def in_cooldown(self) -> bool:
        """Is it waiting after a reduction?"""
        return bool(self.cooldown_counter > 0)
