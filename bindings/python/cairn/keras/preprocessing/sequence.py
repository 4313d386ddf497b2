"""keras.preprocessing.sequence: pad_sequences, and what older programs make of sequences."""
from __future__ import annotations

import math
import random
from typing import Any

from ..utils import PyDataset, pad_sequences as pad_sequences

__all__ = ["TimeseriesGenerator", "make_sampling_table", "pad_sequences", "skipgrams"]


class TimeseriesGenerator(PyDataset):
    """Batches of windows of `length` steps, each with the target of the step behind it."""

    def __init__(self, data: Any, targets: Any, length: int, sampling_rate: int = 1, stride: int = 1,
                 start_index: int = 0, end_index: int | None = None, shuffle: bool = False, reverse: bool = False,
                 batch_size: int = 128, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if len(data) != len(targets):
            raise ValueError("there are %d data and %d targets" % (len(data), len(targets)))
        self.data, self.targets, self.length = data, targets, length
        self.sampling_rate, self.stride, self.batch_size = sampling_rate, stride, batch_size
        self.start_index = start_index + length
        self.end_index = len(data) - 1 if end_index is None else end_index
        self.shuffle, self.reverse = shuffle, reverse
        if self.start_index > self.end_index:
            raise ValueError("no step is left behind a window: start_index + length is %d, end_index %d"
                             % (self.start_index, self.end_index))

    def __len__(self) -> int:
        many = self.batch_size * self.stride
        return (self.end_index - self.start_index + many) // many

    def __getitem__(self, index: int) -> Any:
        import numpy
        if self.shuffle:
            rows = numpy.random.randint(self.start_index, self.end_index + 1, size=self.batch_size)
        else:
            first = self.start_index + self.batch_size * self.stride * index
            rows = numpy.arange(first, min(first + self.batch_size * self.stride, self.end_index + 1), self.stride)
        windows = numpy.array([self.data[row - self.length:row:self.sampling_rate] for row in rows])
        goals = numpy.array([self.targets[row] for row in rows])
        return (windows[:, ::-1] if self.reverse else windows), goals


def make_sampling_table(size: int, sampling_factor: float = 1e-05) -> Any:
    """The chance with which the i-th most frequent word is kept, if frequencies fall as Zipf says."""
    import numpy
    rank = numpy.arange(size)
    rank[0] = 1
    rare = rank * (numpy.log(rank) + 0.577) + 0.5 - 1.0 / (12.0 * rank)
    part = sampling_factor * rare
    return numpy.minimum(1.0, part / numpy.sqrt(part))


def skipgrams(sequence: Any, vocabulary_size: int, window_size: int = 4, negative_samples: float = 1.0,
              shuffle: bool = True, categorical: bool = False, sampling_table: Any = None,
              seed: int | None = None) -> tuple[list[Any], list[Any]]:
    """Pairs of words: near each other in the sequence (label 1) and drawn (label 0)."""
    pairs: list[Any] = []
    for i, word in enumerate(sequence):
        if not word or sampling_table is not None and sampling_table[word] < random.random():
            continue
        pairs += [[word, sequence[j]] for j in range(max(0, i - window_size),
                                                     min(len(sequence), i + window_size + 1)) if j != i and sequence[j]]
    near: Any = [0, 1] if categorical else 1
    far: Any = [1, 0] if categorical else 0
    labels = [near] * len(pairs)
    if negative_samples > 0:
        words = [p[0] for p in pairs]
        random.shuffle(words)
        many = int(len(labels) * negative_samples)
        pairs += [[words[i % len(words)], random.randint(1, vocabulary_size - 1)] for i in range(many)]
        labels += [far] * many
    if shuffle:
        seed = random.randint(0, int(math.pow(10, 7))) if seed is None else seed
        for values in (pairs, labels):
            random.seed(seed)
            random.shuffle(values)
    return pairs, labels
