"""ctc_decode: the labels that the outputs of a CTC model (Graves et al., 2006) stand for, by the best step each time or
by a search over prefixes. A prefix is reached by paths that end with a blank and by paths that end with its last label;
both are added up, as the same label again makes a new one behind a blank alone."""
from __future__ import annotations

import math
from typing import Any

import cairn
from ...nn import functional as F
from ._make import floats, tensor

__all__ = ["ctc_decode"]

_NONE = float("-inf")
Prefixes = dict[tuple[int, ...], tuple[float, float]]  # -> logarithms of the paths that end with a blank, with a label


def ctc_decode(inputs: Any, sequence_lengths: Any, strategy: str = "greedy", beam_width: int = 100, top_paths: int = 1,
               merge_repeated: bool = True, mask_index: int = 0) -> Any:
    """inputs: scores (batch, time, classes). greedy: the best label of each step, repeats (with merge_repeated) and
    blanks left out, as (1, batch, time), and minus its scores (batch, 1). beam_search: the top_paths most likely
    sequences that a search over beam_width prefixes finds, (top_paths, batch, time), and the logarithms of their
    probabilities (batch, top_paths). -1 stands behind the end."""
    x, lengths = floats(inputs), [int(n) for n in tensor(sequence_lengths).reshape(-1)]
    if strategy == "beam_search":
        if not merge_repeated:
            raise ValueError("ctc_decode: beam_search merges repeated labels; merge_repeated=False is for greedy")
        if not 1 <= top_paths <= beam_width:
            raise ValueError("ctc_decode: top_paths=%r is not between 1 and beam_width=%r" % (top_paths, beam_width))
        return _searched(x, lengths, beam_width, top_paths, mask_index)
    if strategy != "greedy":
        raise ValueError("ctc_decode: strategy is greedy or beam_search, not %r" % (strategy,))
    if beam_width != 100 or top_paths != 1:
        raise ValueError("ctc_decode: beam_width and top_paths are for strategy='beam_search'")
    return _greedy(x, lengths, merge_repeated, mask_index)


def _greedy(x: Any, lengths: list[int], merge_repeated: bool, blank: int) -> Any:
    best, scores = x.argmax(-1), x.amax(-1)
    made = cairn.full(tuple(best.shape), -1, dtype=cairn.int32)
    total = []
    for i, n in enumerate(lengths):
        row = [int(k) for k in best[i, :n]]
        kept = [k for t, k in enumerate(row) if k != blank and not (merge_repeated and t and row[t - 1] == k)]
        if kept:
            made[i, :len(kept)] = cairn.tensor(kept, dtype=cairn.int32)
        total.append(-scores[i, :n].sum())
    return made.unsqueeze(0), cairn.stack(total).unsqueeze(-1)


def _searched(x: Any, lengths: list[int], width: int, top: int, blank: int) -> Any:
    rows = F.log_softmax(x, dim=-1).tolist()
    made = cairn.full((top, int(x.shape[0]), int(x.shape[1])), -1, dtype=cairn.int32)
    scores = cairn.full((int(x.shape[0]), top), _NONE, dtype=x.dtype)
    for i, n in enumerate(lengths):
        held: Prefixes = {(): (0.0, _NONE)}
        for step in rows[i][:n]:
            held = _kept(_stepped(held, step, blank), width)
        for k, (labels, ends) in enumerate(_kept(held, top).items()):
            scores[i, k] = _sum(*ends)
            if labels:
                made[k, i, :len(labels)] = cairn.tensor(labels, dtype=cairn.int32)
    return made, scores


def _stepped(held: Prefixes, step: list[float], blank: int) -> Prefixes:
    """All prefixes one step on, with the paths that lead to each added up."""
    made: Prefixes = {}

    def add(labels: tuple[int, ...], in_blank: float, in_label: float) -> None:
        b, e = made.get(labels, (_NONE, _NONE))
        made[labels] = _sum(b, in_blank), _sum(e, in_label)
    for labels, (b, e) in held.items():
        for k, score in enumerate(step):
            if k == blank:
                add(labels, _sum(b, e) + score, _NONE)
            elif labels and labels[-1] == k:
                add(labels, _NONE, e + score)
                add(labels + (k,), _NONE, b + score)
            else:
                add(labels + (k,), _NONE, _sum(b, e) + score)
    return made


def _kept(held: Prefixes, width: int) -> Prefixes:
    """The most likely, best first; of equals those of smaller labels."""
    order = sorted((labels for labels in held if _sum(*held[labels]) > _NONE),
                   key=lambda labels: (-_sum(*held[labels]), labels))
    return {labels: held[labels] for labels in order[:width]}


def _sum(a: float, b: float) -> float:
    """The logarithm of the sum of what two logarithms stand for."""
    high, low = max(a, b), min(a, b)
    return high if low == _NONE else high + math.log1p(math.exp(low - high))
