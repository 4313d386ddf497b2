"""What weights add to the loss: keras.regularizers."""
from __future__ import annotations

from typing import Any

__all__ = ["L1", "L1L2", "L2", "Regularizer", "get", "l1", "l1_l2", "l2"]


class Regularizer:
    """To subclass with __call__(x), which answers a scalar tensor."""

    def __call__(self, x: Any) -> Any:
        raise NotImplementedError("%s has no method __call__(x)" % type(self).__name__)

    def get_config(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


class L1L2(Regularizer):
    """l1 times the sum of sizes and l2 times that of squares."""

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1, self.l2 = float(l1 or 0.0), float(l2 or 0.0)

    def __call__(self, x: Any) -> Any:
        total = self.l2 * x.square().sum() if self.l2 else 0.0
        return total + self.l1 * x.abs().sum() if self.l1 or not self.l2 else total


class L1(L1L2):
    def __init__(self, l1: float = 0.01) -> None:
        super().__init__(l1=l1)

    def get_config(self) -> dict[str, Any]:
        return {"l1": self.l1}


class L2(L1L2):
    def __init__(self, l2: float = 0.01) -> None:
        super().__init__(l2=l2)

    def get_config(self) -> dict[str, Any]:
        return {"l2": self.l2}


l1, l2 = L1, L2


def l1_l2(l1: float = 0.01, l2: float = 0.01) -> L1L2:
    return L1L2(l1, l2)


def get(identifier: Any) -> Any:
    """The regulariser of a name or configuration; others are themselves."""
    known: dict[str, Any] = {"l1": L1, "l2": L2, "l1_l2": l1_l2, "L1": L1, "L2": L2, "L1L2": L1L2}
    if isinstance(identifier, dict):
        return known[identifier["class_name"]](**identifier["config"])
    if isinstance(identifier, str):
        if identifier not in known:
            raise ValueError("unknown regularizer %r; there are l1, l2 and l1_l2" % (identifier,))
        return known[identifier]()
    return identifier
