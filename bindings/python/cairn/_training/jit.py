"""A model's steps as compiled functions, for compile(jit_compile=True): forward and loss, and the backward pass where
a step trains, are captured at the first batch of each kind and run as graphs later. What is behind them runs as it is:
the optimiser's update, which has its own numbers, metrics and callbacks.

Place in the flow: Trainer's steps ask here instead of calling the model. Invariant: results are those of the model as
it is, to the bit; what cannot be captured runs as it is, with one warning (cairn.compile)."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from .. import _C
from ..compiler import compile as compiled
from .batches import flatten, mapped
from .compiled import detached

__all__ = ["Jit"]


def _with_masks(y_pred: Any) -> tuple[Any, list[Any]]:
    """Outputs, and the masks that came with them, which a program has to give back as results of their own."""
    return y_pred, [getattr(p, "_keras_mask", None) for p in flatten(y_pred)]


def _masked(y_pred: Any, masks: list[Any]) -> Any:
    for p, mask in zip(flatten(y_pred), masks):
        if mask is not None:
            p._keras_mask = mask
    return y_pred


class Jit:
    def __init__(self, model: Any, own: Any) -> None:
        self.model, self._own = model, [own]  # in a list: programs depend on the model alone
        self._metrics: list[tuple[Any, dict[str, Any]]] = []
        self._learned, self._looked = compiled(self._learn), compiled(self._look)
        self._predicted = compiled(self._predict)

    # ---- what is captured ----
    def _begin(self) -> None:
        """A loss of the program's own may count something in metrics. Numbers of a capture have no values: where it
        does not succeed, what metrics had is put back."""
        if _C._tracing():
            self._metrics = [(metric, dict(vars(metric))) for metric in self.model.metrics]
            return
        for metric, attributes in self._metrics:
            vars(metric).clear()
            vars(metric).update(attributes)
        self._metrics = []

    def _end(self) -> None:
        if _C._tracing() and hasattr(self.model, "_clear_losses"):
            self.model._clear_losses()  # what layers added is in the loss already

    def _loss(self, x: Any, y: Any, weight: Any, training: bool) -> tuple[Any, Any, list[Any]]:
        """Outputs, loss, and the losses of the outputs where there are several."""
        own = self._own[0]
        held: list[Any] = []
        own.held = held
        try:
            y_pred = self.model._predictions(x, training)
            return y_pred, self.model._loss_of(x, y, y_pred, weight, training), held
        finally:
            own.held = None

    def _learn(self, x: Any, y: Any, weight: Any, scale: Any) -> Any:  # unused: scale (another one, another program)
        self._begin()
        y_pred, loss, held = self._loss(x, y, weight, True)
        trains = self._own[0].gradients(loss)
        self._end()
        return _with_masks(mapped(detached, y_pred)), loss.detach(), held, trains

    def _look(self, x: Any, y: Any, weight: Any) -> Any:
        self._begin()
        y_pred, loss, held = self._loss(x, y, weight, False)
        self._end()
        return _with_masks(y_pred), loss, held

    def _predict(self, x: Any) -> Any:
        self._begin()
        y_pred = self.model._predictions(x, False)
        self._end()
        return _with_masks(y_pred)

    # ---- what steps call ----
    def _function(self, fast: Callable[..., Any], plain: Callable[..., Any], *data: Any) -> Callable[..., Any]:
        """The first batch makes weights, as it is; so does what is no tensor (texts)."""
        known = all(leaf is None or isinstance(leaf, cairn.Tensor) for part in data for leaf in flatten(part))
        built = all(getattr(module, "built", True) for module in self.model.modules())
        return fast if known and built else plain

    def learn(self, x: Any, y: Any, weight: Any) -> tuple[Any, Any, bool]:
        """Outputs and loss of a batch, whose gradients are in the weights then; whether there are any."""
        scale = str(getattr(self._own[0].optimizer, "dynamic_scale", None))  # a float would be an input
        run = self._function(self._learned, self._learn, x, y, weight)
        (y_pred, masks), loss, held, trains = run(x, y, weight, scale)
        self._own[0].count_held(held)
        return _masked(y_pred, masks), loss, trains

    def look(self, x: Any, y: Any, weight: Any) -> tuple[Any, Any]:
        """Outputs and loss of a batch, without learning from it."""
        run = self._function(self._looked, self._look, x, y, weight)
        (y_pred, masks), loss, held = run(x, y, weight)
        self._own[0].count_held(held)
        return _masked(y_pred, masks), loss

    def predict(self, x: Any) -> Any:
        return _masked(*self._function(self._predicted, self._predict, x)(x))
