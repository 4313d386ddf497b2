"""What weights add to the loss: keras.regularizers."""
from __future__ import annotations

from typing import Any

__all__ = ["L1", "L1L2", "L2", "OrthogonalRegularizer", "Regularizer", "deserialize", "get", "l1", "l1_l2", "l2",
           "orthogonal_regularizer", "serialize"]


class Regularizer:
    """To subclass with __call__(x), which returns a scalar tensor."""

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


class OrthogonalRegularizer(Regularizer):
    """Rows (or columns) at right angles: factor times the mean size of their cosines."""

    def __init__(self, factor: float = 0.01, mode: str = "rows") -> None:
        if mode not in ("rows", "columns"):
            raise ValueError("mode is rows or columns, not %r" % (mode,))
        self.factor, self.mode = factor, mode

    def __call__(self, x: Any) -> Any:
        if x.ndim != 2:
            raise ValueError("OrthogonalRegularizer is for matrices, not for shape %s" % (tuple(x.shape),))
        rows = x if self.mode == "rows" else x.t()
        rows = rows / rows.square().sum(1, keepdim=True).clamp(min=1e-7).sqrt()
        n = int(rows.shape[0])
        products = rows @ rows.t()
        return self.factor * 0.5 * (products - products.diagonal().diag()).abs().sum() / max(n * (n - 1) / 2.0, 1.0)


orthogonal_regularizer = OrthogonalRegularizer


def get(identifier: Any) -> Any:
    """The regulariser of a name or configuration; others are themselves."""
    known: dict[str, Any] = {"l1": L1, "l2": L2, "l1_l2": l1_l2, "L1": L1, "L2": L2, "L1L2": L1L2,
                             "orthogonal_regularizer": OrthogonalRegularizer,
                             "OrthogonalRegularizer": OrthogonalRegularizer}
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        from ._serial import get_custom_objects
        made = get_custom_objects().get(identifier) or known.get(identifier)
        if made is None:
            raise ValueError("unknown regularizer %r; there are l1, l2 and l1_l2" % (identifier,))
        return made() if isinstance(made, type) or made is l1_l2 else made
    return identifier() if isinstance(identifier, type) else identifier


def serialize(regularizer: Any) -> Any:
    from ._serial import serialize as serialized
    return serialized(regularizer)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    from ._serial import deserialize as made
    return made(config, custom_objects)
