"""Optimisers by name, as compile("adam") means them: cairn.optim's with the rates that Keras has as defaults."""
from __future__ import annotations

from typing import Any, Callable

from .. import optim

__all__ = ["by_name"]

_small = {"lr": 0.001, "eps": 1e-7}
_settings: dict[str, tuple[str, dict[str, Any]]] = {
    "adadelta": ("Adadelta", {**_small, "rho": 0.95}),
    "adafactor": ("Adafactor", {"lr": 0.001}),
    "adagrad": ("Adagrad", {**_small, "initial_accumulator_value": 0.1}),
    "adam": ("Adam", _small),
    "adamax": ("Adamax", _small),
    "adamw": ("AdamW", {**_small, "weight_decay": 0.004}),
    "lion": ("Lion", {"lr": 0.001, "betas": (0.9, 0.99)}),
    "muon": ("Muon", {"lr": 0.001}),
    "nadam": ("NAdam", _small),
    "rmsprop": ("RMSprop", {**_small, "alpha": 0.9}),
    "sgd": ("SGD", {"lr": 0.01})}


def by_name(name: str) -> Callable[[Any], Any]:
    """What makes the optimiser of this name for some parameters."""
    if name.lower() not in _settings:
        raise ValueError("unknown optimizer %r; there are %s" % (name, ", ".join(sorted(_settings))))
    kind, settings = _settings[name.lower()]
    return lambda parameters: getattr(optim, kind)(parameters, **settings)
