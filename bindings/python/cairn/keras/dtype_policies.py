"""DTypePolicy: in which type layers compute and in which they keep weights; "mixed_bfloat16" and "mixed_float16"
compute in 16 bits, by cairn.autocast, and keep float32."""
from __future__ import annotations

from typing import Any

import cairn
from . import backend

__all__ = ["DTypePolicy", "FloatDTypePolicy", "deserialize", "get", "serialize"]


class DTypePolicy:
    """name: a type, or mixed_float16 or mixed_bfloat16."""

    def __init__(self, name: str | None = None) -> None:
        name = backend.floatx() if name is None else str(name)
        mixed = name.startswith("mixed_")
        kind = name.removeprefix("mixed_")
        if not isinstance(getattr(cairn, kind, None), cairn.dtype) or mixed and kind not in ("float16", "bfloat16"):
            raise ValueError("unknown policy %r: a type, mixed_float16 or mixed_bfloat16" % (name,))
        self._name, self._compute = name, kind
        self._variable = "float32" if mixed else kind

    @property
    def name(self) -> str:
        return self._name

    @property
    def compute_dtype(self) -> str:
        return self._compute

    @property
    def variable_dtype(self) -> str:
        return self._variable

    @property
    def mixed(self) -> bool:
        return self._compute != self._variable

    quantization_mode = None

    def get_config(self) -> dict[str, Any]:
        return {"name": self._name}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DTypePolicy) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)

    def __repr__(self) -> str:
        return '<DTypePolicy "%s">' % self._name


FloatDTypePolicy = DTypePolicy
_global: list[DTypePolicy | None] = [None]


def dtype_policy() -> DTypePolicy:
    """The policy of layers that are not told one."""
    return _global[0] or DTypePolicy()


def set_dtype_policy(policy: Any) -> None:
    made = get(policy)
    if not made.mixed:
        backend.set_floatx(made.name)
    _global[0] = made if made.mixed else None


def get(identifier: Any) -> DTypePolicy:
    if isinstance(identifier, DTypePolicy):
        return identifier
    if isinstance(identifier, dict):
        return DTypePolicy(**identifier["config"])
    return DTypePolicy(identifier)


def serialize(policy: DTypePolicy) -> dict[str, Any]:
    return {"module": "keras", "class_name": "DTypePolicy", "config": policy.get_config(), "registered_name": None}


def deserialize(config: Any, custom_objects: Any = None) -> DTypePolicy:
    own = (custom_objects or {}).get(config.get("class_name")) if isinstance(config, dict) else None
    return get(config) if own is None else own.from_config(config["config"])


class computing:
    """with computing(device): calls inside compute in the type of a mixed policy, where there is one."""

    def __init__(self, device: Any) -> None:
        now = _global[0]
        self.mode = None if now is None else cairn.autocast(str(device).partition(":")[0], getattr(cairn, now._compute))

    def __enter__(self) -> None:
        if self.mode is not None:
            self.mode.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.mode is not None:
            self.mode.__exit__(*error)
