"""Tokenizers: texts as numbers and back, as the models were trained with them.

    tokenizer = cairn.tokenizers.from_file("tokenizer.json")
    ids = tokenizer.encode("Hello")
    batch = tokenizer(["Hello", "a longer one"], padding=True)   # input_ids and attention_mask, as tensors
"""
from __future__ import annotations

import os
from typing import Any, Iterable, Sequence

from . import _C
from ._tensor import Tensor

__all__ = ["Tokenizer", "bpe", "bytes", "chars", "from_file", "from_pretrained", "wordpiece"]

_Path = str | os.PathLike[str]
_bytes = bytes


class Tokenizer:
    """Numbers texts as the `tokenizers` library of Hugging Face does. Made by the functions of this module."""

    def __init__(self, native: _C.NativeTokenizer) -> None:
        self._native = native
        found = (native.id(name) for name in ("[PAD]", "<pad>", "<|padding|>"))
        self.pad_token_id: int | None = next((i for i in found if i >= 0), None)

    def __len__(self) -> int:
        """One more than the highest number."""
        return len(self._native)

    @property
    def vocab_size(self) -> int:
        return len(self._native)

    def _row(self, text: str | _bytes, special: bool) -> Tensor:
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        return self._native.encode(data, special)

    def encode(self, text: str | _bytes, add_special_tokens: bool = True) -> list[int]:
        """The tokens of a text; add_special_tokens: with the marks at beginning and end that the model wants."""
        return [int(i) for i in self._row(text, add_special_tokens).tolist()]

    def encode_tensor(self, text: str | _bytes, add_special_tokens: bool = True) -> Tensor:
        """The same as a row of int64."""
        return self._row(text, add_special_tokens)

    def encode_batch(self, texts: Iterable[str | _bytes], add_special_tokens: bool = True) -> list[list[int]]:
        return [self.encode(text, add_special_tokens) for text in texts]

    def decode_bytes(self, ids: Sequence[int] | Tensor, skip_special_tokens: bool = False) -> _bytes:
        """The text of tokens, as it is."""
        row = ids if isinstance(ids, Tensor) else _C.tensor(list(ids), dtype=_C.int64)
        return self._native.decode(row.to(_C.int64).cpu().reshape(-1), skip_special_tokens)

    def decode(self, ids: Sequence[int] | Tensor, skip_special_tokens: bool = False) -> str:
        """The text of tokens; what is not UTF-8 becomes U+FFFD."""
        return self.decode_bytes(ids, skip_special_tokens).decode("utf-8", "replace")

    def decode_batch(self, rows: Iterable[Sequence[int] | Tensor], skip_special_tokens: bool = False) -> list[str]:
        return [self.decode(row, skip_special_tokens) for row in rows]

    batch_decode = decode_batch

    def token_to_id(self, token: str) -> int | None:
        found = self._native.id(token)
        return found if found >= 0 else None

    def id_to_token(self, id: int) -> str | None:
        return self._native.token(id)

    def __call__(self, text: str | Sequence[str], padding: bool | str = False, truncation: bool = False,
                 max_length: int | None = None, add_special_tokens: bool = True,
                 return_tensors: str | None = "pt") -> dict[str, Any]:
        """input_ids and attention_mask of one text or several. Several of different lengths need padding=True (to the
        longest) or "max_length"; truncation cuts to max_length and keeps the last mark."""
        single = isinstance(text, str)
        rows = [self._cut(self.encode(t, add_special_tokens), max_length if truncation else None,
                          add_special_tokens) for t in ([text] if isinstance(text, str) else text)]
        masks = [[1] * len(row) for row in rows]
        if padding:
            longest = max_length if padding == "max_length" and max_length else max(map(len, rows), default=0)
            pad = 0 if self.pad_token_id is None else self.pad_token_id
            masks = [m + [0] * (longest - len(m)) for m in masks]
            rows = [row + [pad] * (longest - len(row)) for row in rows]
        found: dict[str, Any] = {"input_ids": rows, "attention_mask": masks}
        if return_tensors is not None:
            if len({len(row) for row in rows}) > 1:
                raise ValueError("the texts have different numbers of tokens: padding=True makes them alike")
            return {k: _C.tensor(v, dtype=_C.int64) for k, v in found.items()}
        return {k: v[0] for k, v in found.items()} if single else found

    def _cut(self, row: list[int], most: int | None, special: bool) -> list[int]:
        if most is None or len(row) <= most:
            return row
        marks = self.encode("", True) if special else []
        behind = marks[(len(marks) + 1) // 2:]  # of [CLS] [SEP] the second
        return row[:most - len(behind)] + behind

    def __repr__(self) -> str:
        return "Tokenizer(vocab_size=%d)" % len(self)


def bytes() -> Tokenizer:
    """A token a byte: 0 to 255."""
    return Tokenizer(_C._tokenizer_bytes())


def chars(text: str) -> Tokenizer:
    """The characters of a text, sorted."""
    return Tokenizer(_C._tokenizer_chars(text.encode("utf-8")))


def bpe(vocab: _Path, merges: _Path) -> Tokenizer:
    """GPT-2's: vocab.json and merges.txt."""
    return Tokenizer(_C._tokenizer_bpe(os.fspath(vocab), os.fspath(merges)))


def wordpiece(vocab: _Path, lower: bool = True) -> Tokenizer:
    """BERT's: vocab.txt. lower: letters are made small and lose their accents before."""
    return Tokenizer(_C._tokenizer_wordpiece(os.fspath(vocab), lower))


def from_file(path: _Path) -> Tokenizer:
    """A tokenizer.json of either kind."""
    return Tokenizer(_C._tokenizer_json(os.fspath(path)))


def from_pretrained(folder: _Path) -> Tokenizer:
    """What lies in a model's folder: tokenizer.json, vocab.json with merges.txt, or vocab.txt."""
    def path(name: str) -> str:
        return os.path.join(os.fspath(folder), name)

    if os.path.isfile(path("tokenizer.json")):
        return from_file(path("tokenizer.json"))
    if os.path.isfile(path("merges.txt")):
        return bpe(path("vocab.json"), path("merges.txt"))
    if os.path.isfile(path("vocab.txt")):
        return wordpiece(path("vocab.txt"))
    raise FileNotFoundError("%s has no tokenizer.json, vocab.json with merges.txt, or vocab.txt" % os.fspath(folder))
