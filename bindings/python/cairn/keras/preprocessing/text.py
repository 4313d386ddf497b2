"""keras.preprocessing.text: Tokenizer and its kin, which older programs make numbers of texts with."""
from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from typing import Any, Callable, Iterable, Iterator

__all__ = ["Tokenizer", "hashing_trick", "one_hot", "text_to_word_sequence", "tokenizer_from_json"]

_filters = "!\"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n"


def text_to_word_sequence(input_text: str, filters: str = _filters, lower: bool = True, split: str = " ") -> list[str]:
    """The words of a text, without the characters of filters."""
    text = input_text.lower() if lower else input_text
    return [word for word in text.translate({ord(c): split for c in filters}).split(split) if word]


def hashing_trick(text: str, n: int, hash_function: Any = None, filters: str = _filters, lower: bool = True,
                  split: str = " ", analyzer: Callable[[str], list[str]] | None = None) -> list[int]:
    """Each word as a number in [1, n). hash_function: a function, "md5", or None for Python's hash."""
    if hash_function == "md5":
        def hash_function(word: str) -> int:
            return int(hashlib.md5(word.encode()).hexdigest(), 16)
    f = hash_function or hash
    words = text_to_word_sequence(text, filters, lower, split) if analyzer is None else analyzer(text)
    return [f(word) % (n - 1) + 1 for word in words]


def one_hot(input_text: str, n: int, filters: str = _filters, lower: bool = True, split: str = " ",
            analyzer: Callable[[str], list[str]] | None = None) -> list[int]:
    return hashing_trick(input_text, n, hash, filters, lower, split, analyzer)


class Tokenizer:
    """Words by how frequent they are: fit_on_texts() counts them, texts_to_sequences() returns numbers, from 1."""

    def __init__(self, num_words: int | None = None, filters: str = _filters, lower: bool = True, split: str = " ",
                 char_level: bool = False, oov_token: str | None = None,
                 analyzer: Callable[[str], list[str]] | None = None, document_count: int = 0) -> None:
        self.num_words, self.filters, self.lower, self.split = num_words, filters, lower, split
        self.char_level, self.oov_token, self.analyzer = char_level, oov_token, analyzer
        self.document_count = document_count
        self.word_counts: dict[str, int] = {}
        self.word_docs: Counter[str] = Counter()
        self.index_docs: Counter[int] = Counter()
        self.word_index: dict[str, int] = {}
        self.index_word: dict[int, str] = {}

    def _words(self, text: Any) -> Any:
        if self.char_level or isinstance(text, list):
            if not self.lower:
                return text
            return [t.lower() for t in text] if isinstance(text, list) else text.lower()
        if self.analyzer is not None:
            return self.analyzer(text)
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    def fit_on_texts(self, texts: Iterable[Any]) -> None:
        for text in texts:
            self.document_count += 1
            words = self._words(text)
            for word in words:
                self.word_counts[word] = self.word_counts.get(word, 0) + 1
            self.word_docs.update(set(words))
        order = sorted(self.word_counts, key=lambda w: -self.word_counts[w])
        first = [] if self.oov_token is None else [self.oov_token]
        self.word_index = {word: i for i, word in enumerate(first + order, 1)}
        self.index_word = {i: word for word, i in self.word_index.items()}
        for word, n in self.word_docs.items():
            self.index_docs[self.word_index[word]] = n

    def fit_on_sequences(self, sequences: Any) -> None:
        self.document_count += len(sequences)
        for sequence in sequences:
            self.index_docs.update(set(sequence))

    def _known(self, number: int | None) -> int | None:
        """A number, that of what is not known, or none."""
        if number is not None and not (self.num_words and number >= self.num_words):
            return number
        return None if self.oov_token is None else self.word_index.get(self.oov_token)

    def texts_to_sequences_generator(self, texts: Iterable[Any]) -> Iterator[list[int]]:
        for text in texts:
            found = (self._known(self.word_index.get(word)) for word in self._words(text))
            yield [n for n in found if n is not None]

    def texts_to_sequences(self, texts: Iterable[Any]) -> list[list[int]]:
        return list(self.texts_to_sequences_generator(texts))

    def sequences_to_texts_generator(self, sequences: Iterable[Any]) -> Iterator[str]:
        for sequence in sequences:
            found = (self._known(int(n) if int(n) in self.index_word else None) for n in sequence)
            yield " ".join(self.index_word[n] for n in found if n is not None)

    def sequences_to_texts(self, sequences: Iterable[Any]) -> list[str]:
        return list(self.sequences_to_texts_generator(sequences))

    def texts_to_matrix(self, texts: Iterable[Any], mode: str = "binary") -> Any:
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(self, sequences: Any, mode: str = "binary") -> Any:
        """A row for each: binary, count, freq or tfidf of each word."""
        import numpy
        if mode not in ("binary", "count", "freq", "tfidf"):
            raise ValueError("mode is binary, count, freq or tfidf, not %r" % (mode,))
        if not self.num_words and not self.word_index:
            raise ValueError("the Tokenizer knows no words: give num_words, or call fit_on_texts()")
        if mode == "tfidf" and not self.document_count:
            raise ValueError("tfidf needs documents: call fit_on_texts() first")
        wide = self.num_words or len(self.word_index) + 1
        made = numpy.zeros((len(sequences), wide))
        for i, sequence in enumerate(sequences):
            for n, c in Counter(k for k in sequence if k < wide).items():
                if mode == "tfidf":
                    made[i, n] = (1 + math.log(c)) * math.log(
                        1 + self.document_count / (1 + self.index_docs.get(n, 0)))
                else:
                    made[i, n] = {"binary": 1, "count": c, "freq": c / len(sequence)}[mode]
        return made

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {name: getattr(self, name) for name in (
            "num_words", "filters", "lower", "split", "char_level", "oov_token", "document_count")}
        for name in ("word_counts", "word_docs", "index_docs", "index_word", "word_index"):
            config[name] = json.dumps(getattr(self, name))
        return config

    def to_json(self, **kwargs: Any) -> str:
        return json.dumps({"class_name": type(self).__name__, "config": self.get_config()}, **kwargs)


def tokenizer_from_json(json_string: str) -> Tokenizer:
    config = dict(json.loads(json_string)["config"])
    parts = {name: json.loads(config.pop(name)) for name in ("word_counts", "word_docs", "index_docs", "index_word",
                                                             "word_index")}
    made = Tokenizer(**config)
    made.word_counts, made.word_index = parts["word_counts"], parts["word_index"]
    made.word_docs = Counter(parts["word_docs"])
    made.index_docs = Counter({int(k): v for k, v in parts["index_docs"].items()})
    made.index_word = {int(k): v for k, v in parts["index_word"].items()}
    return made
