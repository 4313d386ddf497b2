"""Batches for Model.fit and its kin, from whatever holds data: arrays, datasets, loaders, generators.

Feed.epoch() returns the batches of one pass as (x, y, sample_weight) with absent parts None, as tensors where the model
lies. Arrays in memory are gathered by index; datasets go through cairn.utils.data.DataLoader.
"""
from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Callable, Iterator

import cairn
from .strings import Strings, is_text, strings_of

__all__ = ["Feed", "array", "by_key", "count", "flatten", "is_arrays", "joined", "mapped", "split", "to_tensor",
           "unpack"]


def mapped(f: Callable[[Any], Any], value: Any) -> Any:
    """f of every leaf of nested dictionaries, lists and tuples."""
    if isinstance(value, dict):
        return {k: mapped(f, v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(f, v) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(f, v) for v in value)
    return f(value)


def flatten(value: Any) -> list[Any]:
    """The leaves in order."""
    if isinstance(value, dict):
        return [leaf for v in value.values() for leaf in flatten(v)]
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in flatten(v)]
    return [value]


def by_key(value: Any) -> list[Any]:
    """The leaves in order, those of dictionaries in the order of their keys."""
    if isinstance(value, dict):
        return [leaf for k in sorted(value) for leaf in by_key(value[k])]
    if isinstance(value, (list, tuple)):
        return [leaf for v in value for leaf in by_key(v)]
    return [value]


def _is_array(value: Any) -> bool:
    return isinstance(value, cairn.Tensor) or (hasattr(value, "shape") and hasattr(value, "dtype")
                                               and hasattr(value, "__array__")) or hasattr(value, "to_numpy")


def to_tensor(value: Any) -> Any:
    """A tensor of an array, of pandas' columns or of numbers; float64 of others becomes the default type."""
    if value is None or isinstance(value, (cairn.Tensor, Strings)):
        return value
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if is_text(value):
        return strings_of(value)
    kind = str(getattr(value, "dtype", ""))
    if kind in ("object", "str"):
        raise TypeError("cannot make a tensor of an array of %s: turn it into numbers first" % kind)
    if kind == "uint16" or kind == "uint32" or kind == "uint64":
        value = value.astype("int64")
    flags = getattr(value, "flags", None)
    if any(s < 0 for s in getattr(value, "strides", None) or ()) or flags is not None and not flags.writeable:
        value = value.copy()
    made = cairn.as_tensor(value)
    return made.to(cairn.get_default_dtype()) if made.dtype == cairn.float64 else made


def _tensors(value: Any) -> Any:
    """Tensors of arrays, and of lists and dictionaries of them; a list of numbers is one tensor."""
    if isinstance(value, dict):
        return {k: _tensors(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)) and any(_is_array(v) and len(v.shape) for v in value):
        return type(value)(_tensors(v) for v in value)
    return to_tensor(value)


def is_arrays(value: Any) -> bool:
    """Whether data are arrays, or lists and dictionaries of arrays or numbers, and not something that gives batches."""
    if isinstance(value, dict):
        return all(is_arrays(v) for v in value.values())
    if isinstance(value, (list, tuple)):
        return all(is_arrays(v) for v in value)
    return value is None or _is_array(value) or isinstance(value, (int, float, bool, str))


def _is_batches(value: Any) -> bool:
    """Whether it is a list of batches (x, y)."""
    return isinstance(value, list) and bool(value) and all(
        isinstance(b, tuple) and len(b) > 1 and all(_is_array(v) for v in flatten(b)) for b in value)


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """(x, y, sample_weight) of a batch in any of its forms."""
    if isinstance(data, (tuple, list)):
        if 1 <= len(data) <= 3:
            x, y, weight = [*data, None, None][:3]
            return x, y, weight
        raise ValueError("a batch is x, (x, y) or (x, y, sample_weight), not %d parts; several inputs go into a "
                         "tuple: ((a, b), y)" % len(data))
    return data, None, None


def count(x: Any) -> int:
    """Samples in a batch."""
    leaves = [v for v in flatten(x) if getattr(v, "ndim", 0)]
    return int(leaves[0].shape[0]) if leaves else 1


def array(t: cairn.Tensor) -> Any:
    """As Keras returns: numpy's array, or the tensor where numpy is not installed."""
    return t.detach().cpu().numpy() if find_spec("numpy") else t.detach()


def joined(parts: list[Any], as_numpy: bool) -> Any:
    """Batches of outputs one after the other."""
    first = parts[0]
    if isinstance(first, dict):
        return {k: joined([p[k] for p in parts], as_numpy) for k in first}
    if isinstance(first, (list, tuple)):
        return type(first)(joined([p[i] for p in parts], as_numpy) for i in range(len(first)))
    whole = parts[0] if len(parts) == 1 else cairn.cat([p if p.ndim else p.reshape(1) for p in parts])
    return array(whole) if as_numpy else whole.detach()


def split(x: Any, y: Any, weight: Any, fraction: float) -> tuple[tuple[Any, Any, Any], tuple[Any, ...]]:
    """The first samples and the last `fraction` of them."""
    if not 0 < fraction < 1:
        raise ValueError("validation_split is a part between 0 and 1, not %r" % (fraction,))
    if x is None or not is_arrays(x):
        raise ValueError("validation_split needs arrays or tensors; with a loader or generator give validation_data")
    x, y, weight = _tensors(x), _tensors(y), _tensors(weight)
    n = count(x)
    at = int(n * (1 - fraction))
    if at == 0 or at == n:
        raise ValueError("validation_split=%g of %d samples leaves one part empty" % (fraction, n))
    head = tuple(mapped(lambda t: None if t is None else t[:at], v) for v in (x, y, weight))
    tail = tuple(mapped(lambda t: None if t is None else t[at:], v) for v in (x, y, weight))
    return (head[0], head[1], head[2]), tail if weight is not None else tail[:2]


def _class_weights(y: Any, weights: dict[int, float]) -> Any:
    """A weight for each sample by its class: y of classes, or of one place for each."""
    if not isinstance(y, cairn.Tensor):
        raise ValueError("class_weight needs one output")
    classes = y.argmax(-1) if y.ndim > 1 and y.shape[-1] > 1 else y.reshape(y.shape[0], -1)[:, 0]
    table = cairn.ones(int(max(int(classes.max().item()), *weights)) + 1, device=y.device)
    for k, w in weights.items():
        table[int(k)] = float(w)
    return table[classes.long()]


def _where(model: Any) -> Any:
    """The device of a model's weights; None where it has none yet."""
    first = next(iter(model.parameters()), None) if model is not None else None
    return None if first is None else first.device


class Feed:
    """Data for any number of passes. steps: batches in a pass, None when nobody knows."""

    def __init__(self, x: Any, y: Any, weight: Any, batch_size: int | None, shuffle: bool, steps: int | None,
                 class_weight: dict[int, float] | None, model: Any) -> None:
        self.model, self.class_weight, self.limit = model, class_weight, steps
        self.batch_size, self.shuffle = 32 if batch_size is None else int(batch_size), bool(shuffle)
        if self.batch_size < 1:
            raise ValueError("batch_size must be positive, not %d" % self.batch_size)
        self.arrays: Any = None
        self.source: Any = x
        self.running: Iterator[Any] | None = None
        if x is None:
            raise ValueError("there are no data: give x")
        if is_arrays(x) and not (y is None and _is_batches(x)):
            self._take_arrays(x, y, weight)
        elif y is not None:
            raise ValueError("y comes with x when x is a %s: let it give pairs (x, y)" % type(x).__name__)
        elif weight is not None:
            raise ValueError("sample_weight comes with x when x is a %s: let it give (x, y, sample_weight)"
                             % type(x).__name__)
        elif not self._take_source(x) and batch_size not in (None, getattr(x, "batch_size", None)):
            raise ValueError("batch_size=%d is for arrays and data sets of samples; a %s gives batches, which have "
                             "their size already" % (self.batch_size, type(x).__name__))
        self.steps = steps if steps is not None else self._length()

    def _take_arrays(self, x: Any, y: Any, weight: Any) -> None:
        self.arrays = (_tensors(x), _tensors(y), _tensors(weight))
        sizes = {int(t.shape[0]) if t.ndim else -1 for t in flatten(self.arrays) if t is not None}
        if -1 in sizes:
            raise ValueError("x and y need a dimension of samples; got a single number")
        if len(sizes) > 1:
            raise ValueError("all inputs and targets need the same number of samples; got %s"
                             % ", ".join(str(tuple(t.shape)) for t in flatten(self.arrays) if t is not None))
        self.n = sizes.pop()

    def _take_source(self, x: Any) -> bool:
        """Whether batches are made here, of a data set of samples; others give batches."""
        from ..utils import data
        if isinstance(x, data.DataLoader):
            return False
        if hasattr(x, "__getitem__") and hasattr(x, "on_epoch_end"):  # keras.utils.PyDataset: its items are batches
            return False
        if isinstance(x, data.Dataset):
            stream = isinstance(x, data.IterableDataset)
            self.source = data.DataLoader(x, batch_size=self.batch_size, shuffle=self.shuffle and not stream)
            return True
        if not hasattr(x, "__iter__") and not hasattr(x, "__getitem__"):
            raise TypeError("cannot train on a %s: give tensors, arrays, a Dataset, a DataLoader or an iterable of "
                            "batches" % type(x).__name__)
        return False

    def _length(self) -> int | None:
        if self.arrays is not None:
            return -(-self.n // self.batch_size)
        try:
            return len(self.source)
        except TypeError:
            return None

    def _from_arrays(self) -> Iterator[Any]:
        order = cairn.randperm(self.n) if self.shuffle else None
        for at in range(0, self.n, self.batch_size):
            until = min(at + self.batch_size, self.n)
            if order is None:
                yield tuple(mapped(lambda t: None if t is None else t[at:until], v) for v in self.arrays)
            else:
                rows = order[at:until]
                yield tuple(mapped(lambda t: None if t is None else t[rows.to(t.device)], v) for v in self.arrays)

    def _from_source(self) -> Iterator[Any]:
        if hasattr(self.source, "on_epoch_end") and hasattr(self.source, "__getitem__"):
            for i in range(len(self.source)):
                yield self.source[i]
            self.source.on_epoch_end()
        else:
            yield from self.source

    def _raw(self) -> Iterator[Any]:
        """The batches of a pass; with a limit, data that end earlier begin again."""
        if self.limit is None:
            yield from self._from_arrays() if self.arrays is not None else self._from_source()
            return
        done = 0
        while done < self.limit:
            if self.running is None:
                self.running = self._from_arrays() if self.arrays is not None else iter(self._from_source())
                fresh = True
            else:
                fresh = False
            for batch in self.running:
                yield batch
                done += 1
                fresh = False
                if done == self.limit:
                    return
            self.running = None
            if fresh:
                return

    def epoch(self) -> Iterator[tuple[Any, Any, Any]]:
        for batch in self._raw():
            x, y, weight = unpack(batch)
            x, y, weight = _tensors(x), _tensors(y), _tensors(weight)
            device = _where(self.model)
            if device is not None:
                x, y, weight = mapped(lambda t: t if t is None or t.device == device else t.to(device), (x, y, weight))
            if self.class_weight:
                by_class = _class_weights(y, self.class_weight)
                weight = by_class if weight is None else weight * by_class
            yield x, y, weight
