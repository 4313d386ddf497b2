"""Texts and categories as numbers: StringLookup, IntegerLookup, TextVectorization, Hashing, HashedCrossing.

A vocabulary is a list: its first places are for what is masked and for what is not known. adapt() makes it of data, the
most frequent first; of tokens as frequent, the last in order first.
"""
from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any, Iterator

import cairn
from ..._arguments import only_speed, refused
from ..._training.batches import to_tensor
from ..._training.strings import Strings, is_text, strings_of
from .base import Layer
from .hashes import crossed, fingerprint, siphash
from .prepare import encoded

__all__ = ["HashedCrossing", "Hashing", "IntegerLookup", "StringLookup", "TextVectorization"]


def _rows(data: Any, steps: int | None) -> Iterator[Any]:
    """Data as batches: arrays and lists are one."""
    if is_text(data) or isinstance(data, (cairn.Tensor, Strings)) or hasattr(data, "__array__") \
            or hasattr(data, "to_numpy") or isinstance(data, (list, tuple)) and not any(
                hasattr(v, "shape") and len(v.shape) for v in data):
        refused("adapt", "it is for data sets of batches, not for arrays and lists", steps=steps)
        yield data
        return
    for i, batch in enumerate(data):
        if steps is not None and i >= steps:
            return
        yield batch[0] if isinstance(batch, tuple) else batch


def _salted(salt: Any) -> list[int] | None:
    if salt is None or isinstance(salt, (list, tuple)) and len(salt) == 2:
        return None if salt is None else [int(v) for v in salt]
    if isinstance(salt, int):
        return [salt, salt]
    raise ValueError("salt is a number or two of them, not %r" % (salt,))


def _bin(text: str, bins: int, salt: list[int] | None) -> int:
    data = text.encode("utf-8")
    return (fingerprint(data) if salt is None else siphash(data, (salt[0], salt[1]))) % bins


class _Prepare(Layer):
    """Called on texts or numbers, in lists too."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*(self._taken(a) for a in args[:1]), *args[1:], **kwargs)

    def _taken(self, value: Any) -> Any:
        from .._graph import has_symbol
        if has_symbol(value) or isinstance(value, (cairn.Tensor, Strings)):
            return value
        if is_text(value):
            return strings_of(value)
        return cairn.tensor(value) if isinstance(value, (int, list, tuple)) else to_tensor(value)

    def _prepared(self, value: Any) -> Any:
        return value


class _Adapts(_Prepare):
    """One with a vocabulary that data can make."""

    def adapt(self, data: Any, batch_size: int | None = None, steps: int | None = None) -> None:
        """Makes the vocabulary of data: a list or array of texts, or batches (or pairs with them first). steps: how
        many batches of a data set."""
        only_speed("adapt", batch_size=batch_size)
        self.reset_state()
        for batch in _rows(data, steps):
            self.update_state(batch)
        self.finalize_state()
        self.reset_state()

    def reset_state(self) -> None:
        raise NotImplementedError

    def update_state(self, data: Any) -> None:
        raise NotImplementedError

    def finalize_state(self) -> None:
        raise NotImplementedError


class _Lookup(_Adapts):
    """Tokens as places in a vocabulary, or with invert=True places as tokens."""

    integers = False

    def _start(self, max_tokens: int | None, num_oov_indices: int, mask_token: Any, oov_token: Any, vocabulary: Any,
               idf_weights: Any, invert: bool, output_mode: str, sparse: bool, pad_to_max_tokens: bool,
               salt: Any) -> None:
        output_mode = {"binary": "multi_hot", "tf-idf": "tf_idf"}.get(output_mode, output_mode)
        if output_mode not in ("int", "one_hot", "multi_hot", "count", "tf_idf"):
            raise ValueError("output_mode is int, one_hot, multi_hot, count or tf_idf, not %r" % (output_mode,))
        if max_tokens is not None and max_tokens <= 1:
            raise ValueError("max_tokens is more than 1, not %r" % (max_tokens,))
        if pad_to_max_tokens and max_tokens is None:
            raise ValueError("pad_to_max_tokens=True needs max_tokens")
        if invert and output_mode != "int":
            raise ValueError("output_mode is int with invert=True, not %r" % (output_mode,))
        if sparse:
            raise ValueError("outputs are dense: %s(sparse=True) is not there" % type(self).__name__)
        self._options(max_tokens=max_tokens, num_oov_indices=num_oov_indices, mask_token=mask_token,
                      oov_token=oov_token, invert=invert, output_mode=output_mode, pad_to_max_tokens=pad_to_max_tokens)
        self.salt = _salted(salt)
        self._tokens: list[Any] = []
        self._places: dict[Any, int] = {}
        self._weights: Any = None
        self.reset_state()
        if vocabulary is not None:
            if output_mode == "tf_idf" and idf_weights is None:
                raise ValueError("a vocabulary with output_mode='tf_idf' needs idf_weights")
            self.set_vocabulary(vocabulary, idf_weights)
        self.built = True

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        config["vocabulary"] = list(self._tokens) or None
        config["idf_weights"] = None if self._weights is None else self._weights[self._first():][:len(self._tokens)]
        return config

    # ---- vocabulary ----
    def _first(self) -> int:
        """The place of the first token: behind those for what is masked and what is not known."""
        masked = 1 if self.mask_token is not None and self.output_mode == "int" else 0
        return masked + int(self.num_oov_indices)

    def _plain(self, token: Any) -> Any:
        if self.integers:
            return int(token)
        return token.decode("utf-8") if isinstance(token, bytes) else str(token)

    def get_vocabulary(self, include_special_tokens: bool = True) -> list[Any]:
        if not include_special_tokens:
            return list(self._tokens)
        masked = self._first() - self.num_oov_indices
        return [self.mask_token] * masked + [self.oov_token] * self.num_oov_indices + list(self._tokens)

    def vocabulary_size(self) -> int:
        return self._first() + len(self._tokens)

    vocab_size = vocabulary_size

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        """Tokens in order (those for masked and unknown ones may come first), or a file with one in each line."""
        if isinstance(vocabulary, str):
            with open(vocabulary, encoding="utf-8") as lines:
                vocabulary = lines.read().splitlines()
        if hasattr(vocabulary, "tolist"):
            vocabulary = vocabulary.tolist()
        tokens = [self._plain(t) for t in vocabulary]
        if not tokens:
            raise ValueError("the vocabulary is empty")
        head = self.get_vocabulary()[:self._first()]
        given = None if idf_weights is None else [float(w) for w in idf_weights]
        if tokens[:len(head)] == head and head:
            tokens, given = tokens[len(head):], given if given is None else given[len(head):]
        twice = [t for t, n in Counter(tokens).items() if n > 1]
        if twice:
            raise ValueError("the vocabulary has %r more than once" % (twice[0],))
        if self.mask_token is not None and self.mask_token in tokens:
            raise ValueError("the mask token %r is in the middle of the vocabulary" % (self.mask_token,))
        if self.max_tokens is not None and len(head) + len(tokens) > self.max_tokens:
            raise ValueError("the vocabulary has %d tokens, more than max_tokens=%d"
                             % (len(head) + len(tokens), self.max_tokens))
        if (given is not None) != (self.output_mode == "tf_idf"):
            raise ValueError("idf_weights belong to output_mode='tf_idf'")
        self._learn(tokens, given)

    def _learn(self, tokens: list[Any], weights: list[float] | None) -> None:
        first = self._first()
        self._tokens = tokens
        self._places = {t: i + first for i, t in enumerate(tokens)}
        if weights is not None:
            mean = sum(weights) / len(weights)
            self._weights = [mean] * first + weights
            if self.pad_to_max_tokens:
                self._weights += [0.0] * (self.max_tokens - len(self._weights))

    # ---- learning it ----
    def reset_state(self) -> None:
        self._counts: Counter[Any] = Counter()
        self._documents: Counter[Any] = Counter()
        self._seen = 0

    def _documents_of(self, batch: Any) -> list[list[Any]]:
        """Tokens of each row of a batch."""
        batch = self._taken(batch)
        if batch.ndim < 2:
            return [[t] for t in _leaves(batch)]
        n = int(batch.shape[0])
        flat = _leaves(batch)
        step = len(flat) // max(n, 1)
        return [flat[i * step:(i + 1) * step] for i in range(n)]

    def update_state(self, data: Any) -> None:
        for row in self._documents_of(data):
            row = [self._plain(t) for t in row]
            self._counts.update(row)
            self._documents.update(set(row))
            self._seen += 1

    def finalize_state(self) -> None:
        if not self._seen:
            return  # nothing was counted: the vocabulary stays
        for special in (self.mask_token, self.oov_token):
            self._counts.pop(special, None)
        order = sorted(self._counts.items(), key=lambda kept: (
            kept[1], kept[0] if self.integers else kept[0].encode("utf-8")), reverse=True)
        tokens = [t for t, _ in order]
        if self.max_tokens is not None:
            tokens = tokens[:self.max_tokens - self._first()]
        weights = [math.log(1.0 + self._seen / (1.0 + self._documents[t])) for t in tokens]
        self._learn(tokens, weights if self.output_mode == "tf_idf" and tokens else None)

    # ---- calls ----
    def place(self, token: Any) -> int:
        """Of a token; -1 for what is masked and does not count."""
        token = self._plain(token)
        if self.mask_token is not None and token == self.mask_token:
            return 0 if self.output_mode == "int" else -1
        found = self._places.get(token)
        if found is not None:
            return found
        if self.num_oov_indices == 0:
            raise ValueError("%s: %r is not in the vocabulary, and num_oov_indices=0 leaves no place for it"
                             % (self.name, token))
        start = self._first() - int(self.num_oov_indices)
        return start if self.num_oov_indices == 1 else start + self._unknown(token)

    def _unknown(self, token: Any) -> int:
        return _bin(str(token), int(self.num_oov_indices), self.salt)

    def token(self, place: int) -> Any:
        known = self.get_vocabulary()
        return known[place] if 0 <= place < len(known) else self.oov_token

    def encode(self, places: Any) -> Any:
        """Places (..., T) in the output mode."""
        if self.output_mode == "int":
            return places
        depth = self.max_tokens if self.pad_to_max_tokens else self.vocabulary_size()
        mode = "count" if self.output_mode == "tf_idf" else self.output_mode
        dtype = cairn.int64 if self.output_mode != "tf_idf" else None
        out = encoded(places, mode, depth, dtype=dtype)
        return out * cairn.tensor(self._weights) if self.output_mode == "tf_idf" else out

    def call(self, inputs: Any) -> Any:
        shape = tuple(int(n) for n in inputs.shape)
        if not self._tokens and not self.invert:
            return self.encode(cairn.zeros(shape, dtype=cairn.int64) + (self._first() - self.num_oov_indices))
        flat = _leaves(inputs)
        if not self.invert:
            return self.encode(cairn.tensor([self.place(t) for t in flat], dtype=cairn.int64).reshape(shape))
        made = [self.token(int(i)) for i in flat]
        return cairn.tensor(made).reshape(shape) if self.integers else Strings([str(t) for t in made], shape)


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, Strings):
        return value.flat
    return list(value.detach().cpu().reshape(-1).tolist())


class StringLookup(_Lookup):
    _not_options = ("sparse", "idf_weights", "vocabulary")

    def __init__(self, max_tokens: int | None = None, num_oov_indices: int = 1, mask_token: str | None = None,
                 oov_token: str = "[UNK]", vocabulary: Any = None, idf_weights: Any = None, invert: bool = False,
                 output_mode: str = "int", pad_to_max_tokens: bool = False, sparse: bool = False,
                 encoding: str = "utf-8", name: str | None = None, salt: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        refused("StringLookup", "texts are Unicode", "utf-8", encoding=encoding)
        self._options(encoding=encoding)
        self._start(max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, idf_weights, invert, output_mode,
                    sparse, pad_to_max_tokens, salt)


class IntegerLookup(_Lookup):
    integers = True
    _not_options = ("sparse", "idf_weights", "vocabulary")

    def __init__(self, max_tokens: int | None = None, num_oov_indices: int = 1, mask_token: int | None = None,
                 oov_token: int = -1, vocabulary: Any = None, vocabulary_dtype: str = "int64", idf_weights: Any = None,
                 invert: bool = False, output_mode: str = "int", sparse: bool = False, pad_to_max_tokens: bool = False,
                 oov_method: str = "floormod", salt: Any = None, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if oov_method not in ("floormod", "farmhash"):
            raise ValueError("oov_method is floormod or farmhash, not %r" % (oov_method,))
        refused("IntegerLookup", "tokens are int64", "int64", vocabulary_dtype=vocabulary_dtype)
        self._options(oov_method=oov_method, vocabulary_dtype=vocabulary_dtype)
        self._start(max_tokens, num_oov_indices, mask_token, oov_token, vocabulary, idf_weights, invert, output_mode,
                    sparse, pad_to_max_tokens, salt)

    def _unknown(self, token: Any) -> int:
        return int(token % self.num_oov_indices) if self.oov_method == "floormod" else super()._unknown(token)


class TextVectorization(_Adapts):
    """Texts as places of their tokens, or as what a bag of them holds. standardize and split: how tokens come about;
    functions get numpy's array of texts and return one (standardize), or a list of tokens for each (split)."""

    _not_options = ("sparse", "ragged", "idf_weights", "vocabulary")

    def __init__(self, max_tokens: int | None = None, standardize: Any = "lower_and_strip_punctuation",
                 split: Any = "whitespace", ngrams: Any = None, output_mode: str = "int",
                 output_sequence_length: int | None = None, pad_to_max_tokens: bool = False, vocabulary: Any = None,
                 idf_weights: Any = None, sparse: bool = False, ragged: bool = False, encoding: str = "utf-8",
                 name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if not callable(standardize) and standardize not in (None, "lower_and_strip_punctuation", "lower",
                                                             "strip_punctuation"):
            raise ValueError("standardize is lower_and_strip_punctuation, lower, strip_punctuation, None or a "
                             "function, not %r" % (standardize,))
        if not callable(split) and split not in (None, "whitespace", "character"):
            raise ValueError("split is whitespace, character, None or a function, not %r" % (split,))
        if sparse or ragged:
            raise ValueError("outputs are dense rows: sparse=True and ragged=True are not there")
        refused("TextVectorization", "texts are Unicode", "utf-8", encoding=encoding)
        if output_sequence_length is not None and output_mode != "int":
            raise ValueError("output_sequence_length belongs to output_mode='int'")
        self._options(max_tokens=max_tokens, standardize=standardize, split=split, ngrams=ngrams,
                      output_mode=output_mode, output_sequence_length=output_sequence_length,
                      pad_to_max_tokens=pad_to_max_tokens, encoding=encoding)
        self.__dict__["_lookup"] = StringLookup(
            max_tokens, vocabulary=vocabulary, idf_weights=idf_weights, pad_to_max_tokens=pad_to_max_tokens,
            mask_token="", output_mode=output_mode, encoding=encoding, name=self.name + "_lookup")
        self.output_mode = self._lookup.output_mode
        self.built = True

    def get_config(self) -> dict[str, Any]:
        inner = self._lookup.get_config()
        return {**super().get_config(), "vocabulary": inner["vocabulary"], "idf_weights": inner["idf_weights"]}

    # ---- tokens ----
    def tokens(self, inputs: Any) -> list[list[str]]:
        """Of each text."""
        texts = strings_of(inputs) if not isinstance(inputs, Strings) else inputs
        if self.split is None and texts.ndim == 2:
            rows, step = int(texts.shape[0]), int(texts.shape[1])
            flat = self._standard(texts.flat)
            made = [flat[i * step:(i + 1) * step] for i in range(rows)]
        else:
            if texts.ndim > 1 and texts.shape[-1] != 1:
                raise ValueError("%s splits texts: inputs are (samples) or (samples, 1), not of shape %s"
                                 % (self.name, tuple(texts.shape)))
            made = self._split(self._standard(texts.flat))
        return [self._grams(row) for row in made] if self.ngrams is not None else made

    def _standard(self, texts: list[str]) -> list[str]:
        how = self.standardize
        if callable(how):
            return [t.decode("utf-8") if isinstance(t, bytes) else str(t) for t in _listed(how(_as_array(texts)))]
        if how in ("lower", "lower_and_strip_punctuation"):
            texts = [_lower(t) for t in texts]
        if how in ("strip_punctuation", "lower_and_strip_punctuation"):
            texts = [_marks.sub("", t) for t in texts]
        return texts

    def _split(self, texts: list[str]) -> list[list[str]]:
        if callable(self.split):
            return [[str(t) for t in _listed(row)] for row in _listed(self.split(_as_array(texts)))]
        if self.split is None:
            return [[t] for t in texts]
        return [t.split() if self.split == "whitespace" else list(t) for t in texts]

    def _grams(self, row: list[str]) -> list[str]:
        """Runs of tokens: of 1 to n of them, or of the lengths that a tuple names."""
        sizes = range(1, self.ngrams + 1) if isinstance(self.ngrams, int) else self.ngrams
        return [" ".join(row[i:i + n]) for n in sizes for i in range(len(row) - n + 1)]

    # ---- vocabulary ----
    def get_vocabulary(self, include_special_tokens: bool = True) -> list[str]:
        return list(self._lookup.get_vocabulary(include_special_tokens))

    def vocabulary_size(self) -> int:
        return int(self._lookup.vocabulary_size())

    def set_vocabulary(self, vocabulary: Any, idf_weights: Any = None) -> None:
        self._lookup.set_vocabulary(vocabulary, idf_weights)

    def reset_state(self) -> None:
        self._lookup.reset_state()

    def update_state(self, data: Any) -> None:
        for row in self.tokens(self._taken(data)):
            self._lookup._counts.update(row)
            self._lookup._documents.update(set(row))
            self._lookup._seen += 1

    def finalize_state(self) -> None:
        self._lookup.finalize_state()

    def call(self, inputs: Any) -> Any:
        place = self._lookup.place
        if self._lookup._tokens:
            rows = [[place(t) for t in row] for row in self.tokens(inputs)]
        else:
            rows = [[self._lookup._first() - 1] * len(row) for row in self.tokens(inputs)]
        if self.output_mode != "int":
            return self._bags(rows)
        length = self.output_sequence_length or max((len(r) for r in rows), default=0)
        made = [r[:length] + [0] * (length - len(r)) for r in rows]
        return cairn.tensor(made, dtype=cairn.int64).reshape(len(rows), length)

    def _bags(self, rows: list[list[int]]) -> Any:
        longest = max((len(r) for r in rows), default=0)
        if longest == 0:
            rows, longest = [[-1]] * len(rows), 1
        return self._lookup.encode(cairn.tensor([r + [-1] * (longest - len(r)) for r in rows], dtype=cairn.int64))


_marks = re.compile(r"[!\"#$%&()*+,\-./:;<=>?@\[\\\]^_`{|}~']")


def _lower(text: str) -> str:
    """As it is done to bytes: other letters than a to z stay."""
    return text.lower() if text.isascii() else "".join(c.lower() if c.isascii() else c for c in text)


def _as_array(texts: list[str]) -> Any:
    try:
        import numpy
    except ImportError:
        return texts
    return numpy.array(texts, dtype=str)


def _listed(value: Any) -> list[Any]:
    return list(value.tolist() if hasattr(value, "tolist") else value)


# ---- hashes ----
class Hashing(_Prepare):
    """Texts and integers as one of num_bins numbers, without a vocabulary. mask_value is bin 0."""

    _not_options = ("sparse",)

    def __init__(self, num_bins: int, mask_value: Any = None, salt: Any = None, output_mode: str = "int",
                 sparse: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if num_bins is None or num_bins <= 0:
            raise ValueError("num_bins is positive, not %r" % (num_bins,))
        if output_mode not in ("int", "one_hot", "multi_hot", "count"):
            raise ValueError("output_mode is int, one_hot, multi_hot or count, not %r" % (output_mode,))
        if sparse:
            raise ValueError("outputs are dense: Hashing(sparse=True) is not there")
        self._options(num_bins=num_bins, mask_value=mask_value, output_mode=output_mode)
        self.salt = _salted(salt)
        self.built = True

    def _number(self, value: Any) -> int:
        masked = self.mask_value is not None and self.num_bins > 1
        if masked and value == self.mask_value:
            return 0
        text = value if isinstance(value, str) else str(int(value))
        return _bin(text, self.num_bins - 1, self.salt) + 1 if masked else _bin(text, self.num_bins, self.salt)

    def call(self, inputs: Any) -> Any:
        shape = tuple(int(n) for n in inputs.shape)
        places = cairn.tensor([self._number(v) for v in _leaves(inputs)], dtype=cairn.int64).reshape(shape)
        return places if self.output_mode == "int" else encoded(places, self.output_mode, self.num_bins)


class HashedCrossing(_Prepare):
    """Combinations of two categories or more, called on a tuple of them, as one of num_bins numbers."""

    _not_options = ("sparse",)

    def __init__(self, num_bins: int, output_mode: str = "int", sparse: bool = False, name: str | None = None,
                 dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype, **kwargs)
        if output_mode not in ("int", "one_hot"):
            raise ValueError("output_mode is int or one_hot, not %r" % (output_mode,))
        if num_bins is None or num_bins <= 0:
            raise ValueError("num_bins is positive, not %r" % (num_bins,))
        if sparse:
            raise ValueError("outputs are dense: HashedCrossing(sparse=True) is not there")
        self._options(num_bins=num_bins, output_mode=output_mode)
        self.built = True

    def _taken(self, value: Any) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) < 2:
            raise ValueError("HashedCrossing is called on a list of two inputs or more")
        return [super(HashedCrossing, self)._taken(v) for v in value]

    def call(self, inputs: Any) -> Any:
        def number(value: Any) -> int:
            return fingerprint(value.encode("utf-8")) if isinstance(value, str) else int(value)
        shape = tuple(int(n) for n in inputs[0].shape)
        columns = [_leaves(v) for v in inputs]
        made = [crossed([number(v) for v in row]) % self.num_bins for row in zip(*columns)]
        places = cairn.tensor(made, dtype=cairn.int64).reshape(shape)
        return places if self.output_mode == "int" else encoded(places, "one_hot", self.num_bins)
