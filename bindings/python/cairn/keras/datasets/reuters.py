"""keras.datasets.reuters: newswires as lists of words' numbers, and their topics."""
from __future__ import annotations

from ._files import Parts, _object, arrays, found, sequences, words

__all__ = ["get_word_index", "load_data"]


def load_data(path: str = "reuters.npz", num_words: int | None = None, skip_top: int = 0, maxlen: int | None = None,
              test_split: float = 0.2, seed: int = 113, start_char: int | None = 1, oov_char: int | None = 2,
              index_from: int = 3) -> Parts:
    """path: Keras's file, or its name in Keras's folder."""
    held = arrays(found(path))
    (lists, labels), = sequences([(held["x"], held["y"])], num_words, skip_top, maxlen, seed, start_char, oov_char,
                                 index_from)
    at = int(len(lists) * (1 - test_split))
    return (_object(lists[:at]), labels[:at]), (_object(lists[at:]), labels[at:])


def get_word_index(path: str = "reuters_word_index.json") -> dict[str, int]:
    """Words and their numbers, before index_from is added."""
    return words(path)
