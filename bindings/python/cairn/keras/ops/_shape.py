"""The shapes of arrays and what is chosen from them: the middle part of keras.ops.numpy."""
from __future__ import annotations

import builtins
from typing import Any

import cairn
from ..._arguments import refused
from ...nn import functional as F
from ._make import dims, floats, op, tensor

_int = cairn.int32  # the type of indices


# ---- shapes ----
@op
def reshape(x: Any, newshape: Any) -> Any:
    wanted = (newshape,) if isinstance(newshape, int) else newshape
    return tensor(x).reshape(tuple(-1 if n is None else int(n) for n in wanted))


@op
def transpose(x: Any, axes: Any = None) -> Any:
    x = tensor(x)
    return x.permute(*(tuple(range(x.ndim))[::-1] if axes is None else axes))


@op
def expand_dims(x: Any, axis: Any) -> Any:
    x = tensor(x)
    axes = (axis,) if isinstance(axis, int) else axis
    for d in sorted(d % (x.ndim + len(axes)) for d in axes):
        x = x.unsqueeze(d)
    return x


@op
def squeeze(x: Any, axis: Any = None) -> Any:
    x = tensor(x)
    for d in (() if axis is None else (axis,) if isinstance(axis, int) else axis):
        if int(x.shape[d]) != 1:
            raise ValueError("squeeze: dimension %d has size %d, not 1" % (d, x.shape[d]))
    return x.squeeze() if axis is None else x.squeeze(axis if isinstance(axis, int) else tuple(axis))


def _joined(xs: Any) -> list[Any]:
    parts = [tensor(x) for x in xs]
    kind = parts[0].dtype
    for p in parts[1:]:
        kind = cairn.promote_types(kind, p.dtype)
    return [p.to(kind) for p in parts]


@op
def concatenate(xs: Any, axis: Any = 0) -> Any:
    return cairn.cat([p.reshape(-1) for p in _joined(xs)] if axis is None else _joined(xs), dim=axis or 0)


@op
def stack(x: Any, axis: int = 0) -> Any:
    return cairn.stack(_joined(x), dim=axis)


@op
def append(x1: Any, x2: Any, axis: int | None = None) -> Any:
    a, b = _joined([x1, x2])
    return cairn.cat([a.reshape(-1), b.reshape(-1)]) if axis is None else cairn.cat([a, b], dim=axis)


hstack, vstack, dstack = (op(lambda xs, f=f: f(_joined(xs)), n) for f, n in (
    (cairn.hstack, "hstack"), (cairn.vstack, "vstack"), (cairn.dstack, "dstack")))


@op
def split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    x, how = tensor(x), indices_or_sections
    if isinstance(how, int) and int(x.shape[axis]) % how:
        raise ValueError("split: %d parts of %d places are not alike; array_split takes them" % (how, x.shape[axis]))
    return list(cairn.tensor_split(x, how if isinstance(how, int) else [int(i) for i in how], dim=axis))


@op
def array_split(x: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    return list(cairn.tensor_split(tensor(x), indices_or_sections, dim=axis))


hsplit, vsplit, dsplit = (op(lambda x, indices_or_sections, f=f: list(f(tensor(x), indices_or_sections)), n)
                          for f, n in ((cairn.hsplit, "hsplit"), (cairn.vsplit, "vsplit"), (cairn.dsplit, "dsplit")))


@op
def tile(x: Any, repeats: Any) -> Any:
    return tensor(x).tile((repeats,) if isinstance(repeats, int) else tuple(int(n) for n in repeats))


@op
def repeat(x: Any, repeats: Any, axis: int | None = None) -> Any:
    return tensor(x).repeat_interleave(repeats if isinstance(repeats, int) else tensor(repeats).long(), axis)


@op
def flip(x: Any, axis: Any = None) -> Any:
    x = tensor(x)
    return x.flip(dims(x, axis))


@op
def roll(x: Any, shift: Any, axis: Any = None) -> Any:
    return cairn.roll(tensor(x), shift, axis)


@op
def rot90(array: Any, k: int = 1, axes: Any = (0, 1)) -> Any:
    return cairn.rot90(tensor(array), k, list(axes))


@op
def get_item(x: Any, key: Any) -> Any:
    return tensor(x)[tuple(key) if isinstance(key, list) else key]


@op
def swapaxes(x: Any, axis1: int, axis2: int) -> Any:
    return tensor(x).transpose(axis1, axis2)


@op
def moveaxis(x: Any, source: Any, destination: Any) -> Any:
    return tensor(x).movedim(source, destination)


@op
def broadcast_to(x: Any, shape: Any) -> Any:
    return tensor(x).expand(tuple(int(n) for n in shape))


@op
def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Any:
    x = tensor(x)
    if isinstance(pad_width, int):
        pad_width = ((pad_width, pad_width),) * x.ndim
    pairs = [(int(a), int(b)) for a, b in pad_width]
    if len(pairs) == 1 and x.ndim > 1:
        pairs *= x.ndim
    if mode == "constant":
        return F.pad(x, [n for pair in pairs[::-1] for n in pair], value=constant_values or 0.0)
    for d, (a, b) in enumerate(pairs):  # reflect and symmetric, one dimension after the other
        if not (a or b):
            continue
        n, off = int(x.shape[d]), 0 if mode == "symmetric" else 1
        if mode not in ("reflect", "symmetric"):
            raise ValueError("pad: mode is constant, reflect or symmetric, not %r" % (mode,))
        places = list(range(a - 1 + off, off - 1, -1)) + list(range(n)) + list(range(n - 1 - off, n - 1 - off - b, -1))
        x = x.index_select(d, cairn.tensor(places))
    return x


# ---- choosing ----
@op
def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    condition = tensor(condition).to(cairn.bool)
    if x1 is None and x2 is None:
        return nonzero(condition)
    a, b = (v if isinstance(v, (int, float)) else tensor(v) for v in (x1, x2))
    return cairn.where(condition, a, b)


@op
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    made = default
    for condition, choice in zip(list(condlist)[::-1], list(choicelist)[::-1]):
        made = cairn.where(tensor(condition).to(cairn.bool), tensor(choice), made)
    return made


@op
def take(x: Any, indices: Any, axis: int | None = None) -> Any:
    x, places = tensor(x), tensor(indices)
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis %= x.ndim
    at = places.reshape(-1).long()
    flat = x.index_select(axis, cairn.where(at < 0, at + int(x.shape[axis]), at))
    return flat.reshape(tuple(x.shape[:axis]) + tuple(places.shape) + tuple(x.shape[axis + 1:]))


@op
def take_along_axis(x: Any, indices: Any, axis: int | None = None) -> Any:
    x, at = tensor(x), tensor(indices).long()
    return x.reshape(-1).gather(0, at.reshape(-1)) if axis is None else cairn.take_along_dim(x, at, axis)


@op
def nonzero(x: Any) -> Any:
    return tensor(x).nonzero().to(_int).transpose(0, 1)


@op
def searchsorted(sorted_sequence: Any, values: Any, side: str = "left") -> Any:
    return cairn.searchsorted(tensor(sorted_sequence), tensor(values), right=side == "right").to(_int)


@op
def digitize(x: Any, bins: Any) -> Any:
    return cairn.bucketize(tensor(x), tensor(bins), right=True).to(_int)


@op
def bincount(x: Any, weights: Any = None, minlength: int = 0, sparse: bool = False) -> Any:
    refused("bincount", "tensors are dense", False, sparse=sparse)
    x, w = tensor(x).long(), None if weights is None else tensor(weights)
    if x.ndim == 1:
        made = cairn.bincount(x, w, minlength)
        return made.to(_int) if w is None else made
    most = builtins.max(int(x.max().item()) + 1, minlength)
    rows = [cairn.bincount(r, None if w is None else w[i], most) for i, r in enumerate(x)]
    return cairn.stack(rows) if w is not None else cairn.stack(rows).to(_int)


def unique(x: Any, sorted: bool = True, return_index: bool = False, return_inverse: bool = False,
           return_counts: bool = False, axis: int | None = None, size: Any = None, fill_value: Any = None) -> Any:
    refused("unique", "results are as long as there are values", size=size, fill_value=fill_value)
    refused("unique", "places of first appearance are not computed", False, return_index=return_index)
    if axis is None:
        return cairn.unique(tensor(x), sorted, return_inverse, return_counts)
    return cairn.unique(tensor(x), sorted, return_inverse, return_counts, axis)


def histogram(x: Any, bins: int = 10, range: Any = None) -> Any:
    x = floats(x)
    low, high = (float(x.min()), float(x.max())) if range is None else range
    high = high if high != low else low + 1.0
    return cairn.histc(x, bins, low, high).to(_int), cairn.linspace(low, high, bins + 1)


@op
def unravel_index(indices: Any, shape: Any) -> Any:
    at, parts = tensor(indices), []
    for n in tuple(shape)[::-1]:
        parts.append(at % n)
        at = at // n
    return tuple(parts[::-1])
