"""What compile() was told: the optimiser, losses and metrics behind names, for one output or several.

Place in the flow: Trainer.compile() makes it, the steps of model.py ask it. cairn.keras derives one that knows Keras's
names; objects of Keras's take part by what they can do: an optimiser has step_on(weights), a loss call() and a
reduction, a metric update_state()."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from .. import nn
from .._arguments import refused
from . import losses, metrics, optimizers
from .batches import count, to_tensor
from .metrics import Mean, Metric

__all__ = ["Compiled", "Together", "detached"]


def _torch_style(f: Any) -> bool:
    """Whether a function is one of cairn.nn.functional or the op table, which take (output, target)."""
    home = getattr(f, "__module__", "") or ""
    return home.startswith(("cairn.nn", "cairn._C", "torch.nn")) or home == "cairn"


def _weighted(values: Any, weight: Any) -> Any:
    """The mean of losses of samples, each as often as its weight says."""
    if weight is not None and values.ndim == 0:
        raise ValueError("sample_weight and class_weight need a loss for each sample: use a loss by name, one of "
                         "cairn.keras.losses, or a module with reduction='none'")
    return losses.reduced(values, weight)


def _side_by_side(y: Any, p: Any) -> tuple[Any, Any]:
    """Targets as Keras hands them to a function: in the outputs' type, (N) beside (N, 1) as (N, 1)."""
    if not isinstance(y, cairn.Tensor) or not isinstance(p, cairn.Tensor):
        return y, p
    if p.dtype.is_floating_point and y.dtype != p.dtype:
        y = y.to(p.dtype)
    if p.ndim == y.ndim + 1 and p.shape[-1] == 1:
        return (y.unsqueeze(-1), p) if y.ndim == 1 else (y, p.squeeze(-1))
    if y.ndim == p.ndim + 1 and y.shape[-1] == 1:
        return (y, p.unsqueeze(-1)) if p.ndim == 1 else (y.squeeze(-1), p)
    return y, p


class _OfCairn(Metric):
    """An object of cairn.metrics as one that Model keeps."""

    def __init__(self, metric: Any) -> None:
        super().__init__(str(getattr(metric, "name", type(metric).__name__)))
        self.metric = metric

    def update_state(self, y_true: Any, y_pred: Any = None, sample_weight: Any = None) -> None:
        refused("metric %s" % self.name, "metrics of cairn.metrics count every sample once; weighted_metrics takes "
                "those of cairn.keras.metrics and functions", sample_weight=sample_weight)
        self.metric.update(y_pred.detach(), y_true)

    def result(self) -> Any:
        for name in ("value", "compute", "result"):
            found = getattr(self.metric, name, None)
            if found is not None:
                return found() if callable(found) else found
        raise TypeError("%s has no value" % type(self.metric).__name__)

    def reset_state(self) -> None:
        self.metric.reset()


def _by_output(given: Any, names: list[str] | None, outputs: int) -> list[Any]:
    """What was given for each output: a dictionary by name, a list by place, or one for all."""
    if isinstance(given, dict):
        if names is None:
            names = list(given)
        unknown = [k for k in given if k not in names]
        if unknown:
            raise ValueError("there is no output %r; there are %s" % (unknown[0], ", ".join(names)))
        return [given.get(name) for name in names]
    if isinstance(given, (list, tuple)) and outputs > 1:
        if len(given) != outputs:
            raise ValueError("%d losses or metrics for %d outputs" % (len(given), outputs))
        return list(given)
    return [given] * outputs


class Together(Metric):
    """The metrics of compile() as one: what a train_step of a program's own finds in self.metrics."""

    def __init__(self, compiled: Any) -> None:
        super().__init__("compile_metrics")
        self.compiled = compiled

    @property
    def metrics(self) -> list[Any]:
        return [m for group in self.compiled.found or () for m, _ in group]

    def update_state(self, y_true: Any, y_pred: Any = None, sample_weight: Any = None) -> None:
        self.compiled.update(y_true, y_pred, sample_weight)

    def result(self) -> Any:
        return {m.name: m.result() for m in self.metrics}

    def reset_state(self) -> None:
        for metric in self.metrics:
            metric.reset_state()


def detached(p: Any) -> Any:
    """The numbers alone, with the mask that they came with."""
    made = p.detach()
    mask = getattr(p, "_keras_mask", None)
    if mask is not None:
        setattr(made, "_keras_mask", mask)
    return made


class Compiled:
    """Losses and metrics become functions when the first batch shows how many outputs there are."""

    def __init__(self, model: Any, optimizer: Any, loss: Any, metrics: Any, loss_weights: Any, weighted: Any,
                 scale: bool) -> None:
        self.scale = scale  # whether the loss is scaled under mixed_float16
        self.model, self.loss_given, self.metrics_given = model, loss, metrics
        self.weights_given, self.weighted_given = loss_weights, weighted
        self.loss_mean = self.mean("loss")
        self.parts: list[Mean] = []  # the mean loss of each output when there are several
        self.losses: list[Any] | None = None
        self.found: list[list[tuple[Metric, bool]]] | None = None  # the metrics of each output, and which are weighted
        self.names: list[str] | None = None
        self.has_loss = loss is not None
        self.optimizer: Any = None
        self.set_optimizer(optimizer)
        self._check(loss, metrics)
        self.jit: Any = None  # jit_compile=True: the steps as compiled functions
        self.held: list[tuple[int, Any, int]] | None = None  # losses of outputs, while such a function computes

    def _check(self, loss: Any, metrics: Any) -> None:
        """Names that do not exist are errors of compile(), not of the first batch."""
        if isinstance(loss, str):
            self.named_loss(loss)
        for m in metrics if isinstance(metrics, (list, tuple)) else ():
            if isinstance(m, str):
                self.named_metric(m, None)

    # ---- what names mean: Keras's model has others ----
    def named_loss(self, name: str) -> Any:
        """A function of (target, output), or a loss object."""
        if name not in losses.functions:
            raise ValueError("unknown loss %r; there are %s" % (name, ", ".join(sorted(losses.functions))))
        return losses.functions[name]

    def named_metric(self, name: str, loss: Any) -> Any:
        return metrics.by_name(name, loss)

    def mean(self, name: str) -> Any:
        """What keeps the mean loss."""
        return Mean(name)

    def mean_of(self, f: Callable[..., Any], name: str) -> Any:
        """A function of (target, output) as a metric."""
        return metrics.MeanOf(f, name)

    def named_optimizer(self, given: Any) -> Any:
        """An optimiser, or a function of parameters that makes one."""
        return optimizers.by_name(given) if isinstance(given, str) else given

    # ---- losses and metrics as functions and objects of one kind ----
    def _loss_function(self, given: Any) -> Callable[[Any, Any, Any], Any]:
        """A function of (target, output, weight) that returns a scalar."""
        named = isinstance(given, str)
        given = self.named_loss(given) if named else given
        if hasattr(given, "reduction") and hasattr(given, "call"):
            return lambda y, p, w: given(y, p, sample_weight=w)
        if isinstance(given, nn.Module):
            return lambda y, p, w: _weighted(given(p, y), w)
        if not callable(given):
            raise ValueError("loss must be a name, a module, a function or a Loss, not %r" % (given,))
        as_keras = self.model._target_first
        first = getattr(given, "_target_first", as_keras and not _torch_style(given))
        if named or first and as_keras:
            def whole(y: Any, p: Any, w: Any) -> Any:
                pair = (y, p) if named else _side_by_side(y, p)
                return losses.reduced(given(*pair), w, getattr(p, "_keras_mask", None))
            return whole
        return lambda y, p, w: _weighted(given(y, p) if first else given(p, y), w)

    def _metric_of(self, given: Any, loss: Any) -> Any:
        if isinstance(given, str):
            name, given = given, self.named_metric(given, loss)
            if isinstance(given, Metric):
                given.name = name
        if hasattr(given, "update_state"):
            return given
        if hasattr(given, "update") and hasattr(given, "reset"):
            return _OfCairn(given)
        if not callable(given):
            raise ValueError("a metric must be a name, an object of cairn.metrics or cairn.keras.metrics, or a "
                             "function, not %r" % (given,))
        first = getattr(given, "_target_first", self.model._target_first and not _torch_style(given))
        name = getattr(given, "__name__", type(given).__name__)
        return self.mean_of(given if first else lambda y, p: given(p, y), name)

    # ---- the optimiser ----
    def set_optimizer(self, given: Any) -> None:
        given = self.named_optimizer(given)
        self.make = None
        if not hasattr(given, "step_on") and not hasattr(given, "param_groups"):
            if not callable(given):
                raise ValueError("optimizer must be a name, an Optimizer, or a function of parameters, not %r"
                                 % (given,))
            self.make = given
        if hasattr(given, "step_on"):
            given._model = self.model
        self.optimizer = given

    def _trained(self) -> list[Any]:
        return [p for p in self.model.parameters() if p.requires_grad]

    def prepare(self) -> None:
        """Makes the optimiser of a function of parameters, once there are some."""
        if self.make is not None and (weights := self._trained()):
            self.optimizer, self.make = self.make(weights), None

    def gradients(self, loss: Any) -> bool:
        """Puts the gradients of a loss into the weights; whether there are any."""
        for p in self.model.parameters():
            p.grad = None
        if hasattr(self.optimizer, "scale_loss"):
            loss = self.optimizer.scale_loss(loss)
        if not loss.requires_grad:
            return False  # nothing to train
        loss.backward()
        return True

    def step(self) -> None:
        """An update with the gradients that are there."""
        if hasattr(self.optimizer, "step_on"):
            weights = self._trained()
            if self.optimizer.loss_scale_factor is not None:
                for p in weights:
                    p.grad = None if p.grad is None else p.grad / self.optimizer.loss_scale_factor
            self.optimizer.step_on(weights)
        else:
            self.optimizer.step()

    # ---- figures ----
    def _outputs(self, y: Any, y_pred: Any) -> tuple[list[Any], list[Any]]:
        """Targets and outputs side by side, and the names of the outputs."""
        if isinstance(y_pred, dict):
            self.names = list(y_pred)
            if not isinstance(y, dict):
                y = dict(zip(y_pred, y if isinstance(y, (list, tuple)) else [y] * len(y_pred)))
            return [y.get(k) for k in y_pred], list(y_pred.values())
        if isinstance(y_pred, (list, tuple)) and len(y_pred) > 1:
            if self.names is None:
                self.names = getattr(self.model, "output_names", None) or ["output_%d" % (i + 1)
                                                                          for i in range(len(y_pred))]
            if isinstance(y, dict):
                y = [y.get(name) for name in self.names]
            if not isinstance(y, (list, tuple)):
                y = [y] * len(y_pred)
            return list(y), list(y_pred)
        if isinstance(y, (list, tuple)) and len(y) == 1:
            y = y[0]
        if isinstance(y, dict) and len(y) == 1:
            y = next(iter(y.values()))
        return [y], [y_pred[0] if isinstance(y_pred, (list, tuple)) else y_pred]

    def _weights(self, weight: Any, outputs: int) -> list[Any]:
        if isinstance(weight, dict):
            return [weight.get(name) for name in self.names or weight]
        return list(weight) if isinstance(weight, (list, tuple)) else [weight] * outputs

    def loss(self, y: Any, y_pred: Any, weight: Any) -> Any:
        """The sum of all outputs' losses; None when there is no loss."""
        ys, ps = self._outputs(y, y_pred)
        if self.losses is None:
            given = _by_output(self.loss_given, self.names, len(ps))
            self.losses = [None if one is None else self._loss_function(one) for one in given]
            if sum(f is not None for f in self.losses) > 1:
                self.parts = [self.mean(name + "_loss") for name, f in zip(self.names or (), self.losses)
                              if f is not None]
        total, part = None, 0
        scales = [1.0 if s is None else s for s in _by_output(self.weights_given, self.names, len(ps))]
        for i, (f, t, p, w) in enumerate(zip(self.losses, ys, ps, self._weights(weight, len(ps)))):
            if f is None:
                continue
            if t is None:
                raise ValueError("the loss needs targets: give y, or batches (x, y)")
            value = self._called(f, t, p, w)
            if self.parts:
                self._count_part(part, value.detach(), count(p))
                part += 1
            value = value * scales[i] if scales[i] != 1.0 else value
            total = value if total is None else total + value
        return total

    def _count_part(self, part: int, value: Any, samples: int) -> None:
        """The loss of one of several outputs; a program hands it out, to be counted behind it."""
        if self.held is None:
            self.parts[part].update_state(value, sample_weight=samples)
        else:
            self.held.append((part, value, samples))

    def count_held(self, held: list[tuple[int, Any, int]]) -> None:
        for part, value, samples in held:
            self.parts[part].update_state(value, sample_weight=samples)

    def _called(self, f: Any, y: Any, p: Any, w: Any) -> Any:
        try:
            value = f(y, p, w)
        except (RuntimeError, IndexError, ValueError) as error:
            shape = getattr(y, "shape", None)
            raise type(error)("%s\n(the loss got outputs of shape %s and targets of shape %s)"
                              % (error, tuple(getattr(p, "shape", ())), None if shape is None else tuple(shape))
                              ) from error
        return value.mean() if value.ndim else value

    def update(self, y: Any, y_pred: Any, weight: Any) -> None:
        """Counts a batch in the metrics."""
        if not self.metrics_given and not self.weighted_given:
            self.found = self.found or []
            return
        ys, ps = self._outputs(y, y_pred)
        if self.found is None or len(self.found) != len(ps):
            self._find(len(ps))
        with cairn.no_grad():
            for group, t, p, w in zip(self.found or (), ys, ps, self._weights(weight, len(ps))):
                for metric, uses in group:
                    if t is None:
                        raise ValueError("metrics need targets: give y, or batches (x, y)")
                    metric.update_state(to_tensor(t), detached(p), sample_weight=w if uses else None)

    def _find(self, outputs: int) -> None:
        self.found = [[] for _ in range(outputs)]
        beside = _by_output(self.loss_given, self.names, outputs)
        for given, uses in ((self.metrics_given, False), (self.weighted_given, True)):
            if given is None:
                continue
            alike = isinstance(given, (list, tuple)) and not any(isinstance(g, (list, tuple, dict)) for g in given)
            if outputs == 1 and isinstance(given, (list, tuple)) or alike and len(given) != outputs:
                given = [given] * outputs
            if outputs == 1 and isinstance(given, list) and len(given) == 1:
                given = given[0]
            for i, own in enumerate(_by_output(given, self.names, outputs)):
                for one in own if isinstance(own, (list, tuple)) else () if own is None else (own,):
                    metric = self._metric_of(one, beside[i])
                    if outputs > 1 and self.names is not None:
                        metric.name = "%s_%s" % (self.names[i], metric.name)
                    self.found[i].append((metric, uses))

    def _find_early(self) -> None:
        """Metrics before the first batch, where it is plain what belongs to which output."""
        outputs = getattr(self.model, "_outputs", None)
        if isinstance(outputs, (list, tuple)) and len(outputs) > 1 or isinstance(outputs, dict):
            return
        given = [g for part in (self.metrics_given, self.weighted_given) if isinstance(part, (list, tuple))
                 for g in part]
        if given and not any(isinstance(g, (list, tuple, dict)) for g in given):
            self._find(1)

    def metrics(self, as_one: bool = False) -> list[Any]:
        """The mean loss, those of the outputs, then what compile() was given; as_one: as a single one."""
        if self.found is None:
            self._find_early()
        own = [m for group in self.found or () for m, _ in group]
        if len(self.parts) > 1:
            own.sort(key=lambda m: str(m.name))
        if as_one:
            return [self.loss_mean] + ([Together(self)] if own else []) + list(self.parts)
        return [self.loss_mean] + list(self.parts) + own
