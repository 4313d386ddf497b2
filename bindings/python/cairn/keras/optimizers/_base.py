"""Optimizer: what Keras's optimisers have in common. Most hold one of cairn.optim's, made when the weights are known;
a subclass with update_step(gradient, variable, learning_rate) computes for itself.
"""
from __future__ import annotations

from typing import Any, Iterable

import cairn
from ..._arguments import only_speed, refused
from . import schedules
from .schedules import LearningRateSchedule

__all__ = ["Count", "Optimizer", "Rate"]


class Rate(float):
    """A learning rate: a number that can be assigned to."""

    _owner: Any = None
    shape: tuple[int, ...] = ()

    def assign(self, value: Any) -> None:
        self._owner.learning_rate = value

    def numpy(self) -> float:
        return float(self)

    @property
    def value(self) -> float:
        return float(self)


class Count(int):
    """How many steps there were: a number that can be assigned to."""

    _owner: Any = None
    shape: tuple[int, ...] = ()

    def assign(self, value: Any) -> None:
        self._owner.count = int(value)

    def assign_add(self, value: Any) -> None:
        self._owner.count += int(value)

    def numpy(self) -> int:
        return int(self)

    @property
    def value(self) -> int:
        return int(self)


class _Called(LearningRateSchedule):  # unused: step (the schedules' signature)
    """A function of no arguments as a rate."""

    def __init__(self, f: Any) -> None:
        self.f = f

    def __call__(self, step: Any) -> float:
        return float(self.f())


def _tensor(variable: Any) -> Any:
    return variable if isinstance(variable, cairn.Tensor) else variable.value


class Optimizer:
    """What all have in common. params come with the first step: of the model it is compiled into, or of apply()."""

    _class: str | None = None  # the class of cairn.optim

    def __init__(self, learning_rate: Any = 0.001, weight_decay: float | None = None, clipnorm: float | None = None,
                 clipvalue: float | None = None, global_clipnorm: float | None = None, use_ema: bool = False,
                 ema_momentum: float = 0.99, ema_overwrite_frequency: int | None = None,
                 loss_scale_factor: float | None = None, gradient_accumulation_steps: int | None = None,
                 name: str | None = None, lr: Any = None, decay: float | None = None, jit_compile: Any = None,
                 **options: Any) -> None:
        only_speed(type(self).__name__, jit_compile=jit_compile or None)
        unknown = [k for k in options if not k.startswith("_")]
        if unknown:
            raise ValueError("%s has no argument %r" % (type(self).__name__, unknown[0]))
        if sum(c is not None for c in (clipnorm, clipvalue, global_clipnorm)) > 1:
            raise ValueError("one of clipnorm, clipvalue and global_clipnorm can be given, not several")
        self.name = name or type(self).__name__.lower()
        self.options = {k[1:]: v for k, v in options.items()}
        self.weight_decay, self.clipnorm, self.clipvalue = weight_decay, clipnorm, clipvalue
        self.global_clipnorm, self.accumulate = global_clipnorm, gradient_accumulation_steps or 1
        self.gradient_accumulation_steps = gradient_accumulation_steps
        self.use_ema, self.ema_momentum, self.ema_overwrite_frequency = use_ema, ema_momentum, ema_overwrite_frequency
        self.loss_scale_factor = loss_scale_factor
        self.schedule: LearningRateSchedule | None = None
        self.rate = 0.0
        self.inner: Any = None
        self.built = False
        self.count = self.waiting = 0
        self._model: Any = None
        self._variables: list[Any] = []  # those of update_step
        self._weights: list[Any] = []
        self._averages: dict[int, Any] = {}
        self._no_decay: set[int] = set()
        rate = learning_rate if lr is None else lr
        self.learning_rate = schedules.InverseTimeDecay(rate, 1, decay) if decay else rate

    # ---- the rate ----
    @property
    def learning_rate(self) -> Any:
        made = Rate(self.schedule(self.count) if self.schedule is not None else self.rate)
        made._owner = self
        return made

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if isinstance(value, dict):
            value = schedules.deserialize(value)
        elif self.schedule is not None and not callable(value):
            raise TypeError("the learning rate of this optimizer is a schedule, which cannot be set to a number: make "
                            "the optimizer with a number to set it later")
        if callable(value) and not isinstance(value, cairn.Tensor):
            self.schedule = value if isinstance(value, LearningRateSchedule) else _Called(value)
            value = self.schedule(self.count)
        else:
            self.schedule = None
        self._set(float(value))

    lr = learning_rate

    def _set(self, rate: float) -> None:
        old, self.rate = self.rate, rate
        for group in self.inner.param_groups if self.inner is not None else ():
            group["lr"] = rate
        if self.inner is not None and old != rate and old and rate:
            self._rate_changed(old / rate)

    def _rate_changed(self, ratio: float) -> None:
        """Keras's momentum is of steps, cairn.optim's of gradients: what is remembered changes with the rate."""
        if not self.options.get("momentum"):
            return
        with cairn.no_grad():
            for memory in self.inner.state.values():
                kept = memory.get("momentum_buffer")
                if kept is not None:
                    kept.mul_(ratio)

    @property
    def iterations(self) -> Any:
        made = Count(self.count)
        made._owner = self
        return made

    @property
    def param_groups(self) -> Any:
        return [] if self.inner is None else self.inner.param_groups

    @property
    def variables(self) -> list[Any]:
        """Steps and rate, then what is remembered of each weight."""
        kept = list(self._variables)
        for memory in self.inner.state.values() if self.inner is not None else ():
            kept += [v for k, v in memory.items() if isinstance(v, cairn.Tensor) and k != "step"]
        return [self.iterations] + ([self.learning_rate] if self.schedule is None else []) + kept

    # ---- for subclasses that compute for themselves ----
    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Changes a variable by its gradient. To override."""
        raise NotImplementedError("%s has no method update_step" % type(self).__name__)

    def add_variable_from_reference(self, reference_variable: Any, name: str | None = None,
                                    initializer: Any = "zeros") -> Any:
        """What is remembered of a variable: as large as it."""
        return self.add_variable(tuple(reference_variable.shape), initializer, reference_variable.dtype, name=name)

    def add_variable(self, shape: Any = (), initializer: Any = "zeros", dtype: Any = None, aggregation: Any = None,
                     layout: Any = None, name: str | None = None) -> Any:
        from .. import initializers
        from ..layers.variable import Variable, check_aggregation
        check_aggregation(aggregation)
        refused("add_variable", "variables lie on one device", layout=layout)
        made = Variable(initializers.get(initializer)(tuple(shape), dtype), trainable=False, name=name)
        self._variables.append(made)
        return made

    def add_optimizer_variables(self, trainable_variables: Iterable[Any], name: Any, initializer: Any = "zeros") -> Any:
        names = [name] if isinstance(name, str) else list(name)
        first = [initializer] * len(names) if not isinstance(initializer, (list, tuple)) else initializer
        made = tuple([self.add_variable_from_reference(v, n, i) for v in trainable_variables]
                     for n, i in zip(names, first))
        return made[0] if isinstance(name, str) else made

    def _get_variable_index(self, variable: Any) -> int:
        return next(i for i, w in enumerate(self._weights) if w is variable)

    def assign(self, variable: Any, value: Any) -> None:
        with cairn.no_grad():
            variable.copy_(value)

    def assign_add(self, variable: Any, value: Any) -> None:
        with cairn.no_grad():
            variable.add_(value)

    def assign_sub(self, variable: Any, value: Any) -> None:
        with cairn.no_grad():
            variable.sub_(value)

    # ---- steps ----
    def build(self, variables: Iterable[Any]) -> None:
        """Makes the optimiser of these weights."""
        weights = [_tensor(v) for v in variables]
        if not weights:
            raise ValueError("there are no weights to train: all are frozen, or the model has none")
        self._weights, self.built = weights, True
        self._known = {id(w) for w in weights}
        if self._class is not None and type(self).update_step is Optimizer.update_step:
            self.inner = getattr(cairn.optim, self._class)(weights, lr=float(self.learning_rate), **self.options)

    def _adjust(self) -> None:
        """Before each step: makes what Keras's formula has otherwise than cairn.optim's the same."""

    def _prepare(self, weights: list[Any]) -> None:
        if not self.built:
            self.build(weights)
            self.built = True
        if not self._weights:  # a subclass's build that did not call this one's
            self._weights, self._known = list(weights), {id(w) for w in weights}
        new = [w for w in weights if id(w) not in self._known]
        if new:
            if self.inner is None:
                raise ValueError("%s was built for other variables" % self.name)
            self.inner.add_param_group({"params": new})
            self._weights += new
            self._known.update(id(w) for w in new)

    def step_on(self, weights: list[Any]) -> None:
        """A step for these weights, whose gradients are in their grad."""
        self._prepare(weights)
        if self.accumulate > 1 and not self._gathered(weights):
            return
        if self.schedule is not None:
            self._set(float(self.schedule(self.count)))
        self._clip(weights)
        rate = float(self.learning_rate)
        if self.weight_decay:
            with cairn.no_grad():
                for w in weights:
                    if w.grad is not None and id(w) not in self._no_decay:
                        w.mul_(1.0 - rate * self.weight_decay)
        if self.inner is not None:
            with cairn.no_grad():
                self._adjust()
            self.inner.step()
        else:
            with cairn.no_grad():
                for w in weights:
                    if w.grad is not None:
                        self.update_step(w.grad, w, rate)
        self.count += 1
        self._after(weights)

    def _clip(self, weights: list[Any]) -> None:
        if self.clipvalue is not None:
            cairn.nn.utils.clip_grad_value_(weights, self.clipvalue)
        most = self.clipnorm if self.clipnorm is not None else self.global_clipnorm
        if most is None:
            return
        grads = [w.grad for w in weights if w.grad is not None]
        with cairn.no_grad():
            norms = [g.norm() for g in grads]
            if self.clipnorm is None and norms:
                norms = [cairn.stack(norms).norm()] * len(grads)
            for g, n in zip(grads, norms):
                g.mul_(most / n.clamp(min=most))

    def _after(self, weights: list[Any]) -> None:
        with cairn.no_grad():
            for w in weights:
                if getattr(w, "constraint", None) is not None:
                    w.copy_(w.constraint(w.detach()))
                if self.use_ema:
                    kept = self._averages.get(id(w))
                    if kept is None:
                        self._averages[id(w)] = w.detach().clone()
                    else:
                        kept.mul_(self.ema_momentum).add_(w.detach(), alpha=1.0 - self.ema_momentum)
        if self.use_ema and self.ema_overwrite_frequency and self.count % self.ema_overwrite_frequency == 0:
            self.finalize_variable_values(weights)

    def finalize_variable_values(self, var_list: Iterable[Any]) -> None:
        """With use_ema: weights become their averages."""
        with cairn.no_grad():
            for w in map(_tensor, var_list):
                if id(w) in self._averages:
                    w.copy_(self._averages[id(w)])

    def exclude_from_weight_decay(self, var_list: Iterable[Any] | None = None,
                                  var_names: Iterable[str] | None = None) -> None:
        """These variables, or those whose path has one of the names in it, do not shrink."""
        names = list(var_names or ())
        own = list(var_list or ())
        if names and self._model is not None:
            own += [w for w in self._model.parameters() if any(n in getattr(w, "path", "") for n in names)]
        self._no_decay.update(id(_tensor(w)) for w in own)

    def _gathered(self, weights: list[Any]) -> bool:
        """Adds gradients up; true when those of enough batches are in grad."""
        own = self.__dict__.setdefault("_sums", {})
        for w in weights:
            if w.grad is not None:
                own[id(w)] = w.grad.clone() if id(w) not in own else own[id(w)] + w.grad
        self.waiting += 1
        if self.waiting < self.accumulate:
            return False
        for w in weights:
            if id(w) in own:
                w.grad = own[id(w)] / self.accumulate
        self.waiting = 0
        own.clear()
        return True

    def scale_loss(self, loss: Any) -> Any:
        """What to call backward on: with loss_scale_factor, gradients are divided by it again."""
        return loss if self.loss_scale_factor is None else loss * self.loss_scale_factor

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """A step with these gradients."""
        if trainable_variables is None:
            if self._model is not None:
                trainable_variables = self._model.trainable_variables
            elif self._weights:
                trainable_variables = self._weights
            else:
                raise ValueError("apply() needs the variables that the gradients are of")
        weights = [_tensor(v) for v in trainable_variables]
        for w, g in zip(weights, grads):
            g = None if g is None else g.detach()
            w.grad = g if g is None or self.loss_scale_factor is None else g / self.loss_scale_factor
        self.step_on(weights)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> Any:
        pairs = list(grads_and_vars)
        self.apply([g for g, _ in pairs], [v for _, v in pairs])
        return self.iterations

    def minimize(self, loss: Any, var_list: Iterable[Any], tape: Any = None) -> None:
        """Backward and a step; loss: a tensor, or a function that computes it."""
        variables: Any = var_list() if callable(var_list) else var_list
        weights = [_tensor(v) for v in variables]
        if tape is not None:
            self.apply(tape.gradient(loss, weights), weights)
            return
        for w in weights:
            w.grad = None
        (loss() if callable(loss) and not isinstance(loss, cairn.Tensor) else loss).backward()
        self.step_on(weights)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for w in self._weights:
            w.grad = None if set_to_none or w.grad is None else cairn.zeros_like(w.grad)

    # ---- state and configuration ----
    def state_dict(self) -> dict[str, Any]:
        return {"iterations": self.count, "rate": self.rate, "own": [v.detach().clone() for v in self._variables],
                "optimizer": None if self.inner is None else self.inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if not self.built and self._model is not None:
            self.build([p for p in self._model.parameters() if p.requires_grad])
        if state["optimizer"] is not None:
            if self.inner is None:
                raise ValueError("call build(variables) before load_state_dict")
            self.inner.load_state_dict(state["optimizer"])
        for mine, value in zip(self._variables, state.get("own", ())):
            mine.assign(value)
        self.count, self.rate = int(state["iterations"]), float(state["rate"])

    def get_config(self) -> dict[str, Any]:
        rate = schedules.serialize(self.schedule) if self.schedule is not None else self.rate
        return {"name": self.name, "learning_rate": rate, "weight_decay": self.weight_decay, "clipnorm": self.clipnorm,
                "global_clipnorm": self.global_clipnorm, "clipvalue": self.clipvalue, "use_ema": self.use_ema,
                "ema_momentum": self.ema_momentum, "ema_overwrite_frequency": self.ema_overwrite_frequency,
                "loss_scale_factor": self.loss_scale_factor,
                "gradient_accumulation_steps": self.gradient_accumulation_steps, **self._given()}

    def _given(self) -> dict[str, Any]:
        return dict(self.__dict__.get("config", {}))

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        config = dict(config)
        if isinstance(config.get("learning_rate"), dict):
            config["learning_rate"] = schedules.deserialize(config["learning_rate"], custom_objects)
        return cls(**config)

    def __repr__(self) -> str:
        return "<%s learning_rate=%g>" % (type(self).__name__, self.learning_rate)
