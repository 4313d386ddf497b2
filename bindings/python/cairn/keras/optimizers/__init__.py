"""Optimisers under Keras's names and with its defaults. Each is one of cairn.optim's, made when the weights are known.

    opt = keras.optimizers.Adam(learning_rate=1e-3, clipnorm=1.0)
    opt.apply_gradients(zip(grads, model.trainable_variables))

Where Keras adds epsilon elsewhere than cairn.optim does (under the root, before the correction of the average), the
setting or what is remembered is shifted before each step, so that the numbers are Keras's. Ftrl and Lamb, which the
library does not have, and LossScaleOptimizer are in _more.
"""
from __future__ import annotations

from typing import Any

import cairn
from . import schedules as schedules
from ._base import Optimizer

__all__ = ["Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lamb", "Lion", "LossScaleOptimizer",
           "Muon", "Nadam", "Optimizer", "RMSprop", "SGD", "deserialize", "get", "schedules", "serialize"]


class SGD(Optimizer):
    _class = "SGD"

    def __init__(self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False, **common: Any) -> None:
        if not 0.0 <= momentum <= 1.0:
            raise ValueError("momentum is between 0 and 1, not %r" % (momentum,))
        super().__init__(learning_rate, _momentum=momentum, _nesterov=nesterov and momentum > 0, **common)
        self.momentum, self.nesterov = momentum, nesterov
        self.config = {"momentum": momentum, "nesterov": nesterov}


class RMSprop(Optimizer):
    """cairn.optim's with an epsilon of 0 and averages that have Keras's in them, so that it is under the root."""

    _class = "RMSprop"

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7,
                 centered: bool = False, **common: Any) -> None:
        super().__init__(learning_rate, _alpha=rho, _momentum=momentum, _eps=0.0, _centered=centered, **common)
        self.rho, self.momentum, self.epsilon, self.centered = rho, momentum, epsilon, centered
        self.config = {"rho": rho, "momentum": momentum, "epsilon": epsilon, "centered": centered}

    def _adjust(self) -> None:
        if self.rho <= 0.0:
            return
        for w in self._weights:
            if w.grad is None:
                continue
            memory = self.inner.state.get(w)
            if memory:
                memory["square_avg"].add_((1.0 - self.rho) * self.epsilon / self.rho)
                continue
            first = {"step": cairn.tensor(0.0), "square_avg": cairn.full_like(w, self.epsilon / self.rho)}
            if self.momentum:
                first["momentum_buffer"] = cairn.zeros_like(w)
            if self.centered:
                first["grad_avg"] = cairn.zeros_like(w)
            self.inner.state[w] = first


class Adam(Optimizer):
    _class = "Adam"

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 amsgrad: bool = False, **common: Any) -> None:
        super().__init__(learning_rate, _betas=(beta_1, beta_2), _eps=epsilon, _amsgrad=amsgrad, **common)
        self.beta_1, self.beta_2, self.epsilon, self.amsgrad = beta_1, beta_2, epsilon, amsgrad
        self.config = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon, "amsgrad": amsgrad}

    def _adjust(self) -> None:
        """Keras adds epsilon before the average of squares is corrected."""
        eps = self.epsilon / max(1.0 - self.beta_2 ** (self.count + 1), 1e-30) ** 0.5
        for group in self.inner.param_groups:
            group["eps"] = eps


class AdamW(Adam):
    """Adam, and weights shrink by learning_rate * weight_decay before each step, as all optimisers here can have it."""

    def __init__(self, learning_rate: Any = 0.001, weight_decay: float = 0.004, beta_1: float = 0.9,
                 beta_2: float = 0.999, epsilon: float = 1e-7, amsgrad: bool = False, **common: Any) -> None:
        super().__init__(learning_rate, beta_1, beta_2, epsilon, amsgrad, weight_decay=weight_decay, **common)
        if self.weight_decay is None:
            raise ValueError("AdamW needs a weight_decay")


class Nadam(Optimizer):
    _class = "NAdam"

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 **common: Any) -> None:
        super().__init__(learning_rate, _betas=(beta_1, beta_2), _eps=epsilon, _momentum_decay=1.0, **common)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.config = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}


class Adamax(Optimizer):
    _class = "Adamax"

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 **common: Any) -> None:
        super().__init__(learning_rate, _betas=(beta_1, beta_2), _eps=epsilon, **common)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.config = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}

    def _adjust(self) -> None:
        """cairn.optim's norm has epsilon in it, which fades; Keras adds it to the norm."""
        if self.beta_2 > 0.0:
            for memory in self.inner.state.values():
                memory["exp_inf"].add_((1.0 - self.beta_2) * self.epsilon / self.beta_2)


class Adagrad(Optimizer):
    _class = "Adagrad"

    def __init__(self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
                 **common: Any) -> None:
        super().__init__(learning_rate, _initial_accumulator_value=initial_accumulator_value + epsilon, _eps=0.0,
                         **common)
        self.initial_accumulator_value, self.epsilon = initial_accumulator_value, epsilon
        self.config = {"initial_accumulator_value": initial_accumulator_value, "epsilon": epsilon}


class Adadelta(Optimizer):
    _class = "Adadelta"

    def __init__(self, learning_rate: Any = 0.001, rho: float = 0.95, epsilon: float = 1e-7, **common: Any) -> None:
        super().__init__(learning_rate, _rho=rho, _eps=epsilon, **common)
        self.rho, self.epsilon = rho, epsilon
        self.config = {"rho": rho, "epsilon": epsilon}


class Adafactor(Optimizer):
    _class = "Adafactor"

    def __init__(self, learning_rate: Any = 0.001, beta_2_decay: float = -0.8, epsilon_1: float = 1e-30,
                 epsilon_2: float = 1e-3, clip_threshold: float = 1.0, relative_step: bool = True,
                 **common: Any) -> None:
        super().__init__(learning_rate, _beta2_decay=beta_2_decay, _d=clip_threshold, _eps=(epsilon_1, epsilon_2),
                         _weight_decay=0.0, **common)
        self.config = {"beta_2_decay": beta_2_decay, "epsilon_1": epsilon_1, "epsilon_2": epsilon_2,
                       "clip_threshold": clip_threshold, "relative_step": relative_step}


class Lion(Optimizer):
    _class = "Lion"

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.99, **common: Any) -> None:
        super().__init__(learning_rate, _betas=(beta_1, beta_2), **common)
        self.config = {"beta_1": beta_1, "beta_2": beta_2}


class Muon(Optimizer):
    _class = "Muon"


from ._composed import Ftrl, Lamb  # noqa: E402
from ._loss_scale import LossScaleOptimizer  # noqa: E402

_classes: dict[str, type[Optimizer]] = {c.__name__.lower(): c for c in (
    SGD, RMSprop, Adam, AdamW, Nadam, Adamax, Adagrad, Adadelta, Adafactor, Lion, Muon, Ftrl, Lamb,
    LossScaleOptimizer)}


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
        raise ValueError("unknown optimizer %r; there are %s" % (identifier, ", ".join(sorted(_classes))))
    return made()


def serialize(optimizer: Optimizer) -> dict[str, Any]:
    from ..saving import serialize as serialized
    made: dict[str, Any] = serialized(optimizer)
    return made


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Any:
    from ..saving import _find
    name = config["class_name"]
    kind = _classes.get(name.lower()) or (custom_objects or {}).get(name) or _find(name)
    return kind.from_config(config["config"])


from . import legacy as legacy  # noqa: E402
