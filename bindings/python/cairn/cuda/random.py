"""cairn.cuda.random: seeds and states. cairn has one stream of random numbers for all devices, so these are the
functions of cairn.random under the names that torch has for CUDA; they need no device.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable

from .. import random as _random
from ._devices import device_count

if TYPE_CHECKING:
    from .._tensor import Tensor

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
           "set_rng_state", "set_rng_state_all"]


def manual_seed(seed: int) -> None:
    """Seeds the random numbers. cairn has one stream of them for all devices: this is cairn.manual_seed."""
    _random.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """The same as manual_seed: the stream does not depend on the device."""
    _random.manual_seed(seed)


def seed() -> None:
    """Starts from a seed that cannot be foretold."""
    _random.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed that the random numbers were started from."""
    return _random.initial_seed()


def get_rng_state(device: Any = "cuda") -> Tensor:  # unused: device (all draw from one state)
    """The state of the random numbers, the same for all devices."""
    return _random.get_rng_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:  # unused: device (all draw from one state)
    """Goes on from a state that get_rng_state returned."""
    _random.set_rng_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """One state per device; they are the same. None where there is no device."""
    return [_random.get_rng_state() for _ in range(device_count())]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Goes on from the states of get_rng_state_all."""
    for state in new_states:
        _random.set_rng_state(state)
