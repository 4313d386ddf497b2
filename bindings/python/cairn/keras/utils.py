"""keras.utils: what programs prepare data with."""
from __future__ import annotations

from typing import Any, Iterator, Sequence as _Sequence

import cairn
from .._arguments import only_speed
from .._progress import Bar
from .._training.batches import array, to_tensor, unpack
from ._directory import image_dataset_from_directory as image_dataset_from_directory, \
    text_dataset_from_directory as text_dataset_from_directory, \
    timeseries_dataset_from_array as timeseries_dataset_from_array
from ._images import array_to_img as array_to_img, img_to_array as img_to_array, load_img as load_img, \
    save_img as save_img
from ._files import get_file as get_file
from ._plot import model_to_dot as model_to_dot, plot_model as plot_model
from .backend import clear_session as clear_session, is_keras_tensor as is_keras_tensor, \
    standardize_dtype as standardize_dtype
from .config import disable_interactive_logging as disable_interactive_logging, \
    enable_interactive_logging as enable_interactive_logging, \
    is_interactive_logging_enabled as is_interactive_logging_enabled
from .saving import CustomObjectScope as CustomObjectScope, custom_object_scope as custom_object_scope, \
    deserialize_keras_object as deserialize_keras_object, get_custom_objects as get_custom_objects, \
    get_registered_name as get_registered_name, get_registered_object as get_registered_object, \
    register_keras_serializable as register_keras_serializable, serialize_keras_object as serialize_keras_object

__all__ = ["CustomObjectScope", "clear_session", "deserialize_keras_object", "disable_interactive_logging",
           "enable_interactive_logging", "get_file", "get_registered_name", "get_registered_object",
           "get_source_inputs", "is_interactive_logging_enabled", "is_keras_tensor", "model_to_dot", "plot_model",
           "serialize_keras_object", "standardize_dtype"]
__all__ += ["Progbar", "PyDataset", "Sequence", "array_to_img", "custom_object_scope", "get_custom_objects",
           "image_dataset_from_directory", "img_to_array", "load_img", "normalize", "pack_x_y_sample_weight",
           "pad_sequences", "register_keras_serializable", "save_img", "set_random_seed", "split_dataset",
           "text_dataset_from_directory", "timeseries_dataset_from_array", "to_categorical",
           "unpack_x_y_sample_weight"]

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
    return hot if isinstance(x, cairn.Tensor) else array(hot.to(cairn.float64))


def normalize(x: Any, axis: int = -1, order: int = 2) -> Any:
    """Lengths of 1 along a dimension; an array for an array, of its type."""
    if isinstance(x, cairn.Tensor):
        return cairn.nn.functional.normalize(x.to(cairn.get_default_dtype()), p=order, dim=axis)
    double = str(getattr(x, "dtype", "float64")) != "float32"
    made = cairn.as_tensor(x).to(cairn.float64 if double else cairn.float32)
    return array(cairn.nn.functional.normalize(made, p=order, dim=axis))


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
    """To subclass with __len__ and __getitem__(i), which returns batch i."""

    def __init__(self, workers: int = 1, use_multiprocessing: bool = False, max_queue_size: int = 10) -> None:
        only_speed("PyDataset", 1, workers=workers)
        only_speed("PyDataset", False, use_multiprocessing=use_multiprocessing)
        only_speed("PyDataset", 10, max_queue_size=max_queue_size)
        self.workers, self.use_multiprocessing, self.max_queue_size = workers, use_multiprocessing, max_queue_size

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError("%s has no method __getitem__" % type(self).__name__)

    def __len__(self) -> int:
        raise NotImplementedError("%s has no method __len__" % type(self).__name__)

    def on_epoch_end(self) -> None:
        """After each pass; to shuffle, say."""

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


Sequence = PyDataset


def split_dataset(dataset: Any, left_size: float | None = None, right_size: float | None = None,
                  shuffle: bool = False, seed: int | None = None) -> tuple[Any, Any]:
    """Two parts of arrays or tensors: so many samples (an int) or such a part of them (a float between 0 and 1) at the
    left and at the right. shuffle: of samples in an order that is drawn, the same for the same seed."""
    n = len(dataset[0]) if isinstance(dataset, tuple) else len(dataset)
    left, right = _part_sizes(n, left_size, right_size)
    numbers = None if seed is None else cairn.Generator().manual_seed(int(seed))
    order = cairn.randperm(n, generator=numbers) if shuffle else cairn.arange(n)

    def part(rows: Any) -> Any:
        if isinstance(dataset, tuple):
            return tuple(to_tensor(d)[rows] for d in dataset)
        return to_tensor(dataset)[rows]
    return part(order[:left]), part(order[n - right:])


def _part_sizes(n: int, left_size: Any, right_size: Any) -> tuple[int, int]:
    """How many of n samples two parts have."""
    def size(given: Any, name: str) -> int | None:
        if given is None:
            return None
        if isinstance(given, int) and 0 < given < n:
            return given
        if isinstance(given, float) and 0.0 < given < 1.0:
            return round(given * n)
        raise ValueError("split_dataset: %s is a number of samples below %d or a part between 0 and 1, not %r"
                         % (name, n, given))
    left, right = size(left_size, "left_size"), size(right_size, "right_size")
    if left is None and right is None:
        raise ValueError("split_dataset needs left_size or right_size")
    left = n - (right or 0) if left is None else left
    right = n - left if right is None else right
    if left + right > n or not left or not right:
        raise ValueError("split_dataset: parts of %d and %d do not go into %d samples" % (left, right, n))
    return left, right


class Progbar:
    """A bar for loops by hand. Values are shown as their means over the steps so far, those named in stateful_metrics
    as they are (or all as they are but those in stateless_metrics); the last values as they are. interval: seconds
    between two pictures of the bar. verbose 2: a line at the end."""

    def __init__(self, target: int | None, width: int = 20, verbose: int = 1, interval: float = 0.05,
                 stateful_metrics: Any = None, stateless_metrics: Any = None, unit_name: str = "step") -> None:
        if stateful_metrics is not None and stateless_metrics is not None:
            raise ValueError("give one of stateful_metrics and stateless_metrics")
        self.bar = Bar("", target, width, plain=verbose == 2, interval=interval, unit=unit_name)
        self.verbose, self.seen = verbose, 0
        self.as_is = None if stateful_metrics is None else set(stateful_metrics)
        self.averaged = None if stateless_metrics is None else set(stateless_metrics)
        self.sums: dict[str, tuple[float, int]] = {}

    def update(self, current: int, values: _Sequence[tuple[str, Any]] | None = None,
               finalize: bool | None = None) -> None:
        last = finalize if finalize is not None else self.bar.total is not None and current >= self.bar.total
        steps = max(current - self.seen, 1)
        for name, value in values or ():
            mean = name in self.averaged if self.averaged is not None else name not in (self.as_is or ())
            total, many = self.sums.get(name, (0.0, 0)) if mean and not last else (0.0, 0)
            weight = steps if mean and not last else 1
            self.sums[name] = total + float(value) * weight, many + weight
        self.seen = current
        if self.verbose:
            shown = {name: total / many for name, (total, many) in self.sums.items()}
            self.bar.update(current, shown)
            if last:
                self.bar.finish(shown)

    def add(self, n: int, values: _Sequence[tuple[str, Any]] | None = None) -> None:
        self.update(self.seen + n, values)


def get_source_inputs(tensor: Any) -> list[Any]:
    """The inputs that a place of a model depends on."""
    found: list[Any] = []
    waiting = [tensor]
    while waiting:
        t = waiting.pop(0)
        if t.is_input:
            if not any(t is f for f in found):
                found.append(t)
        else:
            waiting += t.node.inputs
    return found
