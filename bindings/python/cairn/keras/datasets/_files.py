"""Where data sets' files are: a path that is given, Keras's folder (KERAS_HOME or ~/.keras, datasets), or the folder of
cairn.datasets. Nothing that is in a file is run."""
from __future__ import annotations

import json
import os
import pickle
import zipfile
from typing import Any

import cairn
from ..._training.batches import array

__all__ = ["arrays", "cached", "classes", "rows", "sequences", "words"]

Parts = tuple[tuple[Any, Any], tuple[Any, Any]]


def _home() -> str:
    return os.path.join(os.environ.get("KERAS_HOME", os.path.join(os.path.expanduser("~"), ".keras")), "datasets")


def cached(path: str) -> str | None:
    """The file of a path, or of a name in Keras's folder; None where there is none."""
    for place in (path, os.path.join(_home(), path)):
        if os.path.isfile(place):
            return place
    return None


def found(path: str) -> str:
    place = cached(path)
    if place is None:
        raise FileNotFoundError("there is no file %s, nor one in %s: put it there or give its path (it is not fetched "
                                "from the network)" % (path, _home()))
    return place


class _Plain(pickle.Unpickler):
    """Arrays of lists of numbers, which is how ragged data are kept; no other class is made."""

    def find_class(self, module: str, name: str) -> Any:
        import numpy
        if name in ("ndarray", "dtype") and module.startswith("numpy"):
            return getattr(numpy, name)
        if name == "_reconstruct" and module.startswith("numpy"):
            home: Any = getattr(numpy, "_core", None) or getattr(numpy, "core")
            return home.multiarray._reconstruct
        raise pickle.UnpicklingError("the file has a %s.%s, which is not data" % (module, name))


def arrays(path: str) -> dict[str, Any]:
    """All arrays of an .npz file."""
    import numpy
    made = {}
    with zipfile.ZipFile(path) as whole:
        for name in whole.namelist():
            with whole.open(name) as file:
                version = numpy.lib.format.read_magic(file)
                head = numpy.lib.format.read_array_header_1_0 if version == (1, 0) else \
                    numpy.lib.format.read_array_header_2_0
                shape, fortran, kind = head(file)
                if kind.hasobject:
                    values = _Plain(file).load()
                else:
                    values = numpy.frombuffer(file.read(), dtype=kind).reshape(shape, order="F" if fortran else "C")
                    values = values.copy()
            made[name.removesuffix(".npy")] = values
    return made


def classes(kind: str, path: str | None, columns: bool, **options: Any) -> Parts:
    """Images and classes: of an .npz file, or of the raw files in a folder, which cairn.datasets reads (and fetches
    where there is a network). columns: classes are (n, 1)."""
    place = None if path is None else cached(path)
    if place is not None and zipfile.is_zipfile(place):
        held = arrays(place)
        return (held["x_train"], held["y_train"]), (held["x_test"], held["y_test"])
    here = path is not None and os.path.isdir(path)
    folder = path if here else os.environ.get("CAIRN_DATA", "data")
    make = getattr(cairn.datasets, kind)
    parts = []
    for train in (True, False):
        try:
            held = make(folder, train=train, download=not here)
        except (OSError, RuntimeError) as error:
            raise FileNotFoundError(
                "%s: neither %s in %s nor the raw files in %s are there, and they could not be fetched (%s)"
                % (kind, path, _home(), folder, error)) from error
        if options.get("coarse") and not hasattr(held, "coarse_targets"):
            raise NotImplementedError("cifar100: the coarse classes need Keras's cifar100.npz; the raw files here are "
                                      "read with the fine ones")
        targets = held.coarse_targets if options.get("coarse") else held.targets
        y = array(cairn.as_tensor(targets).to(cairn.uint8))
        parts.append((array(cairn.as_tensor(held.data).contiguous()), y[:, None] if columns else y))
    return parts[0], parts[1]


def rows(path: str, test_split: float, seed: int, most: int | None = None) -> Parts:
    """Rows and targets, shuffled with numpy's numbers and parted."""
    import numpy
    if not 0 <= test_split < 1:
        raise ValueError("test_split is a part from 0 to below 1, not %r" % (test_split,))
    held = arrays(found(path))
    x, y = held["x"][:most], held["y"][:most]
    order = numpy.arange(len(x))
    numpy.random.RandomState(seed).shuffle(order)
    x, y = x[order], y[order]
    at = int(len(x) * (1 - test_split))
    return (x[:at], y[:at]), (x[at:], y[at:])


def _object(values: list[Any]) -> Any:
    import numpy
    made = numpy.empty(len(values), dtype=object)
    made[:] = values
    return made


def sequences(parts: list[tuple[Any, Any]], num_words: int | None, skip_top: int, maxlen: int | None, seed: int,
              start_char: int | None, oov_char: int | None, index_from: int) -> list[tuple[list[Any], Any]]:
    """Lists of words' numbers, with room for those of padding, start and unknown words."""
    import numpy
    numbers = numpy.random.RandomState(seed)
    made = []
    for x, y in parts:
        order = numpy.arange(len(x))
        numbers.shuffle(order)
        first = [] if start_char is None else [start_char]
        lists = [first + [w + (index_from or 0) for w in x[i]] for i in order]
        labels = numpy.asarray(y)[order]
        if maxlen:
            keep = [i for i, s in enumerate(lists) if len(s) < maxlen]
            lists, labels = [lists[i] for i in keep], labels[keep]
            if not lists:
                raise ValueError("maxlen=%d leaves no sequence: make it larger" % maxlen)
        made.append((lists, labels))
    top = num_words or max(max(s) for lists, _ in made for s in lists)
    for i, (lists, labels) in enumerate(made):
        if oov_char is not None:
            lists = [[w if skip_top <= w < top else oov_char for w in s] for s in lists]
        else:
            lists = [[w for w in s if skip_top <= w < top] for s in lists]
        made[i] = (lists, labels)
    return made


def words(path: str) -> dict[str, int]:
    with open(found(path), encoding="utf-8") as file:
        held: dict[str, int] = json.load(file)
    return held
