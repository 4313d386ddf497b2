"""keras.backend and keras.config: the settings that programs ask for."""
from __future__ import annotations

from typing import Any

import cairn

__all__ = ["backend", "clear_session", "dtype_of", "epsilon", "floatx", "get_value", "image_data_format",
           "is_keras_tensor", "set_floatx", "set_value"]

_counts: dict[str, int] = {}  # how many names of a kind were given


def backend() -> str:
    return "cairn"


def floatx() -> str:
    return str(cairn.get_default_dtype()).rpartition(".")[2]


def set_floatx(value: str) -> None:
    if value not in ("float16", "bfloat16", "float32", "float64"):
        raise ValueError("floatx is float16, bfloat16, float32 or float64, not %r" % (value,))
    cairn.set_default_dtype(getattr(cairn, value))


def epsilon() -> float:
    return 1e-7


def image_data_format() -> str:
    return "channels_last"


def clear_session(free_memory: bool = True) -> None:
    """Names of layers begin again."""
    _counts.clear()


def dtype_of(value: Any) -> Any:
    """A dtype of its name; None: the default."""
    if value is None:
        return cairn.get_default_dtype()
    return getattr(cairn, value) if isinstance(value, str) else value


def unique_name(base: str) -> str:
    """dense, dense_1, dense_2, ..."""
    n = _counts.get(base, 0)
    _counts[base] = n + 1
    return base if n == 0 else "%s_%d" % (base, n)


def get_value(x: Any) -> Any:
    return x.numpy() if hasattr(x, "numpy") else x


def set_value(x: Any, value: Any) -> None:
    x.assign(value)


def is_keras_tensor(x: Any) -> bool:
    from ._graph import KerasTensor
    return isinstance(x, KerasTensor)
