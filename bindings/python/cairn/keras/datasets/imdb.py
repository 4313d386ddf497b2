"""keras.datasets.imdb: film reviews as lists of words' numbers, and whether they praise."""
from __future__ import annotations

from ._files import Parts, _object, arrays, found, sequences, words

__all__ = ["get_word_index", "load_data"]


def load_data(path: str = "imdb.npz", num_words: int | None = None, skip_top: int = 0, maxlen: int | None = None,
              seed: int = 113, start_char: int | None = 1, oov_char: int | None = 2, index_from: int = 3) -> Parts:
    """path: Keras's file, or its name in Keras's folder."""
    held = arrays(found(path))
    made = sequences([(held["x_train"], held["y_train"]), (held["x_test"], held["y_test"])], num_words, skip_top,
                     maxlen, seed, start_char, oov_char, index_from)
    return (_object(made[0][0]), made[0][1]), (_object(made[1][0]), made[1][1])


def get_word_index(path: str = "imdb_word_index.json") -> dict[str, int]:
    """Words and their numbers, before index_from is added."""
    return words(path)
