"""cairn.strings: tensors of strings as values that graphs can hold. See cairn/strings.h.

Place in the flow: Strings is a pair of tensors, bytes and lengths, so that compiled functions, traces and files take it
like any named tuple of tensors. array() makes one of lists or numpy arrays of str, tolist() and numpy() give them back.
Invariant: there are at least as many bytes as the lengths say.
"""
from __future__ import annotations

from typing import Any, NamedTuple

from . import _C
from ._tensor import Tensor

__all__ = ["Strings", "array", "format"]


def _shape(data: Any) -> list[int]:
    """The sizes of nested lists."""
    if isinstance(data, str):
        return []
    return [len(data), *(_shape(data[0]) if len(data) else [])]


def _flat(data: Any, shape: list[int]) -> list[bytes]:
    if not shape:
        if not isinstance(data, str):
            raise TypeError("strings: expected str, not %s" % type(data).__name__)
        return [data.encode()]
    if isinstance(data, str) or len(data) != shape[0]:
        raise ValueError("strings: nested lists must have one length each")
    return [text for part in data for text in _flat(part, shape[1:])]


def _nested(texts: list[str], shape: tuple[int, ...]) -> Any:
    if not shape:
        return texts[0]
    size = len(texts) // shape[0] if shape[0] else 0
    return [_nested(texts[i * size:(i + 1) * size], shape[1:]) for i in range(shape[0])]


class Strings(NamedTuple):
    """Strings in the shape of their lengths; bytes are UTF-8."""
    bytes: Tensor
    lengths: Tensor

    def _both(self, other: Strings | str | list[Any]) -> list[Tensor | None]:
        there = other if isinstance(other, Strings) else array(other)
        return [self.bytes, self.lengths, there.bytes, there.lengths]

    def equal(self, other: Strings | str | list[Any]) -> Tensor:
        """Where both are the same string; shapes broadcast."""
        return _C._lists("strings_equal", self._both(other), None, None)[0]

    def concat(self, other: Strings | str | list[Any]) -> Strings:
        """Each with the other behind it; shapes broadcast."""
        return Strings(*_C._lists("strings_concat", self._both(other), None, None))

    def characters(self) -> Tensor:
        """How many characters (code points) each has."""
        return _C._lists("strings_count", [self.bytes, self.lengths], None, None)[0]

    def take(self, indices: Tensor) -> Strings:
        """Those at these places of the row-major order, in the shape of the indices."""
        return Strings(*_C._lists("strings_take", [self.bytes, self.lengths, indices], None, None))

    def find(self, keys: Strings | list[str]) -> Tensor:
        """Which of the keys, a vector, each is; -1: none."""
        return _C._lists("strings_find", self._both(keys), None, None)[0]

    def lookup(self, keys: Strings | list[str], values: Tensor, other: Tensor) -> Tensor:
        """values[i] for those that are key i, other for the rest."""
        return _C._lists("strings_lookup", [*self._both(keys), values, other], None, None)[0]

    def parse(self, dtype: _C.dtype) -> Tensor:
        """The numbers that they say; what is none is an error."""
        return _C._lists("strings_parse", [self.bytes, self.lengths], None, dtype)[0]

    def tolist(self) -> Any:
        """Nested lists of str."""
        raw, at, found = bytes(self.bytes.tolist()), 0, []
        for n in self.lengths.flatten().tolist():
            found.append(raw[at:at + n].decode())
            at += n
        return _nested(found, tuple(self.lengths.shape))

    def numpy(self) -> Any:
        """An array of str."""
        import numpy
        return numpy.array(self.tolist(), dtype=str).reshape(tuple(self.lengths.shape))


def array(data: Any) -> Strings:
    """Strings of a str, nested lists or a numpy array of str."""
    if hasattr(data, "tolist"):
        data = data.tolist()
    shape = _shape(data)
    return Strings(*_C._strings_from(_flat(data, shape), shape))


def format(numbers: Tensor) -> Strings:
    """Numbers as strings, with as few digits as read back as the same number."""
    return Strings(*_C._lists("strings_format", [numbers], None, None))
