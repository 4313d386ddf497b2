"""cairn.quasirandom: points that fill a cube more evenly than random ones do, in Sobol's sequences.

Place in the flow: direction numbers come from _sobol_numbers.py; point k is the combination, by exclusive or, of those
that the Gray code of k names, so that any stretch of the sequence is made at once. Invariant: the points are PyTorch's,
but for scrambled ones, whose random matrices and shifts are drawn from this package's generators.
"""
from __future__ import annotations

from typing import Any

from . import _C, _sobol_numbers
from ._tensor import Tensor
from .random import Generator

__all__ = ["SobolEngine"]

_SCALE = 2.0 ** -_sobol_numbers.BITS


class SobolEngine:
    """The sequence in `dimension` dimensions; scrambled by a random matrix and shift, that `seed` repeats."""

    MAXBIT = _sobol_numbers.BITS
    MAXDIM = _sobol_numbers.DIMENSIONS

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError("Supported range of dimensionality for SobolEngine is [1, %d]" % self.MAXDIM)
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate: Tensor = _C.tensor(_sobol_numbers.directions(dimension), dtype=_C.int64, device="cpu")
        self.shift: Tensor = _C.zeros(dimension, dtype=_C.int64, device="cpu")
        if scramble:
            self._scramble()
        self.num_generated = 0

    def _scramble(self) -> None:
        """Direction numbers times a random lower triangular matrix of bits, and points moved by random bits."""
        generator = None
        if self.seed is not None:
            generator = Generator()
            generator.manual_seed(self.seed)
        powers = 2 ** _C.arange(0, self.MAXBIT, dtype=_C.int64, device="cpu")
        bits = _C.randint(0, 2, (self.dimension, self.MAXBIT), device="cpu", generator=generator)
        self.shift = (bits * powers).sum(1)
        matrix = _C.randint(0, 2, (self.dimension, self.MAXBIT, self.MAXBIT), device="cpu", generator=generator).tril()
        matrix.diagonal(0, -2, -1).fill_(1)
        falling = powers.flip(0)
        digits = (self.sobolstate[:, None, :] // falling[:, None]) % 2  # [dimension, digit, direction number]
        mixed = (matrix.double() @ digits.double()).long() % 2
        self.sobolstate = (mixed * falling[:, None]).sum(1)

    def _points(self, start: int, n: int) -> Tensor:
        """Points start to start + n - 1 as whole numbers: [n, dimension]"""
        index = _C.arange(start, start + n, dtype=_C.int64, device="cpu")
        gray = index ^ index // 2
        points = self.shift.expand(n, self.dimension)
        for bit in range(max(start + n - 1, 0).bit_length()):
            points = points ^ (gray // 2 ** bit % 2)[:, None] * self.sobolstate[:, bit]
        return points

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points: [n, dimension], in `out` if it is given."""
        dtype = _C.get_default_dtype() if dtype is None else dtype
        if self.num_generated + n > 2 ** self.MAXBIT:
            raise ValueError("the sequence has 2**%d points, of which %d are drawn" % (self.MAXBIT, self.num_generated))
        points = (self._points(self.num_generated, n).double() * _SCALE).to(dtype)
        self.num_generated += n
        if out is None:
            return points
        out.resize_(points.shape)
        return out.copy_(points)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2**m points; after them as many as a power of two have been drawn, or it is an error."""
        total = self.num_generated + 2 ** m
        if total & total - 1:
            raise ValueError("The balance properties of Sobol' points require n to be a power of 2: %d points were "
                             "generated before, 2**%d more are %d. Use draw(n) for any number" % (
                                 self.num_generated, m, total))
        return self.draw(2 ** m, out=out, dtype=dtype)

    def reset(self) -> SobolEngine:
        """Back to the first point."""
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leaves out the next n points."""
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        told = "dimension=%d" % self.dimension
        if self.scramble:
            told += ", scramble=True"
        return "SobolEngine(%s%s)" % (told, "" if self.seed is None else ", seed=%d" % self.seed)
