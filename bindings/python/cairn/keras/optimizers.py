"""Optimisers under Keras's names and with its defaults. Each is one of cairn.optim's, made when the weights are known.

    opt = keras.optimizers.Adam(learning_rate=1e-3, clipnorm=1.0)
    opt.apply_gradients(zip(grads, model.trainable_variables))
"""
from __future__ import annotations

from typing import Any, Iterable, Iterator

import cairn
from . import schedules
from .schedules import LearningRateSchedule

__all__ = ["Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "Muon", "Nadam", "Optimizer",
           "RMSprop", "SGD", "deserialize", "get", "schedules", "serialize"]


class Rate(float):
    """A learning rate: a number that can be assigned to."""

    _owner: Any = None

    def assign(self, value: Any) -> None:
        self._owner.learning_rate = value

    def numpy(self) -> float:
        return float(self)

    @property
    def value(self) -> float:
        return float(self)


class Optimizer:
    """What all have in common. params come with the first step: of the model it is compiled into, or of apply()."""

    _class = "SGD"

    def __init__(self, learning_rate: Any = 0.001, weight_decay: float | None = None, clipnorm: float | None = None,
                 clipvalue: float | None = None, global_clipnorm: float | None = None, use_ema: bool = False,
                 name: str | None = None, gradient_accumulation_steps: int | None = None, lr: Any = None,
                 **options: Any) -> None:
        for unused in ("ema_momentum", "ema_overwrite_frequency", "jit_compile", "loss_scale_factor"):
            options.pop(unused, None)
        unknown = [k for k in options if not k.startswith("_")]
        if unknown:
            raise TypeError("%s has no argument %r" % (type(self).__name__, unknown[0]))
        if use_ema:
            raise ValueError("use_ema: take cairn.optim.swa_utils.AveragedModel instead")
        self.name = name or type(self).__name__.lower()
        self.options = {k[1:]: v for k, v in options.items()}
        self.weight_decay, self.clipnorm, self.clipvalue = weight_decay, clipnorm, clipvalue
        self.global_clipnorm, self.accumulate = global_clipnorm, gradient_accumulation_steps or 1
        self.schedule: LearningRateSchedule | None = None
        self.rate = 0.0
        self.inner: Any = None
        self.count = self.waiting = 0
        self._model: Any = None
        self.learning_rate = learning_rate if lr is None else lr

    # ---- the rate ----
    @property
    def learning_rate(self) -> Any:
        made = Rate(self.schedule(self.count) if self.schedule is not None else self.rate)
        made._owner = self
        return made

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if callable(value):
            self.schedule = value if isinstance(value, LearningRateSchedule) else _Called(value)
            value = self.schedule(self.count)
        else:
            self.schedule = None
        self.rate = float(value)
        self._set(self.rate)

    lr = learning_rate

    def _set(self, rate: float) -> None:
        for group in self.inner.param_groups if self.inner is not None else ():
            group["lr"] = rate

    @property
    def iterations(self) -> int:
        return self.count

    @property
    def param_groups(self) -> Any:
        return [] if self.inner is None else self.inner.param_groups

    # ---- steps ----
    def build(self, variables: Iterable[Any]) -> None:
        """Makes the optimiser of these weights."""
        weights = [_tensor(v) for v in variables]
        if not weights:
            raise ValueError("there are no weights to train: all are frozen, or the model has none")
        make = getattr(cairn.optim, self._class, None)
        if make is None:
            raise NotImplementedError("cairn.optim has no %s" % self._class)
        self.inner = make(weights, lr=float(self.learning_rate), **self.options)
        self._known = {id(w) for w in weights}

    def step_on(self, weights: list[Any]) -> None:
        """A step for these weights, whose gradients are in their grad."""
        if self.inner is None:
            self.build(weights)
        new = [w for w in weights if id(w) not in self._known]
        if new:
            self.inner.add_param_group({"params": new})
            self._known.update(id(w) for w in new)
        if self.accumulate > 1 and not self._gathered(weights):
            return
        if self.schedule is not None:
            self._set(self.schedule(self.count))
        utils = cairn.nn.utils
        if self.clipvalue is not None:
            utils.clip_grad_value_(weights, self.clipvalue)
        if self.clipnorm is not None:
            for w in weights:
                utils.clip_grad_norm_([w], self.clipnorm)
        if self.global_clipnorm is not None:
            utils.clip_grad_norm_(weights, self.global_clipnorm)
        if self.weight_decay and self._class != "AdamW":
            with cairn.no_grad():
                for w in weights:
                    if w.grad is not None:
                        w.mul_(1.0 - float(self.learning_rate) * self.weight_decay)
        self.inner.step()
        self.count += 1
        with cairn.no_grad():
            for w in weights:
                if getattr(w, "constraint", None) is not None:
                    w.copy_(w.constraint(w.detach()))

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

    def apply(self, grads: Iterable[Any], trainable_variables: Iterable[Any] | None = None) -> None:
        """A step with these gradients."""
        if trainable_variables is None:
            if self._model is None:
                raise ValueError("apply() needs the variables that the gradients are of")
            trainable_variables = self._model.trainable_variables
        weights = [_tensor(v) for v in trainable_variables]
        for w, g in zip(weights, grads):
            w.grad = None if g is None else g.detach()
        self.step_on(weights)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Any]]) -> None:
        pairs = list(grads_and_vars)
        self.apply([g for g, _ in pairs], [v for _, v in pairs])

    def minimize(self, loss: Any, var_list: Iterable[Any]) -> None:
        """Backward and a step; loss: a tensor, or a function that computes it."""
        weights = [_tensor(v) for v in var_list]
        for w in weights:
            w.grad = None
        (loss() if callable(loss) else loss).backward()
        self.step_on(weights)

    def zero_grad(self, set_to_none: bool = True) -> None:
        if self.inner is not None:
            self.inner.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        return {"iterations": self.count, "rate": self.rate,
                "optimizer": None if self.inner is None else self.inner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.rate = int(state["iterations"]), float(state["rate"])
        if state["optimizer"] is not None:
            if self.inner is None and self._model is not None:
                self.build([p for p in self._model.parameters() if p.requires_grad])
            if self.inner is None:
                raise ValueError("call build(variables) before load_state_dict")
            self.inner.load_state_dict(state["optimizer"])

    def get_config(self) -> dict[str, Any]:
        rate = schedules.serialize(self.schedule) if self.schedule is not None else self.rate
        return {"name": self.name, "learning_rate": rate, "weight_decay": self.weight_decay, "clipnorm": self.clipnorm,
                "clipvalue": self.clipvalue, "global_clipnorm": self.global_clipnorm, **self._given()}

    def _given(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        config = dict(config)
        if isinstance(config.get("learning_rate"), dict):
            config["learning_rate"] = schedules.deserialize(config["learning_rate"])
        return cls(**config)

    def __repr__(self) -> str:
        return "<%s learning_rate=%g>" % (type(self).__name__, self.learning_rate)


class _Called(LearningRateSchedule):
    """A function of no arguments as a rate."""

    def __init__(self, f: Any) -> None:
        self.f = f

    def __call__(self, step: Any) -> float:
        return float(self.f())


def _tensor(variable: Any) -> Any:
    return variable if isinstance(variable, cairn.Tensor) else variable.value


class SGD(Optimizer):
    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False, **common: Any) -> None:
        super().__init__(learning_rate, _momentum=momentum, _nesterov=nesterov and momentum > 0, **common)
        self.momentum, self.nesterov = momentum, nesterov

    def _given(self) -> dict[str, Any]:
        return {"momentum": self.momentum, "nesterov": self.nesterov}


class RMSprop(Optimizer):
    _class = "RMSprop"

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7,
                 centered: bool = False, **common: Any) -> None:
        super().__init__(learning_rate, _alpha=rho, _momentum=momentum, _eps=epsilon, _centered=centered, **common)
        self.config = {"rho": rho, "momentum": momentum, "epsilon": epsilon, "centered": centered}

    def _given(self) -> dict[str, Any]:
        return self.config


class Adam(Optimizer):
    _class = "Adam"

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 amsgrad: bool = False, **common: Any) -> None:
        super().__init__(learning_rate, _betas=(beta_1, beta_2), _eps=epsilon, _amsgrad=amsgrad, **common)
        self.config = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon, "amsgrad": amsgrad}

    def _given(self) -> dict[str, Any]:
        return self.config


class AdamW(Adam):
    _class = "AdamW"

    def __init__(self, learning_rate: Any = 0.001, weight_decay: float = 0.004, beta_1: float = 0.9,
                 beta_2: float = 0.999, epsilon: float = 1e-7, amsgrad: bool = False, **common: Any) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **common)
        self.options["weight_decay"] = weight_decay


class Nadam(Optimizer):
    _class = "NAdam"

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 **common: Any) -> None:
        super().__init__(learning_rate, _betas=(beta_1, beta_2), _eps=epsilon, **common)
        self.config = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}

    def _given(self) -> dict[str, Any]:
        return self.config


class Adamax(Nadam):
    _class = "Adamax"


class Adagrad(Optimizer):
    _class = "Adagrad"

    def __init__(self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
                 **common: Any) -> None:
        super().__init__(learning_rate, _initial_accumulator_value=initial_accumulator_value, _eps=epsilon, **common)
        self.config = {"initial_accumulator_value": initial_accumulator_value, "epsilon": epsilon}

    def _given(self) -> dict[str, Any]:
        return self.config


class Adadelta(Optimizer):
    _class = "Adadelta"

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: float = 1e-7, **common: Any) -> None:
        super().__init__(learning_rate, _rho=rho, _eps=epsilon, **common)
        self.config = {"rho": rho, "epsilon": epsilon}

    def _given(self) -> dict[str, Any]:
        return self.config


class Adafactor(Optimizer):
    _class = "Adafactor"

    def __init__(self, learning_rate: Any = 0.001, beta_2_decay: float = -0.8, clip_threshold: float = 1.0,
                 **common: Any) -> None:
        super().__init__(learning_rate, _beta2_decay=beta_2_decay, _d=clip_threshold, **common)


class Lion(Optimizer):
    _class = "Lion"

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.99, **common: Any) -> None:
        super().__init__(learning_rate, _betas=(beta_1, beta_2), **common)


class Muon(Optimizer):
    _class = "Muon"


_classes: dict[str, type[Optimizer]] = {c.__name__.lower(): c for c in (
    SGD, RMSprop, Adam, AdamW, Nadam, Adamax, Adagrad, Adadelta, Adafactor, Lion, Muon)}


def _all() -> Iterator[str]:
    return iter(sorted(_classes))


def get(identifier: Any) -> Any:
    """The optimiser of a name or configuration; others are themselves."""
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, type) and issubclass(identifier, Optimizer):
        return identifier()
    if not isinstance(identifier, str):
        return identifier
    made = _classes.get(identifier.lower())
    if made is None:
        raise ValueError("unknown optimizer %r; there are %s" % (identifier, ", ".join(_all())))
    return made()


def serialize(optimizer: Optimizer) -> dict[str, Any]:
    return {"class_name": type(optimizer).__name__, "config": optimizer.get_config()}


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Any:
    return _classes[config["class_name"].lower()].from_config(config["config"])
