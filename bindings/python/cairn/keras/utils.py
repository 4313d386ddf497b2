"""keras.utils: what programs prepare data with."""
from __future__ import annotations

from typing import Any, Iterator, Sequence as _Sequence

import cairn
from .._progress import Bar
from ._batches import array, to_tensor, unpack
from .saving import custom_object_scope as custom_object_scope, get_custom_objects as get_custom_objects, \
    register_keras_serializable as register_keras_serializable

__all__ = ["Progbar", "PyDataset", "Sequence", "custom_object_scope", "get_custom_objects", "normalize",
           "pack_x_y_sample_weight", "pad_sequences", "register_keras_serializable", "set_random_seed", "split_dataset",
           "timeseries_dataset_from_array", "to_categorical", "unpack_x_y_sample_weight"]

unpack_x_y_sample_weight = unpack


def pack_x_y_sample_weight(x: Any, y: Any = None, sample_weight: Any = None) -> Any:
    return x if y is None else (x, y) if sample_weight is None else (x, y, sample_weight)


def set_random_seed(seed: int) -> None:
    """Of Python, numpy and cairn."""
    import random
    import sys
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    cairn.manual_seed(seed)


def to_categorical(x: Any, num_classes: int | None = None) -> Any:
    """One place for each class; an array for an array, a tensor for a tensor."""
    places = to_tensor(x).long()
    if places.ndim > 1 and places.shape[-1] == 1:
        places = places.squeeze(-1)
    many = int(places.max().item()) + 1 if num_classes is None else int(num_classes)
    hot = cairn.nn.functional.one_hot(places, many).to(cairn.get_default_dtype())
    if isinstance(x, cairn.Tensor):
        return hot
    return array(hot)


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    made = cairn.nn.functional.normalize(to_tensor(x).to(cairn.get_default_dtype()), p=order, dim=axis)
    return made if isinstance(x, cairn.Tensor) else array(made)


def pad_sequences(sequences: Any, maxlen: int | None = None, dtype: str = "int32", padding: str = "pre",
                  truncating: str = "pre", value: float = 0.0) -> Any:
    """Lists of different lengths as one array."""
    import numpy
    for word in (padding, truncating):
        if word not in ("pre", "post"):
            raise ValueError("padding and truncating are 'pre' or 'post', not %r" % (word,))
    longest = max((len(s) for s in sequences), default=0) if maxlen is None else maxlen
    inner = next((numpy.asarray(s).shape[1:] for s in sequences if len(s)), ())
    out = numpy.full((len(sequences), longest) + tuple(inner), value, dtype=dtype)
    for i, s in enumerate(sequences):
        if not len(s):
            continue
        cut = numpy.asarray(s[-longest:] if truncating == "pre" else s[:longest], dtype=dtype)
        if padding == "post":
            out[i, :len(cut)] = cut
        else:
            out[i, longest - len(cut):] = cut
    return out


class PyDataset:
    """To subclass with __len__ and __getitem__(i), which answers batch i."""

    def __init__(self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10) -> None:
        self.workers = workers

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError("%s has no method __getitem__" % type(self).__name__)

    def __len__(self) -> int:
        raise NotImplementedError("%s has no method __len__" % type(self).__name__)

    def on_epoch_end(self) -> None:
        """After each pass; to shuffle, say."""

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


Sequence = PyDataset


def timeseries_dataset_from_array(data: Any, targets: Any, sequence_length: int, sequence_stride: int = 1,
                                  sampling_rate: int = 1, batch_size: int | None = 128, shuffle: bool = False,
                                  seed: int | None = None, start_index: int | None = None,
                                  end_index: int | None = None) -> Any:
    """Windows of a series and what belongs to them, in batches."""
    from ..utils.data import DataLoader, TensorDataset
    series = to_tensor(data)[start_index or 0:end_index]
    last = int(series.shape[0]) - (sequence_length - 1) * sampling_rate
    if targets is not None:
        goals = to_tensor(targets)[start_index or 0:end_index]
        last = min(last, int(goals.shape[0]))
    first = cairn.arange(0, last, sequence_stride)
    windows = series[first.unsqueeze(1) + cairn.arange(0, sequence_length * sampling_rate, sampling_rate)]
    held = TensorDataset(windows) if targets is None else TensorDataset(windows, goals[first])
    return DataLoader(held, batch_size=batch_size or 1, shuffle=shuffle)


def split_dataset(dataset: Any, left_size: float | None = None, right_size: float | None = None,
                  shuffle: bool = False, seed: int | None = None) -> tuple[Any, Any]:
    """Two parts of arrays or tensors."""
    n = len(dataset[0]) if isinstance(dataset, tuple) else len(dataset)
    left = left_size if left_size is not None else 1.0 - float(right_size or 0.0)
    at = int(left) if isinstance(left, int) or left > 1 else int(round(left * n))
    order = cairn.randperm(n) if shuffle else cairn.arange(n)

    def part(rows: Any) -> Any:
        if isinstance(dataset, tuple):
            return tuple(to_tensor(d)[rows] for d in dataset)
        return to_tensor(dataset)[rows]
    return part(order[:at]), part(order[at:])


class Progbar:
    """A bar for loops by hand."""

    def __init__(self, target: int | None, width: int = 20, verbose: int = 1, interval: float = 0.05,
                 stateful_metrics: Any = None, unit_name: str = "step") -> None:
        self.bar, self.verbose, self.seen = Bar("", target, width), verbose, 0
        self.sums: dict[str, float] = {}

    def update(self, current: int, values: _Sequence[tuple[str, Any]] | None = None,
               finalize: bool | None = None) -> None:
        self.sums.update({k: float(v) for k, v in values or ()})
        self.seen = current
        if self.verbose:
            self.bar.update(current, self.sums)
            if finalize or finalize is None and self.bar.total is not None and current >= self.bar.total:
                self.bar.finish(self.sums)

    def add(self, n: int, values: _Sequence[tuple[str, Any]] | None = None) -> None:
        self.update(self.seen + n, values)
