"""Chi2: the sum of squares of so many standard normal numbers."""
from __future__ import annotations

from typing import TYPE_CHECKING

from . import constraints
from .gamma import Gamma

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The sum of the squares of df standard normal numbers: Gamma(df / 2, 1 / 2)."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """Degrees of freedom."""
        return self.concentration * 2
