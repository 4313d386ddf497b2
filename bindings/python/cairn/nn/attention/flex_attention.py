"""flex_attention: attention whose scores and masks are functions of the program, torch.nn.attention.flex_attention.

Place in the flow: programs write score_mod(score, b, h, q_idx, kv_idx) and mask_mod(b, h, q_idx, kv_idx) for one score;
here they are called once for many, with indices that broadcast to all of them. Invariant: scores are computed densely,
a run of queries at a time, so that memory does not grow with the square of the length; a query that may look at nothing
gets zeros.
"""
from __future__ import annotations

import inspect
import math
from typing import Any, Callable, NamedTuple

from ... import _C
from ..._arguments import only_speed
from ..._tensor import Tensor

__all__ = ["AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
           "flex_attention", "noop_mask", "or_masks"]

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_MOST = 1 << 24  # scores at a time
_Mask = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
_Score = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
_mask_mod_signature, _score_mod_signature = _Mask, _Score
FlexKernelOptions = dict[str, Any]


class AuxRequest(NamedTuple):
    """What flex_attention is to return besides."""
    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Of each query: the logarithm of the sum of exponentials of its scores, and the largest one."""
    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Masks nothing."""
    like: Tensor = (batch + head + token_q + token_kv) * 0 == 0
    return like


def _identity(score: Tensor, batch: Tensor, head: Tensor, token_q: Tensor,
              token_kv: Tensor) -> Tensor:  # unused: batch, head, token_q, token_kv (a score_mod's)
    return score


def _joined(masks: tuple[_Mask, ...], join: Callable[[Tensor, Tensor], Tensor]) -> _Mask:
    if not masks or not all(map(callable, masks)):
        raise RuntimeError("All inputs should be callable mask_mods: %s" % (masks,))

    def mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        made = masks[0](b, h, q_idx, kv_idx)
        for one in masks[1:]:
            made = join(made, one(b, h, q_idx, kv_idx))
        return made
    return mask


def or_masks(*mask_mods: _Mask) -> _Mask:
    """A mask of what one of them leaves."""
    return _joined(mask_mods, _C.logical_or)


def and_masks(*mask_mods: _Mask) -> _Mask:
    """A mask of what all of them leave."""
    return _joined(mask_mods, _C.logical_and)


def _indices(batch: int, heads: int, first: int, queries: int, keys: int, device: Any) -> tuple[Tensor, ...]:
    """b, h, q_idx, kv_idx, which broadcast to (batch, heads, queries, keys)."""
    sizes = (batch, heads, queries, keys)
    made = []
    for dim, (start, size) in enumerate(zip((0, 0, first, 0), sizes)):
        shape = [1, 1, 1, 1]
        shape[dim] = size
        made.append(_C.arange(start, start + size, device=device).view(shape))
    return tuple(made)


def _takes_scores(mod_fn: Any) -> bool:
    """Is it a score_mod, of five arguments, and no mask_mod?"""
    parameters = inspect.signature(mod_fn).parameters.values()
    return len([p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]) == 5


def create_mask(mod_fn: Any, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None) -> Tensor:
    """The mask (B, H, Q_LEN, KV_LEN) that a mask_mod stands for; of a score_mod the scores that it makes of zeros."""
    batch, heads = B or 1, H or 1
    where = _indices(batch, heads, 0, Q_LEN, KV_LEN, device)
    if _takes_scores(mod_fn):
        made: Tensor = mod_fn(_C.zeros((batch, heads, Q_LEN, KV_LEN), device=device), *where)
        return made.isneginf().logical_not().expand(batch, heads, Q_LEN, KV_LEN)
    mask: Tensor = mod_fn(*where)
    return mask.expand(batch, heads, Q_LEN, KV_LEN)


# ---- masks in blocks ----
def _sizes(block: int | tuple[int, int]) -> tuple[int, int]:
    return (block, block) if isinstance(block, int) else (int(block[0]), int(block[1]))


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Of each row, how many blocks there are, and which, those first."""
    counts = dense.sum(-1).to(_C.int32)
    return counts, dense.to(_C.int32).argsort(dim=-1, descending=True, stable=True).to(_C.int32)


def _dense(counts: Tensor, indices: Tensor, columns: int) -> Tensor:
    """The other way round: (..., rows, columns), 1 where there is a block."""
    valid = _C.arange(0, indices.shape[-1], device=indices.device) < counts[..., None]
    wide = _C.zeros((*indices.shape[:-1], columns + 1), dtype=_C.int32, device=indices.device)
    at = _C.where(valid, indices, columns).to(_C.int64)
    return wide.scatter_(-1, at, _C.ones_like(at, dtype=_C.int32))[..., :columns].contiguous()


class BlockMask:
    """Which blocks of keys each block of queries looks at: some in part, as mask_mod says, some whole."""

    def __init__(self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
                 full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None, BLOCK_SIZE: tuple[int, int],
                 mask_mod: _Mask) -> None:
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        columns = -(-seq_lengths[1] // BLOCK_SIZE[1])
        self._part = _dense(kv_num_blocks, kv_indices, columns)
        self.q_num_blocks, self.q_indices = _ordered(self._part.transpose(-2, -1))
        self._full: Tensor | None = None
        self.full_q_num_blocks: Tensor | None = None
        self.full_q_indices: Tensor | None = None
        if full_kv_num_blocks is not None and full_kv_indices is not None:
            self._full = _dense(full_kv_num_blocks, full_kv_indices, columns)
            self.full_q_num_blocks, self.full_q_indices = _ordered(self._full.transpose(-2, -1))

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
                       full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = 128,
                       mask_mod: _Mask | None = None, seq_lengths: tuple[int, int] | None = None,
                       compute_q_blocks: bool = True) -> BlockMask:
        """From the blocks of keys by blocks of queries."""
        only_speed("BlockMask.from_kv_blocks", True, compute_q_blocks=compute_q_blocks)
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        rows, columns = _sizes(BLOCK_SIZE)
        lengths = seq_lengths or (kv_indices.shape[-2] * rows, kv_indices.shape[-1] * columns)
        return cls(lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, (rows, columns),
                   mask_mod or noop_mask)

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """What it is made of."""
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        return (*lengths, self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices,
                self.q_num_blocks, self.q_indices, self.full_q_num_blocks, self.full_q_indices, *sizes, self.mask_mod)

    def to_dense(self) -> Tensor:
        """1 for each block that is looked at, (..., blocks of queries, blocks of keys)."""
        return self._part if self._full is None else self._part + self._full

    def numel(self) -> int:
        """How many scores a mask of its shape has."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """The percentage of blocks that nobody looks at."""
        dense = self.to_dense()
        return 100 * (1 - float(dense.sum()) / dense.numel())

    def __getitem__(self, index: Any) -> BlockMask:
        """The masks of some batches, heads, or blocks of queries; a number keeps its dimension."""
        given = index if isinstance(index, tuple) else (index,)
        index = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in given)

        def part(t: Tensor | None) -> Any:
            return None if t is None else t[index]
        rows = self.kv_indices[index].shape[-2] * self.BLOCK_SIZE[0]
        length = self.seq_lengths[0] if self.kv_indices[index].shape[-2] == self.kv_indices.shape[-2] else rows
        return BlockMask((length, self.seq_lengths[1]), part(self.kv_num_blocks), part(self.kv_indices),
                         part(self.full_kv_num_blocks), part(self.full_kv_indices), self.BLOCK_SIZE, self.mask_mod)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left corner, for shorter sequences."""
        (rows, columns), (down, across) = self.BLOCK_SIZE, (-(-new_q_len // self.BLOCK_SIZE[0]),
                                                           -(-new_kv_len // self.BLOCK_SIZE[1]))
        part = _ordered(self._part[..., :down, :across] > 0)
        whole = (None, None) if self._full is None else _ordered(self._full[..., :down, :across] > 0)
        return BlockMask((new_q_len, new_kv_len), part[0], part[1], whole[0], whole[1], (rows, columns), self.mask_mod)

    def to(self, device: Any) -> BlockMask:
        """On another device."""
        def moved(t: Tensor | None) -> Any:
            return None if t is None else t.to(device)
        return BlockMask(self.seq_lengths, moved(self.kv_num_blocks), moved(self.kv_indices),
                         moved(self.full_kv_num_blocks), moved(self.full_kv_indices), self.BLOCK_SIZE, self.mask_mod)

    def __repr__(self) -> str:
        return "BlockMask(shape=%s, sparsity=%.2f%%)" % (self.shape, self.sparsity())

    def _rows(self, first: int, count: int, where: tuple[Tensor, ...]) -> Tensor:
        """The mask of some queries."""
        (rows, columns), keys = self.BLOCK_SIZE, self.seq_lengths[1]

        def spread(blocks: Tensor) -> Tensor:
            wide = blocks.repeat_interleave(rows, -2)[..., first:first + count, :]
            mask: Tensor = wide.repeat_interleave(columns, -1)[..., :keys] > 0
            return mask
        mask = spread(self._part) & self.mask_mod(where[0], where[1], where[2], where[3])
        return mask if self._full is None else mask | spread(self._full)


def create_block_mask(mask_mod: _Mask, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
                      BLOCK_SIZE: int | tuple[int,
                                              int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False) -> BlockMask:
    """The blocks of the mask that a function stands for. device: None is the default one."""
    only_speed("create_block_mask", False, _compile=_compile)
    rows, columns = _sizes(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    down, across = -(-Q_LEN // rows), -(-KV_LEN // columns)
    padded = _C.zeros((*mask.shape[:2], down * rows, across * columns), dtype=_C.bool, device=mask.device)
    padded[..., :Q_LEN, :KV_LEN] = mask
    counts = padded.view(*mask.shape[:2], down, rows, across, columns).sum((3, 5))
    full = counts == rows * columns
    part = (counts > 0) & full.logical_not()
    return BlockMask((Q_LEN, KV_LEN), *_ordered(part), *_ordered(full), (rows, columns), mask_mod)


# ---- attention ----
def _checked(query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool) -> None:
    for name, t in (("query", query), ("key", key), ("value", value)):
        if t.ndim != 4:
            raise ValueError("flex_attention: %s must have 4 dimensions (batch, heads, length, size), not %d"
                             % (name, t.ndim))
    if query.dtype != key.dtype or query.dtype != value.dtype:
        raise ValueError("Expected query, key, and value to have the same dtype, but got query.dtype: %s, key.dtype: "
                         "%s, and value.dtype: %s instead." % (query.dtype, key.dtype, value.dtype))
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError("Expect query and key/value to have the same number of heads but got Hq=%d and Hkv=%d. Try "
                         "setting enable_gqa=True for GQA." % (query.shape[1], key.shape[1]))
    if enable_gqa and query.shape[1] % key.shape[1]:
        raise ValueError("Expect number of query heads to be a multiple of kv heads for GQA but got Hq=%d and Hkv=%d."
                         % (query.shape[1], key.shape[1]))
    if block_mask is None:
        return
    have, want = block_mask.seq_lengths, (query.shape[2], key.shape[2])
    if have != want:
        larger = have[0] >= want[0] and have[1] >= want[1]
        raise (RuntimeError if larger else ValueError)(
            "block_mask was created for block_mask.shape=%s but got q_len=%d and kv_len=%d: create a new one for these "
            "lengths%s" % (block_mask.shape, *want,
                           ", or take its corner by block_mask._adjust(q_len, kv_len)" * larger))
    for dim, what in ((0, "batch"), (1, "heads")):
        if len(block_mask.shape) == 4 and block_mask.shape[dim] not in (1, query.shape[dim]):
            raise ValueError("flex_attention: block_mask has %d for %s, and query %d" % (
                block_mask.shape[dim], what, query.shape[dim]))


def _some(query: Tensor, key: Tensor, value: Tensor, first: int, score_mod: _Score, block_mask: BlockMask | None,
          scale: float) -> tuple[Tensor, Tensor, Tensor]:
    """Of some queries: what they get, the logarithm of their sum, and their largest score."""
    work = _C.float64 if query.dtype == _C.float64 else _C.float32
    scores = (query @ key.transpose(-2, -1)).to(work) * scale
    where = _indices(query.shape[0], query.shape[1], first, query.shape[2], key.shape[2], query.device)
    scores = score_mod(scores, *where).to(work)
    if block_mask is not None:
        scores = scores.masked_fill(block_mask._rows(first, query.shape[2], where).logical_not(), -math.inf)
    most = scores.detach().amax(-1, keepdim=True)
    nothing = most.isneginf()
    weights = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    lse = scores.masked_fill(nothing, 0.0).logsumexp(-1).masked_fill(nothing[..., 0], -math.inf)
    return weights.to(query.dtype) @ value, lse, most[..., 0]


def flex_attention(query: Tensor, key: Tensor, value: Tensor, score_mod: _Score | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
                   return_lse: bool = False, kernel_options: FlexKernelOptions | None = None, *,
                   return_aux: AuxRequest | None = None) -> Any:
    """softmax(score_mod(query @ key.T * scale)) @ value over (batch, heads, length, size), where block_mask lets it.
    enable_gqa: several heads of queries share one of keys. return_lse: (result, logarithms of the sums); return_aux:
    (result, AuxOutput)."""
    only_speed("flex_attention", kernel_options=kernel_options)
    _checked(query, key, value, block_mask, enable_gqa)
    if return_aux is not None and return_lse:
        raise ValueError("Cannot specify both return_lse and return_aux. return_lse is deprecated, please use "
                         "return_aux "
                         "instead.")
    repeats = query.shape[1] // key.shape[1]
    if repeats > 1:
        key, value = key.repeat_interleave(repeats, 1), value.repeat_interleave(repeats, 1)
    if key.shape[0] != query.shape[0]:
        key, value = (t.expand(query.shape[0], *t.shape[1:]) for t in (key, value))
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    rows = max(1, _MOST // max(1, query.shape[0] * query.shape[1] * key.shape[2]))
    parts = [_some(query[:, :, first:first + rows], key, value, first, score_mod or _identity, block_mask, factor)
             for first in range(0, max(1, query.shape[2]), rows)]
    out, lse, most = (column[0] if len(column) == 1 else _C.cat(list(column), 2) for column in zip(*parts))
    if return_aux is not None:
        return out, AuxOutput(lse if return_aux.lse else None, most if return_aux.max_scores else None)
    return (out, lse) if return_lse else out
