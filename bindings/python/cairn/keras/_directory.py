"""Data sets of files: image_dataset_from_directory, text_dataset_from_directory, and windows of a series:
timeseries_dataset_from_array."""
from __future__ import annotations

import os
import random
from typing import Any, Callable, Iterator

import cairn
from .._arguments import refused
from .._training.batches import to_tensor
from ._stream import Batches, stacked
from .backend import image_data_format

__all__ = ["image_dataset_from_directory", "text_dataset_from_directory", "timeseries_dataset_from_array"]


def _shuffled(values: list[Any], seed: int) -> list[Any]:
    """In an order by the seed: numpy's where it is installed, so that it is Keras's."""
    made = list(values)
    try:
        import numpy
    except ImportError:
        random.Random(seed).shuffle(made)
        return made
    numpy.random.RandomState(seed).shuffle(made)
    return made


def _files(folder: str, formats: tuple[str, ...], follow_links: bool) -> list[str]:
    return [os.path.join(root, name) for root, _, names in sorted(os.walk(folder, followlinks=follow_links))
            for name in sorted(names) if name.lower().endswith(formats)]


def _indexed(directory: str, labels: Any, formats: tuple[str, ...], class_names: Any, follow_links: bool,
             verbose: bool) -> tuple[list[str], Any, Any]:
    """Files, the class of each, names of classes."""
    if not os.path.isdir(directory):
        raise FileNotFoundError("there is no directory %s" % directory)
    if labels != "inferred":
        if class_names is not None:
            raise ValueError("class_names belong to labels='inferred'")
        paths = _files(directory, formats, follow_links)
        if labels is None:
            names, classes = None, None
        else:
            classes = [int(v) for v in labels]
            if len(classes) != len(paths):
                raise ValueError("there are %d labels for %d files in %s" % (len(classes), len(paths), directory))
            names = [str(v) for v in sorted(set(classes))]
    else:
        found = [d for d in sorted(os.listdir(directory))
                 if os.path.isdir(os.path.join(directory, d)) and not d.startswith(".")]
        if class_names is not None and not set(class_names) <= set(found):
            raise ValueError("class_names %s are not all among the directories %s" % (list(class_names), found))
        names = list(class_names) if class_names is not None else found
        paths, classes = [], []
        for i, name in enumerate(names):
            own = _files(os.path.join(directory, name), formats, follow_links)
            paths += own
            classes += [i] * len(own)
    if verbose:
        print("Found %d files%s." % (len(paths), "" if names is None else " belonging to %d classes" % len(names)))
    return paths, classes, names


def _from_files(directory: Any, labels: Any, label_mode: Any, class_names: Any, batch_size: int | None, shuffle: bool,
                seed: int | None, validation_split: float | None, subset: str | None, follow_links: bool,
                verbose: bool, formats: tuple[str, ...], load: Callable[[str], Any]) -> Any:
    if label_mode not in ("int", "categorical", "binary", None):
        raise ValueError("label_mode is int, categorical, binary or None, not %r" % (label_mode,))
    if (validation_split is None or not validation_split) != (subset is None):
        raise ValueError("validation_split and subset belong together")
    if subset not in (None, "training", "validation", "both"):
        raise ValueError("subset is training, validation or both, not %r" % (subset,))
    if validation_split and not 0 < validation_split < 1:
        raise ValueError("validation_split is between 0 and 1, not %r" % (validation_split,))
    if validation_split and shuffle and seed is None:
        raise ValueError("validation_split of shuffled files needs a seed, so that the parts do not overlap")
    labels = None if label_mode is None or labels is None else labels
    paths, classes, names = _indexed(os.fspath(directory), labels, formats, class_names, follow_links, verbose)
    if label_mode == "binary" and len(names or ()) != 2:
        raise ValueError("label_mode='binary' needs 2 classes, not %s" % (names,))
    if shuffle:
        drawn = random.randrange(1000000) if seed is None else seed
        paths, classes = _shuffled(paths, drawn), None if classes is None else _shuffled(classes, drawn)
    parts = []
    for part in ("training", "validation") if subset == "both" else (subset,):
        held = int((validation_split or 0) * len(paths))
        rows = slice(None) if part is None else slice(0, len(paths) - held) if part == "training" else \
            slice(len(paths) - held, None)
        if part is not None:
            print("Using %d files for %s." % (len(paths[rows]), part))
        if not paths[rows]:
            raise ValueError("there are no files%s in %s; allowed are %s"
                             % ("" if part is None else " for " + part, directory, ", ".join(formats)))
        parts.append(_set_of(paths[rows], None if classes is None else classes[rows], names, label_mode, batch_size,
                             shuffle and not (subset == "both" and part == "validation"), seed, load))
    return parts if subset == "both" else parts[0]


def _set_of(paths: list[str], classes: Any, names: Any, label_mode: Any, batch_size: int | None, shuffle: bool,
            seed: int | None, load: Callable[[str], Any]) -> Batches:
    numbers = None if seed is None else cairn.Generator().manual_seed(int(seed))
    targets: Any = None
    if classes is not None:
        targets = cairn.tensor(classes, dtype=cairn.int32)
        if label_mode == "binary":
            targets = targets.to(cairn.float32).unsqueeze(-1)
        elif label_mode == "categorical":
            targets = cairn.nn.functional.one_hot(targets.long(), len(names)).to(cairn.float32)

    def made() -> Iterator[Any]:
        order = cairn.randperm(len(paths), generator=numbers).tolist() if shuffle else list(range(len(paths)))
        for at in range(0, len(order), batch_size or 1):
            rows = order[at:at + (batch_size or 1)]
            x = [load(paths[i]) for i in rows]
            if batch_size is None:
                yield x[0] if targets is None else (x[0], targets[rows[0]])
            else:
                yield stacked(x) if targets is None else (stacked(x), targets[cairn.tensor(rows)])
    data = Batches(made, -(-len(paths) // (batch_size or 1)))
    data.class_names, data.file_paths = names, paths
    return data


def image_dataset_from_directory(directory: Any, labels: Any = "inferred", label_mode: Any = "int",
                                 class_names: Any = None, color_mode: str = "rgb", batch_size: int | None = 32,
                                 image_size: Any = (256, 256), shuffle: bool = True, seed: int | None = None,
                                 validation_split: float | None = None, subset: str | None = None,
                                 interpolation: str = "bilinear", follow_links: bool = False,
                                 crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False,
                                 data_format: str | None = None, format: str = "tf", verbose: bool = True) -> Any:
    """Images of a directory, one below it for each class, in batches of floats (N, height, width, channels)."""
    from ._images import decoded
    from .layers.image import Resizing
    refused("image_dataset_from_directory", "a data set of cairn's own is made", "tf", format=format)
    channels = {"rgb": 3, "rgba": 4, "grayscale": 1}.get(color_mode)
    if channels is None:
        raise ValueError("color_mode is rgb, rgba or grayscale, not %r" % (color_mode,))
    size = Resizing(int(image_size[0]), int(image_size[1]), interpolation, crop_to_aspect_ratio, pad_to_aspect_ratio,
                    data_format="channels_first", name="resizing")
    last = (data_format or image_data_format()) == "channels_last"

    def load(path: str) -> Any:
        with cairn.no_grad():
            image = decoded(path, channels)
            image = image if tuple(image.shape[1:]) == (size.height, size.width) else size(image)
            return image.permute(1, 2, 0).contiguous() if last else image
    return _from_files(directory, labels, label_mode, class_names, batch_size, shuffle, seed, validation_split, subset,
                       follow_links, verbose, (".bmp", ".gif", ".jpeg", ".jpg", ".png"), load)


def text_dataset_from_directory(directory: Any, labels: Any = "inferred", label_mode: Any = "int",
                                class_names: Any = None, batch_size: int | None = 32, max_length: int | None = None,
                                shuffle: bool = True, seed: int | None = None, validation_split: float | None = None,
                                subset: str | None = None, follow_links: bool = False, format: str = "tf",
                                verbose: bool = True) -> Any:
    """Texts of a directory, one below it for each class, in batches. max_length: characters of each."""
    refused("text_dataset_from_directory", "a data set of cairn's own is made", "tf", format=format)

    def load(path: str) -> str:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            return file.read() if max_length is None else file.read(max_length)
    return _from_files(directory, labels, label_mode, class_names, batch_size, shuffle, seed, validation_split, subset,
                       follow_links, verbose, (".txt",), load)


def timeseries_dataset_from_array(data: Any, targets: Any, sequence_length: int, sequence_stride: int = 1,
                                  sampling_rate: int = 1, batch_size: int | None = 128, shuffle: bool = False,
                                  seed: int | None = None, start_index: int | None = None,
                                  end_index: int | None = None) -> Any:
    """Windows of a series and what belongs to the first step of each, in batches."""
    for name, value in (("sequence_length", sequence_length), ("sequence_stride", sequence_stride),
                        ("sampling_rate", sampling_rate)):
        if value <= 0:
            raise ValueError("%s is positive, not %r" % (name, value))
    whole = to_tensor(data)
    series = whole[start_index or 0:end_index]
    many = int(series.shape[0]) - (sequence_length - 1) * sampling_rate
    goals = None
    if targets is not None:
        goals = to_tensor(targets)[start_index or 0:end_index]
        many = min(many, int(goals.shape[0]))
    first = list(range(0, max(many, 0), sequence_stride))
    if shuffle:
        first = _shuffled(first, random.randrange(1000000) if seed is None else seed)
    steps = cairn.arange(0, sequence_length * sampling_rate, sampling_rate)

    def made() -> Iterator[Any]:
        for at in range(0, len(first), batch_size or 1):
            rows = cairn.tensor(first[at:at + (batch_size or 1)], dtype=cairn.int64)
            x = series[rows.unsqueeze(1) + steps]
            y = None if goals is None else goals[rows]
            if batch_size is None:
                yield x[0] if y is None else (x[0], y[0])
            else:
                yield x if y is None else (x, y)
    return Batches(made, -(-len(first) // (batch_size or 1)))
