"""cairn.optim.swa_utils: averages of a model's parameters over training (SWA, EMA), and their rate schedule."""
from __future__ import annotations

from copy import deepcopy
from typing import Any, Callable, Iterable, Sequence

import cairn

from .. import _C
from .._modes import no_grad
from .._tensor import Tensor
from ._schedules import SWALR as SWALR

__all__ = ["AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
           "update_bn"]

_One = Callable[[Tensor, Tensor, Any], Tensor]
_Many = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


class _Average:
    """A rule that C knows: an exponential average with a decay, or the mean (0)."""

    def __init__(self, decay: float) -> None:
        self.decay = decay

    def weight(self, count: Any) -> float:
        return 1 - self.decay if self.decay else 1 / (int(count) + 1)


class _AverageOne(_Average):
    @no_grad()
    def __call__(self, averaged: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        return averaged.lerp(current, self.weight(num_averaged))


class _AverageMany(_Average):
    @no_grad()
    def __call__(self, averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        weight = self.weight(num_averaged)
        for a, c in zip(averaged, current):
            a.lerp_(c, weight) if a.is_floating_point() else a.copy_(c)


def _checked(decay: float) -> float:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
    return decay


def get_ema_multi_avg_fn(decay: float = 0.999) -> _Many:
    """An exponential average, for AveragedModel(multi_avg_fn=...)."""
    return _AverageMany(_checked(decay))


def get_swa_multi_avg_fn() -> _Many:
    """The mean, for AveragedModel(multi_avg_fn=...)."""
    return _AverageMany(0.0)


def get_ema_avg_fn(decay: float = 0.999) -> _One:
    """An exponential average, for AveragedModel(avg_fn=...)."""
    return _AverageOne(_checked(decay))


def get_swa_avg_fn() -> _One:
    """The mean, for AveragedModel(avg_fn=...)."""
    return _AverageOne(0.0)


class AveragedModel(cairn.nn.Module):
    """A copy of a model whose parameters are averages of the model's at each update_parameters(model); with
    use_buffers its buffers as well, else they are the model's latest. A rule of one's own: avg_fn(averaged, current,
    num_averaged) for one tensor, or multi_avg_fn for lists of them, in place."""

    n_averaged: Tensor

    def __init__(self, model: Any, device: Any = None, avg_fn: _One | None = None, multi_avg_fn: _Many | None = None,
                 use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", cairn.tensor(0, dtype=cairn.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Any) -> None:
        """Takes the model's parameters into the averages."""
        rule = self.multi_avg_fn if self.avg_fn is None else self.avg_fn
        if rule is None or isinstance(rule, _Average):
            _C._average(self.module, model, rule.decay if rule is not None else 0.0, self.n_averaged, self.use_buffers)
        else:
            self._update_by(model, int(self.n_averaged.item()))
        self.n_averaged += 1

    def _update_by(self, model: Any, count: int) -> None:
        """By a rule of the program's own."""
        ours, theirs = list(self.module.parameters()), list(model.parameters())
        buffers = list(zip(self.module.buffers(), model.buffers()))
        if self.use_buffers:
            ours, theirs = ours + [a for a, _ in buffers], theirs + [b for _, b in buffers]
        else:
            for a, b in buffers:
                a.copy_(b)
        theirs = [b.detach().to(a.device) for a, b in zip(ours, theirs)]
        if count == 0:
            for a, b in zip(ours, theirs):
                a.copy_(b)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn([a.detach() for a in ours], theirs, self.n_averaged)
        elif self.avg_fn is not None:
            for a, b in zip(ours, theirs):
                a.copy_(self.avg_fn(a.detach(), b, self.n_averaged))


@no_grad()
def update_bn(loader: Iterable[Any], model: Any, device: Any = None) -> None:
    """Running means and variances of the model's batch norms, anew from one pass over the data."""
    norms = {m: m.momentum for m in model.modules() if hasattr(m, "reset_running_stats") and hasattr(m, "momentum")}
    if not norms:
        return
    was_training = model.training
    model.train()
    for m in norms:
        m.reset_running_stats()
        m.momentum = None  # the mean of all batches
    for batch in loader:
        x = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(x.to(device) if device is not None else x)
    for m, momentum in norms.items():
        m.momentum = momentum
    model.train(was_training)
