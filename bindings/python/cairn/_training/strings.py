"""Strings: texts with a shape, on their way to layers that make numbers of them (TextVectorization, StringLookup).

There are no tensors of texts: this holds them as a list, knows its shape and can be cut into batches.
"""
from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Iterator

import cairn

__all__ = ["Strings", "is_text", "strings_of"]


class Strings:
    """Texts in rows. numpy() returns an array of bytes, tolist() lists of str."""

    dtype = "string"
    requires_grad = False

    def __init__(self, flat: list[str], shape: tuple[int, ...]) -> None:
        self.flat, self.shape = flat, shape
        self.device = cairn.device("cpu")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def numel(self) -> int:
        return len(self.flat)

    def _step(self) -> int:
        """Texts in one row."""
        n = 1
        for size in self.shape[1:]:
            n *= size
        return n

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("one text has no length; str() returns it")
        return self.shape[0]

    def __iter__(self) -> Iterator[Strings]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Strings:
        if isinstance(key, tuple):
            made: Strings = self
            if len(key) == 1:
                return self[key[0]]
            rows = self[key[0]]
            if hasattr(key[0], "__index__"):
                return rows[key[1:]]
            parts = [row[key[1:]] for row in rows]
            inner = parts[0].shape if parts else ()
            return Strings([t for p in parts for t in p.flat], (len(parts),) + tuple(inner)) if parts else made
        step = self._step()
        if hasattr(key, "__index__") and not isinstance(key, cairn.Tensor) and getattr(key, "ndim", 0) == 0:
            i = range(self.shape[0])[key.__index__()]
            return Strings(self.flat[i * step:(i + 1) * step], self.shape[1:])
        rows_of: Any = range(self.shape[0])[key] if isinstance(key, slice) else key
        if hasattr(rows_of, "tolist"):
            rows_of = rows_of.tolist()
        if rows_of is not None and not isinstance(rows_of, range) and rows_of and isinstance(rows_of[0], bool):
            rows_of = [i for i, yes in enumerate(rows_of) if yes]
        flat = [t for i in rows_of for t in self.flat[i * step:(i + 1) * step]]
        return Strings(flat, (len(rows_of),) + self.shape[1:])

    def reshape(self, *shape: Any) -> Strings:
        sizes = list(shape[0] if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape)
        known = 1
        for n in sizes:
            known *= n if n >= 0 else 1
        sizes = [len(self.flat) // max(known, 1) if n < 0 else int(n) for n in sizes]
        return Strings(self.flat, tuple(sizes))

    def squeeze(self, dim: int) -> Strings:
        dim %= self.ndim
        return Strings(self.flat, self.shape[:dim] + self.shape[dim + 1:]) if self.shape[dim] == 1 else self

    def unsqueeze(self, dim: int) -> Strings:
        dim %= self.ndim + 1
        return Strings(self.flat, self.shape[:dim] + (1,) + self.shape[dim:])

    def map(self, f: Any) -> Strings:
        return Strings([f(t) for t in self.flat], self.shape)

    def to(self, device: Any = None, dtype: Any = None) -> Strings:
        """Texts lie on no device; they have no other type."""
        if dtype is not None or isinstance(device, cairn.dtype):
            raise TypeError("texts cannot be made %s: turn them into numbers first" % (dtype or device,))
        return self

    def _same(self) -> Strings:
        return self

    detach = cpu = contiguous = clone = _same

    def tolist(self) -> Any:
        if not self.shape:
            return self.flat[0]
        return [row.tolist() for row in self]

    def numpy(self) -> Any:
        """Bytes, as the texts of data sets are there; a list of them where numpy is not installed."""
        rows = [t.encode("utf-8") for t in self.flat]
        if not self.shape:
            return rows[0]
        if not find_spec("numpy"):
            return rows
        import numpy
        made = numpy.empty(len(rows), dtype=object)
        made[:] = rows
        return made.reshape(self.shape)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy
        if copy is False:
            raise ValueError("texts are kept in a list; an array of them is a copy")
        return numpy.array(self.flat, dtype=dtype or object).reshape(self.shape)

    def __str__(self) -> str:
        return self.flat[0] if not self.shape else repr(self)

    def __repr__(self) -> str:
        return "Strings(%r, shape=%s)" % (self.tolist(), self.shape)


def is_text(value: Any) -> bool:
    """Whether a value is a text, an array of them or nested lists of them."""
    if isinstance(value, (str, bytes, Strings)):
        return True
    if isinstance(value, (list, tuple)):
        return bool(value) and all(is_text(v) for v in value)
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind in ("U", "S", "T"):
        return True
    if kind == "O" or str(getattr(value, "dtype", "")) in ("str", "string", "object"):
        flat = value.ravel() if hasattr(value, "ravel") else value
        return len(flat) > 0 and isinstance(flat[0] if hasattr(flat, "__getitem__") else next(iter(flat)), (str, bytes))
    return False


def strings_of(value: Any) -> Strings:
    """Strings of a text, an array, pandas' columns or nested lists of texts."""
    if isinstance(value, Strings):
        return value
    if isinstance(value, (str, bytes)):
        return Strings([_text(value)], ())
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if hasattr(value, "ravel"):
        return Strings([_text(t) for t in value.ravel().tolist()], tuple(int(n) for n in value.shape))
    parts = [strings_of(v) for v in value]
    if len({p.shape for p in parts}) > 1:
        raise ValueError("texts in rows need rows of one length, not %s" % sorted({p.shape for p in parts}))
    return Strings([t for p in parts for t in p.flat], (len(parts),) + (parts[0].shape if parts else ()))


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
