"""Tokenizers: texts as numbers and back, as the models were trained with them.

    tokenizer = cairn.tokenizers.from_file("tokenizer.json")
    ids = tokenizer.encode("Hello")
    batch = tokenizer(["Hello", "a longer one"], padding=True)   # input_ids and attention_mask, as tensors
"""
from __future__ import annotations

import json
import os
from typing import Any, Iterable, Sequence

from . import _C
from ._tensor import Tensor

__all__ = ["Tokenizer", "bpe", "bytes", "chars", "from_file", "from_pretrained", "sentencepiece", "wordpiece"]

_Path = str | os.PathLike[str]
_bytes = bytes


class Tokenizer:
    """Numbers texts as the `tokenizers` library of Hugging Face does. Made by the functions of this module."""

    def __init__(self, native: _C.NativeTokenizer) -> None:
        self._native = native
        found = (native.id(name) for name in ("[PAD]", "<pad>", "<|padding|>"))
        self.pad_token_id: int | None = next((i for i in found if i >= 0), None)
        self._truncation: dict[str, Any] | None = None
        self._padding: dict[str, Any] | None = None
        self._around: tuple[list[int], list[int]] | None = None

    def __len__(self) -> int:
        """One more than the highest number."""
        return len(self._native)

    @property
    def vocab_size(self) -> int:
        return len(self._native)

    def _row(self, text: str | _bytes, special: bool) -> Tensor:
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        return self._native.encode(data, special)

    # ---- cutting and padding, where a tokenizer.json or the program asks for it ----
    @property
    def truncation(self) -> dict[str, Any] | None:
        """What enable_truncation was given."""
        return self._truncation

    @property
    def padding(self) -> dict[str, Any] | None:
        """What enable_padding was given."""
        return self._padding

    def enable_truncation(self, max_length: int, stride: int = 0, strategy: str = "longest_first",
                          direction: str = "right") -> None:
        """encode keeps max_length tokens, marks among them, and drops others at the right or left. stride and strategy
        say something only of what is cut off, and of pairs of texts."""
        _one_of("direction", direction, "right", "left")
        _one_of("strategy", strategy, "longest_first", "only_first", "only_second")
        if max_length < 0 or stride < 0:
            raise ValueError("enable_truncation: max_length and stride are 0 or more")
        self._truncation = {"max_length": max_length, "stride": stride, "strategy": strategy, "direction": direction}

    def no_truncation(self) -> None:
        self._truncation = None

    def enable_padding(self, direction: str = "right", pad_id: int = 0, pad_type_id: int = 0,
                       pad_token: str = "[PAD]", length: int | None = None,
                       pad_to_multiple_of: int | None = None) -> None:
        """encode pads to `length`, encode_batch without one to the longest of its texts."""
        _one_of("direction", direction, "right", "left")
        self._padding = {"length": length, "pad_to_multiple_of": pad_to_multiple_of, "pad_id": pad_id,
                         "pad_token": pad_token, "pad_type_id": pad_type_id, "direction": direction}

    def no_padding(self) -> None:
        self._padding = None

    def _marks(self) -> tuple[list[int], list[int]]:
        """The marks before a text and behind it, found around a text that has none of them itself."""
        if self._around is None:
            marks = self._ids("", True)
            self._around = marks[:(len(marks) + 1) // 2], marks[(len(marks) + 1) // 2:]
            for text in ("a", "1", ".", "e x"):
                body, whole = self._ids(text, False), self._ids(text, True)
                if body and not set(body) & set(marks):
                    before = whole.index(body[0])
                    self._around = whole[:before], whole[before + len(body):]
                    break
        return self._around

    def _ids(self, text: str | _bytes, special: bool) -> list[int]:
        return [int(i) for i in self._row(text, special).tolist()]

    def _cut(self, text: str | _bytes, special: bool, most: int | None, left: bool = False) -> list[int]:
        """The tokens of a text, at most so many."""
        row = self._ids(text, special)
        if most is None or len(row) <= most:
            return row
        before, behind = self._marks() if special else ([], [])
        room = most - len(before) - len(behind)
        if room < 0:
            raise ValueError("truncation to %d tokens leaves no room for the %d marks around a text"
                             % (most, len(before) + len(behind)))
        body = row[len(before):len(row) - len(behind)]
        return before + (body[len(body) - room:] if left else body[:room]) + behind

    def _encode(self, text: str | _bytes, special: bool) -> list[int]:
        how = self._truncation
        if how is None:
            return self._ids(text, special)
        return self._cut(text, special, how["max_length"], how["direction"] == "left")

    def _pad(self, rows: list[list[int]]) -> list[list[int]]:
        how = self._padding
        if how is None:
            return rows
        most: int = how["length"] if how["length"] is not None else max(map(len, rows), default=0)
        step = how["pad_to_multiple_of"]
        if step:
            most = -(-most // step) * step
        fill = [[how["pad_id"]] * (most - len(row)) for row in rows]
        return [f + row if how["direction"] == "left" else row + f for row, f in zip(rows, fill)]

    def encode(self, text: str | _bytes, add_special_tokens: bool = True) -> list[int]:
        """The tokens of a text; add_special_tokens: with the marks at beginning and end that the model wants."""
        return self._pad([self._encode(text, add_special_tokens)])[0]

    def encode_tensor(self, text: str | _bytes, add_special_tokens: bool = True) -> Tensor:
        """The same as a row of int64."""
        if self._truncation or self._padding:
            return _C.tensor(self.encode(text, add_special_tokens), dtype=_C.int64)
        return self._row(text, add_special_tokens)

    def encode_batch(self, texts: Iterable[str | _bytes], add_special_tokens: bool = True) -> list[list[int]]:
        return self._pad([self._encode(text, add_special_tokens) for text in texts])

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
        longest) or "max_length"; truncation cuts to max_length and keeps the marks. What enable_truncation and
        enable_padding say is for encode."""
        single = isinstance(text, str)
        rows = [self._cut(t, add_special_tokens, max_length) if truncation else self._ids(t, add_special_tokens)
                for t in ([text] if isinstance(text, str) else text)]
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


def sentencepiece(path: _Path) -> Tokenizer:
    """SentencePiece's: a .model of Unigram or BPE. No marks are put around texts."""
    return Tokenizer(_C._tokenizer_sentencepiece(os.fspath(path)))


def from_file(path: _Path) -> Tokenizer:
    """A tokenizer.json, with what it says about cutting and padding."""
    made = Tokenizer(_C._tokenizer_json(os.fspath(path)))
    with open(path, encoding="utf-8") as file:
        described = json.load(file)
    cut, pad = described.get("truncation"), described.get("padding")
    if cut:
        strategies = {"LongestFirst": "longest_first", "OnlyFirst": "only_first", "OnlySecond": "only_second"}
        made.enable_truncation(cut["max_length"], cut.get("stride", 0), strategies[cut.get("strategy", "LongestFirst")],
                               cut.get("direction", "Right").lower())
    if pad:
        length = pad["strategy"]["Fixed"] if isinstance(pad["strategy"], dict) else None
        made.enable_padding(pad.get("direction", "Right").lower(), pad["pad_id"], pad["pad_type_id"], pad["pad_token"],
                            length, pad.get("pad_to_multiple_of"))
        made.pad_token_id = pad["pad_id"]
    return made


def _one_of(name: str, value: str, *known: str) -> None:
    if value not in known:
        raise ValueError("%s is one of %s, not %r" % (name, ", ".join(known), value))


def from_pretrained(folder: _Path) -> Tokenizer:
    """What lies in a model's folder: tokenizer.json, vocab.json with merges.txt, vocab.txt, a .model of SentencePiece.
    """
    def path(name: str) -> str:
        return os.path.join(os.fspath(folder), name)

    if os.path.isfile(path("tokenizer.json")):
        return from_file(path("tokenizer.json"))
    if os.path.isfile(path("merges.txt")):
        return bpe(path("vocab.json"), path("merges.txt"))
    if os.path.isfile(path("vocab.txt")):
        return wordpiece(path("vocab.txt"))
    for name in ("tokenizer.model", "spiece.model", "sentencepiece.bpe.model", "spm.model"):
        if os.path.isfile(path(name)):
            return sentencepiece(path(name))
    raise FileNotFoundError("%s has no tokenizer.json, vocab.json with merges.txt, vocab.txt, or model of SentencePiece"
                            % os.fspath(folder))
