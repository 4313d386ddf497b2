"""What is neither numpy's nor a network's: types, parts of tensors, loops, segments."""
from __future__ import annotations

import builtins
from typing import Any

import cairn
from ..._arguments import only_speed, refused
from ..._training.batches import flatten, mapped
from .._graph import KerasTensor
from ..backend import dtype_of
from ._make import floats, op, reduction, tensor, unary

erf, erfc, rsqrt = unary(cairn.erf, "erf"), unary(cairn.erfc, "erfc"), unary(cairn.rsqrt, "rsqrt")
erfinv = unary(cairn.erfinv, "erfinv")
logsumexp = reduction(lambda x, d, k: x.logsumexp(d, keepdim=k), "logsumexp", True)


@op
def cast(x: Any, dtype: Any) -> Any:
    return tensor(x).to(dtype_of(dtype))


@op
def saturate_cast(x: Any, dtype: Any) -> Any:
    """A cast after which what is too large is the largest."""
    x, kind = tensor(x), dtype_of(dtype)
    if kind.is_floating_point or kind == cairn.bool:
        return x.to(kind)
    info = cairn.iinfo(kind)
    return x.clamp(info.min, info.max).to(kind)


@op
def stop_gradient(variable: Any) -> Any:
    return tensor(variable).detach()


def convert_to_tensor(x: Any, dtype: Any = None, sparse: Any = None, ragged: Any = None) -> Any:
    refused("convert_to_tensor", "tensors are dense", sparse=sparse or None, ragged=ragged or None)
    if isinstance(x, KerasTensor):
        return x
    return tensor(x) if dtype is None else tensor(x).to(dtype_of(dtype))


def convert_to_numpy(x: Any) -> Any:
    return tensor(x).detach().cpu().numpy()


def is_tensor(x: Any) -> bool:
    return isinstance(x, (cairn.Tensor, KerasTensor))


def shape(x: Any) -> tuple[Any, ...]:
    return tuple(x.shape if hasattr(x, "shape") else tensor(x).shape)


def dtype(x: Any) -> str:
    return str(x.dtype if hasattr(x, "dtype") else tensor(x).dtype).rpartition(".")[2]


@op
def unstack(x: Any, num: int | None = None, axis: int = 0) -> Any:
    parts = list(tensor(x).unbind(axis))
    if num is not None and num != len(parts):
        raise ValueError("unstack: there are %d parts along axis %d, not num=%d" % (len(parts), axis, num))
    return parts


@op
def top_k(x: Any, k: int, sorted: bool = True) -> Any:
    values, places = tensor(x).topk(k, -1, True, sorted)
    return values, places.to(cairn.int32)


@op
def in_top_k(targets: Any, predictions: Any, k: int) -> Any:
    p, t = floats(predictions), tensor(targets).long().unsqueeze(-1)
    return (p > p.gather(-1, t)).sum(-1) < k


@op
def scatter(indices: Any, values: Any, shape: Any) -> Any:
    values = tensor(values)
    made = cairn.zeros(tuple(int(n) for n in shape), dtype=values.dtype)
    places = tensor(indices).long().unbind(-1)
    return made.index_put(tuple(places), values, accumulate=True)


@op
def scatter_update(inputs: Any, indices: Any, updates: Any, reduction: str | None = None) -> Any:
    x, places = tensor(inputs), tuple(tensor(indices).long().unbind(-1))
    new = tensor(updates).to(x.dtype)
    if reduction in (None, "add"):
        return x.index_put(places, new, accumulate=reduction == "add")
    raise NotImplementedError("scatter_update: the reduction is None or 'add', not %r" % (reduction,))


def _window(start: Any, sizes: Any) -> tuple[Any, ...]:
    return tuple(builtins.slice(int(a), int(a) + int(n)) for a, n in zip(start, sizes))


@op
def slice(inputs: Any, start_indices: Any, shape: Any) -> Any:
    x = tensor(inputs)
    sizes = [int(x.shape[i]) - int(start_indices[i]) if int(n) == -1 else n for i, n in enumerate(shape)]
    return x[_window(start_indices, sizes)]


@op
def slice_update(inputs: Any, start_indices: Any, updates: Any) -> Any:
    made = tensor(inputs).clone()
    made[_window(start_indices, tensor(updates).shape)] = tensor(updates).to(made.dtype)
    return made


# ---- segments ----
def _segments(name: str, first: float, how: str) -> Any:
    def of(data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False) -> Any:
        only_speed(name, False, sorted=sorted)
        x, at = tensor(data), tensor(segment_ids).long()
        many = int(at.max().item()) + 1 if num_segments is None else num_segments
        start = first if x.dtype.is_floating_point else {"amax": _low, "amin": _high}.get(how, lambda k: first)(x.dtype)
        made = cairn.full((many,) + tuple(x.shape[1:]), start, dtype=x.dtype)
        places = at.reshape((-1,) + (1,) * (x.ndim - 1)).expand_as(x)
        return made.scatter_reduce(0, places, x, how)
    return op(of, name)


def _low(kind: Any) -> int:
    return int(cairn.iinfo(kind).min)


def _high(kind: Any) -> int:
    return int(cairn.iinfo(kind).max)


segment_sum, segment_prod = _segments("segment_sum", 0, "sum"), _segments("segment_prod", 1, "prod")
segment_max = _segments("segment_max", float("-inf"), "amax")
segment_min = _segments("segment_min", float("inf"), "amin")


@op
def extract_sequences(x: Any, sequence_length: int, sequence_stride: int) -> Any:
    return tensor(x).unfold(-1, sequence_length, sequence_stride)


# ---- loops: Python's ----
def cond(pred: Any, true_fn: Any, false_fn: Any) -> Any:
    return true_fn() if bool(pred) else false_fn()


def switch(index: Any, branches: Any, *operands: Any) -> Any:
    at = builtins.min(builtins.max(int(index), 0), len(branches) - 1)
    return branches[at](*operands)


def while_loop(cond: Any, body: Any, loop_vars: Any, maximum_iterations: int | None = None) -> Any:
    many = isinstance(loop_vars, (list, tuple))
    now, done = tuple(loop_vars) if many else (loop_vars,), 0
    while bool(cond(*now)) and (maximum_iterations is None or done < maximum_iterations):
        made = body(*now)
        now, done = tuple(made) if isinstance(made, (list, tuple)) else (made,), done + 1
    return now if many else now[0]


def fori_loop(lower: Any, upper: Any, body_fun: Any, init_val: Any) -> Any:
    for i in range(int(lower), int(upper)):
        init_val = body_fun(i, init_val)
    return init_val


def _stacked(parts: list[Any]) -> Any:
    first = parts[0]
    if first is None:
        return None
    columns = [cairn.stack([tensor(v) for v in column]) for column in zip(*[flatten(p) for p in parts])]
    rest = iter(columns)
    return mapped(lambda _: next(rest), first)


def map(f: Any, xs: Any) -> Any:
    """f of each part along dimension 0."""
    n = len(flatten(xs)[0])
    return _stacked([f(mapped(lambda t: t[i], mapped(tensor, xs))) for i in range(n)])


def vectorized_map(function: Any, elements: Any) -> Any:
    return map(function, elements)


def scan(f: Any, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False, unroll: int = 1) -> Any:
    """f(carry, x) -> (carry, y), along dimension 0; the last carry and all y."""
    only_speed("scan", 1, unroll=unroll)
    n = length if xs is None else len(flatten(xs)[0])
    made: list[Any] = []
    order = range(n or 0)
    for i in reversed(order) if reverse else order:
        init, y = f(init, None if xs is None else mapped(lambda t: tensor(t)[i], xs))
        made.append(y)
    return init, _stacked(made[::-1] if reverse else made)


def associative_scan(f: Any, elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    parts = [mapped(lambda t: tensor(t).select(axis, i), elems) for i in range(int(flatten(elems)[0].shape[axis]))]
    made: list[Any] = []
    for part in parts[::-1] if reverse else parts:
        made.append(part if not made else f(made[-1], part))
    whole = _stacked(made[::-1] if reverse else made)
    return mapped(lambda t: t.movedim(0, axis), whole)


def custom_gradient(f: Any) -> Any:
    """f(*args) -> (result, grad), where grad(upstream) returns the gradients of the arguments."""
    class Own(cairn.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            out, ctx.back = f(*args)
            return out

        @staticmethod
        def backward(ctx: Any, *upstream: Any) -> Any:
            return ctx.back(*upstream) if len(upstream) > 1 else ctx.back(upstream[0])
    return lambda *args: Own.apply(*args)


@op
def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """einops's patterns of names and brackets: "b (h w) c -> b h w c"."""
    left, right = ([part for part in side.replace("(", " ( ").replace(")", " ) ").split()]
                   for side in pattern.split("->"))

    def groups(words: list[str]) -> list[list[str]]:
        made: list[list[str]] = []
        inside: list[str] | None = None
        for w in words:
            if w == "(":
                inside = []
            elif w == ")":
                made.append(inside or [])
                inside = None
            elif inside is not None:
                inside.append(w)
            else:
                made.append([w])
        return made
    sizes = dict(axes_lengths)
    source = groups(left)
    for names, n in zip(source, tensor.shape):
        open_ = [a for a in names if a not in sizes]
        known = 1
        for a in names:
            known *= sizes.get(a, 1)
        if len(open_) == 1:
            sizes[open_[0]] = int(n) // known
    flat = [a for names in source for a in names]
    x = tensor.reshape(tuple(sizes[a] for a in flat))
    target = groups(right)
    x = x.permute(*[flat.index(a) for names in target for a in names])
    shape_ = []
    for names in target:
        n = 1
        for a in names:
            n *= sizes[a]
        shape_.append(n)
    return x.reshape(tuple(shape_))
