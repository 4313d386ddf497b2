"""Direction numbers of Sobol's sequences, for quasirandom.py: those of Joe and Kuo for 21201 dimensions.

Place in the flow: _sobol_numbers.bin holds, for each dimension but the first, the primitive polynomial and the odd
numbers that its direction numbers begin with. A polynomial of degree s has s - 1 bits (the first and last one are set),
the i-th number i - 1 (its last bit is set), lowest first, in whole bytes; dimensions are in order of degree.
Invariant: nothing is read before a program asks for numbers, and then only as many dimensions as it needs.
"""
from __future__ import annotations

import os
from typing import Iterator

__all__ = ["BITS", "DIMENSIONS", "directions"]

DIMENSIONS = 21201
BITS = 30
_COUNTS = (1, 1, 2, 2, 6, 6, 18, 16, 48, 60, 176, 144, 630, 756, 1800, 2048, 7710, 7776)  # polynomials of degree 1, ..


def _degrees() -> Iterator[int]:
    for degree, count in enumerate(_COUNTS, 1):
        for _ in range(count):
            yield degree


def _row(polynomial: int, first: list[int]) -> list[int]:
    """The direction numbers of a dimension as fractions of 2**BITS, from the polynomial's middle bits."""
    s, found = len(first), list(first)
    for i in range(s, BITS):
        value = found[i - s] ^ found[i - s] << s
        for k in range(1, s):
            if polynomial >> s - 1 - k & 1:
                value ^= found[i - k] << k
        found.append(value)
    return [m << BITS - 1 - i for i, m in enumerate(found)]


def directions(dimension: int) -> list[list[int]]:
    """BITS direction numbers for each of the first dimensions."""
    rows = [[1 << BITS - 1 - i for i in range(BITS)]]
    with open(os.path.join(os.path.dirname(__file__), "_sobol_numbers.bin"), "rb") as file:
        for degree in _degrees():
            if len(rows) >= dimension:
                break
            bits = int.from_bytes(file.read(((degree - 1) * (degree + 2) // 2 + 7) // 8), "little")
            polynomial, at, first = bits & (1 << degree - 1) - 1, degree - 1, []
            for i in range(degree):
                first.append((bits >> at & (1 << i) - 1) << 1 | 1)
                at += i
            rows.append(_row(polynomial, first))
    return rows[:dimension]
