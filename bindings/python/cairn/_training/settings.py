"""Settings of training that programs may change through cairn.keras: read here, set there."""
from __future__ import annotations

__all__ = ["epsilon", "interactive", "set_epsilon", "set_interactive"]

_kept: dict[str, float] = {"epsilon": 1e-7, "interactive": 1.0}


def epsilon() -> float:
    """How near probabilities come to 0 and 1, and what keeps divisors from 0."""
    return _kept["epsilon"]


def set_epsilon(value: float) -> None:
    _kept["epsilon"] = float(value)


def interactive() -> bool:
    """Whether fit() and its kin show a bar when they are not told otherwise."""
    return bool(_kept["interactive"])


def set_interactive(value: bool) -> None:
    _kept["interactive"] = float(value)
