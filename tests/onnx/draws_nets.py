"""Random calls, continued from draws.py: elements at places, products, windows, norms, recurrent networks, quantised
numbers."""

import numpy as np
from draws import BOOL, F32, F64, I8, I32, I64, U8, family, ints

# ---- elements at places ----


@family("Gather GatherElements Scatter ScatterElements")
def gather(d):
    t = d.type(strings=d.name in ("Gather", "GatherElements"))
    x = d.values(d.shape(1, empty=0), t)
    axis = d.axis(x.ndim)
    n = x.shape[axis]
    shape = d.shape(0, 2) if d.name == "Gather" else tuple(d.int(1, s) for s in x.shape)
    at = d.rng.integers(-n if d.opset >= 11 else 0, n, shape).astype(d.one(I32, I64))
    if not d.name.startswith("Scatter"):
        return d.says(x, at, axis=d.maybe(axis) if axis == 0 else axis)
    how = d.maybe(d.one("none", "add", "mul", "max", "min")) if d.has("reduction") else None
    if how in (None, "none"):  # each place once: which write wins is not said
        at = np.argsort(d.rng.random(shape), axis=axis).astype(at.dtype)
    if t.kind == "b" and how is not None:
        how = "none"
        at = np.argsort(d.rng.random(shape), axis=axis).astype(at.dtype)
    if how in ("max", "min") and d.opset < 18:
        how = "add"
    return d.says(x, at, d.values(shape, t), axis=axis, reduction=how)


@family("GatherND ScatterND com.microsoft:GatherND")
def gather_nd(d):
    x = d.values(d.shape(1, empty=0), d.type())
    batch = d.int(0, x.ndim - 1) if d.name == "GatherND" and d.opset >= 12 else 0
    k = d.int(1, x.ndim - batch)
    rows = x.shape[:batch] + d.shape(0, 2, empty=0)
    low = [-n if d.opset >= 11 and ":" not in d.name else 0 for n in x.shape]
    at = np.stack([d.rng.integers(low[batch + i], x.shape[batch + i], rows) for i in range(k)], -1).astype(np.int64)
    if d.name != "ScatterND":
        return d.says(x, at, **d.only(batch_dims=batch))
    places = d.rng.permutation(int(np.prod(x.shape[:k])))
    rows = (d.int(1, len(places)),)
    at = np.stack(np.unravel_index(places[: rows[0]], x.shape[:k]), -1).astype(np.int64)
    how = d.maybe(d.one("none", "add", "mul", "max", "min")) if d.opset >= 18 and x.dtype.kind != "b" else None
    return d.says(x, at, d.values(rows + x.shape[k:], x.dtype), reduction=how)


@family("OneHot")
def one_hot(d):
    depth, t = d.int(1, 5), d.one(F32, I64, I32)
    at = d.rng.integers(-depth, depth + 1, d.shape(0, 3)).astype(d.one(I64, I32, F32))
    d.says(at, np.array([depth], d.one(I64, I32, F32)), d.values((2,), t), axis=d.maybe(d.axis(at.ndim + 1)))


@family("NonZero")
def non_zero(d):
    x = d.values(d.shape(1), d.type(), -1, 1)
    d.says(np.where(d.rng.random(x.shape) < 0.5, x, 0).astype(x.dtype))


@family("Compress")
def compress(d):
    x = d.tensor(d.type(strings=True), least=1)
    axis = d.maybe(d.axis(x.ndim) if d.opset >= 11 else d.int(0, x.ndim - 1))
    d.says(x, d.values((d.int(0, x.size if axis is None else x.shape[axis]),), BOOL), axis=axis)


@family("ReverseSequence")
def reverse_sequence(d):
    x = d.values(d.shape(2, empty=0), d.type())
    time = d.int(0, 1)
    d.says(
        x,
        d.rng.integers(0, x.shape[time] + 1, x.shape[1 - time]).astype(np.int64),
        time_axis=time,
        batch_axis=1 - time,
    )


# ---- products ----


@family("MatMul com.microsoft:FusedMatMul com.microsoft:TransposeMatMul")
def matmul(d):
    t, k, lead = d.type(), d.int(1, 5), d.shape(0, 2)
    a, b = d.values((*lead, d.int(1, 4), k), t), d.values((*d.like(lead), k, d.int(1, 4)), t)
    attrs = {}
    if ":" in d.name:
        attrs = {"alpha": d.maybe(0.5), "transA": d.int(0, 1), "transB": d.int(0, 1)}
        a = a.swapaxes(-1, -2) if attrs["transA"] else a
        b = b.swapaxes(-1, -2) if attrs["transB"] else b
        return d.says(np.ascontiguousarray(a), np.ascontiguousarray(b), **attrs)
    if d.chance(0.2):
        a = d.values((k,), t)
    if d.chance(0.2):
        b = d.values((k,), t)
    return d.says(a, b)


@family("Gemm com.microsoft:FusedGemm")
def gemm(d):
    t = d.type() if ":" not in d.name else F32
    m, k, n = d.int(1, 4), d.int(0 if d.chance(0.05) and ":" not in d.name else 1, 4), d.int(1, 4)
    ta, tb = d.int(0, 1), d.int(0, 1)
    c = d.values(d.one((m, n), (1, n), (n,), (m, 1), (), (1,)) if d.opset >= 7 else (m, n), t)
    numbers = {"alpha": d.maybe(0.5), "beta": d.maybe(2.0)} if t.kind == "f" else {}
    act = {"activation": d.one("Relu", "Sigmoid", "Tanh", "LeakyRelu")} if ":" in d.name else {}
    if act.get("activation") == "LeakyRelu":
        act["activation_alpha"] = 0.2
    d.says(
        d.values((k, m) if ta else (m, k), t),
        d.values((n, k) if tb else (k, n), t),
        c if d.opset < 11 and ":" not in d.name else d.maybe(c, 0.7),
        transA=d.maybe(ta) if not ta else 1,
        transB=tb,
        **numbers,
        **act,
    )


@family("Einsum")
def einsum(d):
    t, b, i, j, k = d.type(), d.int(1, 3), d.int(1, 3), d.int(1, 3), d.int(1, 3)
    sizes = {"b": (b,), "i": (i,), "j": (j,), "k": (k,), "...": (b, 2)}
    text = d.one(
        "ij,jk->ik",
        "bij,bjk->bik",
        "ij->ji",
        "ii->i",
        "ij->",
        "i,j->ij",
        "bij,bij->b",
        "...ij,...jk->...ik",
        "ij,jk",
        "bij->bj",
        "...ij->...i",
        "ij,j,k->ik",
        "bij , bjk -> bki",
        "ii",
    )
    parts = []
    for term in text.replace(" ", "").split("->")[0].split(","):
        letters = term.replace("...", "")
        parts.append(d.values((sizes["..."] if "..." in term else ()) + tuple(sizes[x][0] for x in letters), t))
    d.says(*parts, equation=text)


@family("Det")
def det(d):
    n = d.int(1, 4)
    d.says(d.values((*d.shape(0, 2), n, n), d.type()))


# ---- windows ----


def window(d, dims, sizes, transposed=False):
    """Attributes of a window over these sizes, which it fits."""
    kernel = [d.int(1, min(3, s)) for s in sizes]
    attrs = {"kernel_shape": kernel, "strides": d.maybe([d.int(1, 2) for _ in range(dims)])}
    if d.chance(0.3):
        attrs["auto_pad"] = d.one("SAME_UPPER", "SAME_LOWER", "VALID")
        if attrs[
            "strides"
        ]:  # a longer step than the window asks for less than no padding, which each takes otherwise
            attrs["strides"] = [min(pair) for pair in zip(attrs["strides"], kernel)]
    else:
        attrs["pads"] = d.maybe([d.int(0, (k - 1) // 1 if transposed else k // 2) for k in kernel * 2])
    if "auto_pad" not in attrs and d.has("dilations"):
        attrs["dilations"] = d.maybe([1 if s < 2 * (k - 1) + 1 else d.int(1, 2) for s, k in zip(sizes, kernel)])
    return attrs


@family("Conv com.microsoft:FusedConv")
def conv(d):
    t, dims, group = d.type() if ":" not in d.name else F32, d.int(1, 3), d.int(1, 2)
    sizes = [d.int(3, 7) for _ in range(dims)]
    attrs = window(d, dims, sizes)
    m, c = group * d.int(1, 3), d.int(1, 3)
    x, w = d.values((d.int(0 if d.chance(0.03) else 1, 2), c * group, *sizes), t), d.values(
        (m, c, *attrs["kernel_shape"]), t
    )
    if d.chance():
        attrs.pop("kernel_shape")
    if ":" in d.name:
        attrs["activation"] = d.one("Relu", "Tanh", "Sigmoid")
    d.says(x, w, d.maybe(d.values((m,), t)), group=group, **attrs)


@family("ConvTranspose")
def conv_transpose(d):
    t, dims, group = d.type(), d.int(1, 2), d.int(1, 2)
    sizes = [d.int(2, 4) for _ in range(dims)]
    attrs = window(d, dims, sizes, True)
    c, m = group * d.int(1, 2), d.int(1, 3)
    if attrs.get("strides") and "auto_pad" not in attrs:
        attrs["output_padding"] = d.maybe([d.int(0, max(s, 1) - 1) for s in attrs["strides"]])
    d.says(
        d.values((d.int(1, 2), c, *sizes), t),
        d.values((c, m, *attrs["kernel_shape"]), t),
        d.maybe(d.values((m * group,), t)),
        group=group,
        **attrs,
    )


@family("MaxPool AveragePool LpPool")
def pools(d):
    t, dims = d.type(), d.int(1, 3)
    sizes = [d.int(3, 7) for _ in range(dims)]
    attrs = window(d, dims, sizes)
    attrs.update(
        d.only(
            ceil_mode=d.maybe(d.int(0, 1)) if attrs.get("pads") is None and "auto_pad" not in attrs else None,
            count_include_pad=d.maybe(d.int(0, 1)),
            p=d.maybe(d.int(1, 3)),
            storage_order=d.maybe(d.int(0, 1)),
        )
    )
    x = (
        d.rng.permutation(2 * int(np.prod(sizes))).reshape(1, 2, *sizes).astype(t)
        if d.name == "MaxPool"
        else d.values((d.int(1, 2), 2, *sizes), t)
    )
    d.says(x, outputs=d.int(1, 2) if d.name == "MaxPool" and d.opset >= 8 and t.itemsize > 1 else 1, **attrs)


@family("GlobalAveragePool GlobalMaxPool GlobalLpPool")
def global_pools(d):
    d.says(d.values(d.shape(3, 5, empty=0), d.type()), **({"p": d.maybe(d.int(1, 3))} if "Lp" in d.name else {}))


# ---- norms ----


@family("BatchNormalization")
def batch_norm(d):
    t = d.type()
    x = d.values((d.int(3, 5), *d.shape(1, 3, empty=0)), t)
    c = (x.shape[1],)
    u = F32 if d.opset >= 15 and d.chance(0.2) and t != F64 else t
    training = {"training_mode": 1} if d.opset >= 14 and d.chance(0.3) else {}
    old = {"spatial": 1} if d.opset < 9 and d.chance() else {}
    d.says(
        x,
        d.values(c, t),
        d.values(c, t),
        d.values(c, u),
        d.values(c, u, 0.5, 2),
        epsilon=d.maybe(1e-3),
        momentum=d.maybe(0.8),
        outputs=3 if training else 1,
        **training,
        **old,
    )


@family("InstanceNormalization")
def instance_norm(d):
    t = d.type()
    x = d.values(d.shape(3, 5, empty=0), t)
    d.says(x, d.values((x.shape[1],), t), d.values((x.shape[1],), t), epsilon=d.maybe(1e-3))


@family("LayerNormalization RMSNormalization")
def layer_norm(d):
    t = d.type()
    x = d.values(d.shape(1, empty=0), t)
    axis = d.axis(x.ndim)
    shape = x.shape[axis:] if axis < 0 else x.shape[axis:]
    bias = [d.maybe(d.values(shape, t))] if d.name == "LayerNormalization" else []
    d.says(x, d.values(shape, t), *bias, axis=axis, epsilon=d.maybe(1e-3), outputs=1)


@family("GroupNormalization")
def group_norm(d):
    t, groups = d.type(), d.int(1, 3)
    c = groups * d.int(1, 2)
    size = (c,) if d.opset >= 21 else (groups,)
    x = d.values((d.int(1, 2), c, 3, d.int(2, 4)), t)  # more than a few numbers each, so that none is all rounding
    d.says(x, d.values(size, t), d.values(size, t), num_groups=groups, epsilon=d.maybe(1e-3))


@family("LRN MeanVarianceNormalization LpNormalization")
def other_norms(d):
    x = d.values(d.shape(4, 4, empty=0), d.type())
    attrs = {
        "LRN": {"size": 3, "alpha": d.maybe(0.01), "beta": d.maybe(0.5), "bias": d.maybe(2.0)},
        "LpNormalization": {"axis": d.maybe(d.axis(4)), "p": d.maybe(d.int(1, 2))},
        "MeanVarianceNormalization": {"axes": d.maybe(sorted(a % 4 for a in d.axes(4, 1)))},
    }[d.name]
    d.says(x, **attrs)


# ---- recurrent networks ----


@family("RNN GRU LSTM")
def recurrent(d):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[d.name]
    t, steps, batch, size, hidden, ways = F32, d.int(1, 4), d.int(1, 3), d.int(1, 3), d.int(1, 3), d.int(1, 2)
    direction = "bidirectional" if ways == 2 else d.one("forward", "reverse")
    lens = d.maybe(d.rng.integers(1, steps + 1, batch).astype(np.int32), 0.4)
    state = [d.maybe(d.values((ways, batch, hidden), t))]
    attrs = {"direction": direction, "hidden_size": hidden, "clip": d.maybe(0.7, 0.15)}
    if d.name == "LSTM":
        state += [d.maybe(d.values((ways, batch, hidden), t)), d.maybe(d.values((ways, 3 * hidden), t), 0.3)]
    if d.name == "GRU":
        attrs["linear_before_reset"] = d.int(0, 1)
    if d.chance(0.2):
        f = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"], "LSTM": ["Sigmoid", "Relu", "Tanh"]}[d.name]
        attrs["activations"] = f * ways
    d.says(
        d.values((steps, batch, size), t),
        d.values((ways, gates * hidden, size), t, -1, 1),
        d.values((ways, gates * hidden, hidden), t, -1, 1),
        d.maybe(d.values((ways, 2 * gates * hidden), t, -1, 1)),
        lens,
        *state,
        outputs=3 if d.name == "LSTM" else 2,
        **attrs,
    )


# ---- quantised numbers ----


def small(d, shape, dtype):
    info = np.iinfo(dtype)
    return d.rng.integers(info.min, info.max + 1, shape).astype(dtype)


def scale(d, shape=()):
    return d.values(shape, F32, 0.01, 0.3)


@family("QuantizeLinear com.microsoft:QuantizeLinear")
def quantize(d):
    x = d.values(d.shape(1, empty=0), F32)
    t = d.one(U8, I8, *([np.dtype("i2"), np.dtype("u2")] if d.opset >= 21 else []))
    if d.opset >= 13 and d.chance(0.4):
        axis = d.axis(x.ndim)
        return d.says(x, scale(d, (x.shape[axis],)), small(d, (x.shape[axis],), t), axis=axis)
    return d.says(x, scale(d), small(d, (), t))


@family("DequantizeLinear com.microsoft:DequantizeLinear")
def dequantize(d):
    t = d.one(U8, I8, *([np.dtype("i2"), np.dtype("u2")] if d.opset >= 21 else []))
    x = small(d, d.shape(1), t)
    if d.opset >= 13 and d.chance(0.4):
        axis = d.axis(x.ndim)
        return d.says(x, scale(d, (x.shape[axis],)), small(d, (x.shape[axis],), t), axis=axis)
    return d.says(x, scale(d), d.maybe(small(d, (), t)))


@family("DynamicQuantizeLinear")
def dynamic_quantize(d):
    d.says(d.values(d.shape(1, empty=0), F32, d.one(-3, 0, 1), 3), outputs=3)


@family("MatMulInteger")
def matmul_integer(d):
    a, b, k = d.one(U8, I8), d.one(U8, I8), d.int(1, 6)
    lead = d.shape(0, 2, empty=0)
    n = d.int(1, 4)
    zero = d.one((), (n,))
    d.says(
        small(d, (*lead, d.int(1, 4), k), a),
        small(d, (k, n), b),
        d.maybe(small(d, (), a)),
        d.maybe(small(d, zero, b)),
    )


@family("QLinearMatMul")
def qlinear_matmul(d):
    a, b, k, n = d.one(U8, I8), d.one(U8, I8), d.int(1, 6), d.int(1, 4)
    y = a
    by = d.one((), (n,))
    d.says(
        small(d, (d.int(1, 4), k), a),
        scale(d),
        small(d, (), a),
        small(d, (k, n), b),
        scale(d, by),
        small(d, by, b),
        scale(d),
        small(d, (), y),
    )


@family("ConvInteger QLinearConv")
def conv_integer(d):
    a = U8 if d.name == "ConvInteger" else d.one(U8, I8)
    w, m, c, group = d.one(U8, I8) if a == U8 else I8, d.int(1, 3), d.int(1, 3), d.int(1, 2)
    x, k = small(d, (1, c * group, 5, 4), a), small(d, (m * group, c, 3, 2), w)
    attrs = {"group": group, "pads": d.maybe([1, 0, 1, 1]), "strides": d.maybe([2, 1]), "dilations": d.maybe([1, 2])}
    if d.name == "ConvInteger":
        return d.says(x, k, d.maybe(small(d, (), a)), d.maybe(small(d, (), w)), **attrs)
    by = d.one((), (m * group,))
    return d.says(
        x,
        scale(d),
        small(d, (), a),
        k,
        scale(d, by),
        np.zeros(by, w) if w == I8 else small(d, (), w) + np.zeros(by, w),
        scale(d),
        small(d, (), a),
        d.maybe(d.rng.integers(-99, 99, m * group).astype(I32)),
        **attrs,
    )
