"""Seeds and generators of random numbers.

cairn's random numbers are counted, not chained: a state is a seed and how many numbers were drawn from it. Every
thread has a state of its own, so threads do not disturb each other and need no lock. `default_generator` stands for
the state of the calling thread. `manual_seed` starts that thread afresh, and a thread that draws for the first time
later gets a stream of its own, made from the last seed given in any thread and its turn among them: a program that
seeds once and then starts its threads one after the other repeats. Threads that have already drawn keep their
numbers. A process that never seeds starts from a seed of the operating system, which `initial_seed` tells; the
environment variable CAIRN_SEED takes its place.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator

from . import _C
from ._tensor import Tensor

__all__ = ["Generator", "default_generator", "manual_seed", "seed", "initial_seed", "get_rng_state", "set_rng_state",
           "fork_rng"]

Generator = _C.Generator
default_generator = _C.default_generator


def manual_seed(seed: int) -> Generator:
    """Starts the random numbers of this thread, and of threads that begin to draw later, from a seed.

    Any integer of 64 bits; negative ones count from the top. Returns the default generator."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Starts this thread's random numbers from a seed that cannot be foretold, and returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that this thread's random numbers were started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of this thread's random numbers, a tensor of bytes."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Goes on from a state that get_rng_state returned."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True,
             device_type: str = "cuda") -> Iterator[None]:  # unused: devices, device_type (all draw from one state)
    """What is drawn inside leaves the random numbers outside as they were. cairn draws on every device from the same
    state, so `devices` needs no list."""
    if not enabled:
        yield
        return
    state = _C._random_state()
    try:
        yield
    finally:
        _C._random_set_state(*state)
