"""cairn.accelerator.random: the state of the accelerator's random numbers: cairn.cuda's functions."""
from ..cuda import get_rng_state as get_rng_state, get_rng_state_all as get_rng_state_all, initial_seed as initial_seed

__all__ = ["get_rng_state", "get_rng_state_all", "initial_seed"]
