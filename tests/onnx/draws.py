"""Random calls of ONNX's operators, for tests/onnx/differ.py: of each operator inputs and attributes that its schema
allows, with empty tensors, tensors of no dimensions, broadcasting, negative axes and inputs that are left out.

A function per family takes a Draw and says what it makes by the operator's name and the opset. Invariant: the same
random numbers give the same call.
"""

import numpy as np

F32, F64, F16 = np.dtype("f4"), np.dtype("f8"), np.dtype("f2")
I32, I64, U8, I8, BOOL = np.dtype("i4"), np.dtype("i8"), np.dtype("u1"), np.dtype("i1"), np.dtype("?")
KINDS = {
    "tensor(float)": F32,
    "tensor(double)": F64,
    "tensor(float16)": F16,
    "tensor(int32)": I32,
    "tensor(int64)": I64,
    "tensor(uint8)": U8,
    "tensor(int8)": I8,
    "tensor(bool)": BOOL,
    "tensor(int16)": np.dtype("i2"),
    "tensor(uint16)": np.dtype("u2"),
    "tensor(uint32)": np.dtype("u4"),
    "tensor(uint64)": np.dtype("u8"),
    "tensor(string)": np.dtype("O"),
}
FAMILIES = {}


def family(*names):
    """Registers a function for the operators of these names, "domain:Name" where it is not ONNX's own."""

    def put(function):
        for name in " ".join(names).split():
            FAMILIES[name] = function
        return function

    return put


class Draw:
    """What a family asks for: numbers, shapes, types; and what it says: inputs, attributes, how many results."""

    def __init__(self, rng, name, opset, schema):
        self.rng, self.name, self.opset, self.schema = rng, name, opset, schema
        self.inputs, self.attrs, self.outputs, self.first = [], {}, 1, opset

    def says(self, *inputs, outputs=1, **attrs):
        self.inputs, self.outputs = list(inputs), outputs
        self.attrs = {key: value for key, value in attrs.items() if value is not None}

    # ---- choices ----
    def chance(self, p=0.5):
        return self.rng.random() < p

    def one(self, *of):
        return of[int(self.rng.integers(len(of)))]

    def int(self, low, high):
        """low .. high, both of them."""
        return int(self.rng.integers(low, high + 1))

    def maybe(self, value, p=0.5):
        """value, or None, which leaves it out."""
        return value if self.chance(p) else None

    def has(self, attribute):
        return attribute in self.schema.attributes

    def only(self, **attrs):
        """Those of them that this opset's operator has."""
        return {key: value for key, value in attrs.items() if self.has(key)}

    # ---- shapes and values ----
    def shape(self, least=0, most=4, empty=0.04, largest=4):
        rank = self.int(least, most)
        sizes = [self.int(1, largest) for _ in range(rank)]
        if rank and self.chance(empty):
            sizes[self.int(0, rank - 1)] = 0
        return tuple(sizes)

    def types(self, i=0):
        """Types that input i can have."""
        said = self.schema.inputs[min(i, len(self.schema.inputs) - 1)].types
        return sorted((KINDS[kind] for kind in said if kind in KINDS), key=str)

    def type(self, i=0, floats=False, strings=False):
        of = [t for t in self.types(i) if (strings or t.kind != "O") and (not floats or t.kind == "f")]
        return F32 if F32 in of and self.chance(0.4) else self.one(*of)

    def values(self, shape, dtype=F32, low=-3, high=3, special=0.0):
        dtype = np.dtype(dtype)
        if dtype.kind == "O":
            return np.array(
                [self.one("", "a", "bc", "ü", "a b", "abc") for _ in range(int(np.prod(shape)))], dtype=object
            ).reshape(shape)
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        if dtype.kind == "u":
            return self.rng.integers(0, high * 3 + 1, shape).astype(dtype)
        if dtype.kind == "i":
            return self.rng.integers(low * 3, high * 3 + 1, shape).astype(dtype)
        made = (self.rng.random(shape) * (high - low) + low).astype(dtype)
        if special and made.size and self.chance(special):
            made.flat[self.int(0, made.size - 1)] = self.one(np.nan, np.inf, -np.inf, -0.0)
        return made

    def tensor(self, dtype=None, least=0, most=4, **options):
        return self.values(self.shape(least, most), self.type() if dtype is None else dtype, **options)

    def like(self, shape):
        """A shape that broadcasts with it."""
        made = [1 if self.chance(0.25) else n for n in shape]
        return tuple(made[self.int(0, len(made)) if self.chance(0.4) else 0 :])

    def axis(self, rank):
        return self.int(-rank, rank - 1) if rank else 0

    def axes(self, rank, least=0):
        """Different ones, some from the end."""
        some = self.rng.permutation(rank)[: self.int(min(least, rank), rank)]
        return [int(a) - rank if self.chance(0.3) else int(a) for a in some]


def ints(*values):
    return np.array(values, dtype=np.int64).reshape(len(values))


# ---- element by element ----


@family(
    "Abs Ceil Floor Exp Neg Not Reciprocal Relu Sigmoid Sign Sin Cos Tan Sinh Cosh Asin Acos Atan Asinh Atanh Erf",
    "Tanh Softplus Softsign HardSwish Mish IsNaN Identity Round BitwiseNot Size com.microsoft:Gelu",
    "com.microsoft:QuickGelu",
)
def unary(d):
    special = 0 if d.name == "Sign" else 0.1  # the sign of what is no number is not said
    d.says(d.tensor(d.type(strings=d.name in ("Identity", "Size")), special=special))


@family("Log Sqrt Acosh")
def positive(d):
    d.says(d.tensor(low=1, high=4))


@family("Elu LeakyRelu Celu Selu HardSigmoid ThresholdedRelu Shrink Swish Gelu IsInf")
def with_numbers(d):
    said = {
        "Elu": ["alpha"],
        "LeakyRelu": ["alpha"],
        "Celu": ["alpha"],
        "Selu": ["alpha", "gamma"],
        "Swish": ["alpha"],
        "HardSigmoid": ["alpha", "beta"],
        "ThresholdedRelu": ["alpha"],
        "Shrink": ["lambd", "bias"],
    }
    attrs = {key: d.maybe(float(np.float32(d.rng.random() + 0.2))) for key in said.get(d.name, [])}
    if d.name == "Gelu":
        attrs["approximate"] = d.maybe(d.one("none", "tanh"))
    if d.name == "IsInf":
        attrs = {key: d.maybe(d.int(0, 1)) for key in ("detect_negative", "detect_positive")}
    d.says(d.tensor(special=0 if d.name == "Gelu" else 0.2), **attrs)


@family(
    "Add Sub Mul Div Pow And Or Xor Equal Greater Less GreaterOrEqual LessOrEqual BitwiseAnd BitwiseOr BitwiseXor",
    "PRelu Mod BitShift StringConcat",
)
def binary(d):
    t = d.type(strings=d.name in ("Equal", "StringConcat"))
    shape = d.shape()
    other = d.like(shape)
    a, b = d.values(shape, t), d.values(other, t)
    attrs = {}
    if d.name == "Pow":
        b = d.values(other, d.type(1) if d.opset >= 12 else t, low=0, high=1)
        a = np.abs(a) if a.dtype.kind != "u" else a
    if d.name in ("Div", "Mod"):
        b = np.where(np.abs(b.astype("f8")) < 0.5, 1, b).astype(t)
    if d.name == "Mod":
        attrs["fmod"] = 1 if t.kind == "f" else d.maybe(d.int(0, 1))
    if d.name == "BitShift":
        attrs["direction"] = d.one("LEFT", "RIGHT")
        b = (b % (8 * t.itemsize)).astype(t)
    if d.name not in ("PRelu", "Pow") and d.chance(0.3):
        a, b = b, a
        if d.name in ("Div", "Mod"):
            b = np.where(np.abs(b.astype("f8")) < 0.5, 1, b).astype(t)
    d.says(a, b, **attrs)


@family("Max Min Sum Mean")
def several(d):
    t, shape = d.type(), d.shape()
    d.says(*[d.values(shape if i == 0 or d.opset < 8 else d.like(shape), t, special=0.1) for i in range(d.int(1, 3))])


@family("Where")
def where(d):
    t, shape = d.type(1, strings=True), d.shape()
    d.says(d.values(d.like(shape), BOOL), d.values(shape, t), d.values(d.like(shape), t))


@family("Clip")
def clip(d):
    t = d.type()
    low, high = d.values((), t, -2, 0), d.values((), t, 0, 2)
    if d.opset < 11:
        d.says(d.tensor(t), min=d.maybe(float(low)), max=d.maybe(float(high)))
    else:
        d.says(d.tensor(t), d.maybe(low), d.maybe(high))


@family("Softmax LogSoftmax Hardmax")
def softmax(d):
    x = d.tensor(least=1)
    d.says(x, axis=d.maybe(d.axis(x.ndim) if d.opset >= 11 else d.int(0, x.ndim - 1)) if x.ndim > 1 else 0)


# ---- along axes ----


@family(
    "ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceSumSquare"
)
def reduce(d):
    x = d.tensor(d.type(floats="Log" in d.name), low=0.2 if "Log" in d.name else -2, high=2)
    if (x.dtype.kind != "f" or d.name == "ReduceSumSquare") and (not x.size or x.dtype.kind == "u"):
        x = np.ones((2, 1), np.int64)
    axes = d.axes(x.ndim) if d.opset >= 11 else [a % x.ndim for a in d.axes(x.ndim)]
    keep = d.maybe(d.int(0, 1))
    if d.has("axes"):
        d.says(x, axes=axes or None, keepdims=keep)
    else:
        axes = ints(*axes) if axes or d.chance() else None
        d.says(x, axes, keepdims=keep, noop_with_empty_axes=d.maybe(d.int(0, 1)))


@family("ArgMax ArgMin")
def arg(d):
    t = d.type()
    x = d.values(d.shape(1, empty=0), t) if d.chance() else d.values(d.shape(1, empty=0), t, 0, 1)
    d.says(
        x,
        axis=d.maybe(d.axis(x.ndim) if d.opset >= 11 else d.int(0, x.ndim - 1)),
        keepdims=d.maybe(d.int(0, 1)),
        **d.only(select_last_index=d.maybe(d.int(0, 1))),
    )


@family("CumSum CumProd")
def cumulative(d):
    x = d.tensor(least=1)
    axis = np.array(d.axis(x.ndim), d.one(I32, I64))
    d.says(x, axis, exclusive=d.maybe(d.int(0, 1)), reverse=d.maybe(d.int(0, 1)))


@family("TopK")
def top_k(d):
    shape = d.shape(1, empty=0)
    x = d.rng.permutation(int(np.prod(shape))).reshape(shape).astype(d.type(0))
    axis = d.axis(x.ndim) if d.opset >= 11 else d.int(0, x.ndim - 1)
    k = d.int(1, x.shape[axis])
    attrs = d.only(largest=d.maybe(d.int(0, 1)), sorted=1)
    if d.opset < 10:
        d.says(x, k=k, axis=axis, outputs=2)
    else:
        d.says(x, ints(k), axis=axis, outputs=2, **attrs)


@family("Unique")
def unique(d):
    x = d.values(d.shape(1, 3, empty=0), d.type(strings=True), -1, 1)
    x = np.round(x) if x.dtype.kind == "f" else x
    d.says(x, axis=d.maybe(d.axis(x.ndim)), sorted=d.maybe(d.int(0, 1)), outputs=4)


# ---- shapes ----


@family("Reshape")
def reshape(d):
    x = d.tensor(d.type(strings=True))
    sizes = [int(n) for n in d.rng.permutation([x.size, 1, 1][: d.int(1, 3)])]
    if d.chance(0.4) and x.ndim > 1 and x.size:
        sizes = [x.shape[0] if d.chance() else 0, -1]
    elif x.size and d.chance():
        sizes[d.int(0, len(sizes) - 1)] = -1 if x.size else x.size
        if -1 in sizes and x.size not in sizes and sizes.count(1) != len(sizes) - 1:
            sizes = [-1]
    attrs = {"allowzero": 1} if d.has("allowzero") and x.size == 0 else {}
    if d.opset < 5:
        d.says(x, shape=sizes)
    elif x.size or attrs:
        d.says(x, ints(*(sizes if x.size else x.shape[::-1])), **attrs)
    else:
        d.says(x, ints(*[0 for _ in x.shape]))


@family("Transpose")
def transpose(d):
    x = d.tensor(d.type(strings=True))
    d.says(x, perm=d.maybe([int(i) for i in d.rng.permutation(x.ndim)], 0.7) if x.ndim else None)


@family("Squeeze Unsqueeze")
def squeeze(d):
    shape, n = d.shape(most=3), d.int(1, 2)
    rank = len(shape) + n
    axes = [int(a) - rank if d.opset >= 11 and d.chance(0.3) else int(a) for a in d.rng.permutation(rank)[:n]]
    x = d.values(shape, d.type(strings=True))
    if d.name == "Squeeze":
        for a in sorted(a % rank for a in axes):
            x = np.expand_dims(x, a)
        axes = d.maybe(axes, 0.8)
    if d.opset < 13:
        d.says(x, axes=axes)
    else:
        d.says(x, None if axes is None else ints(*axes))


@family("Flatten")
def flatten(d):
    x = d.tensor(least=1)
    d.says(x, axis=d.maybe(d.int(-x.ndim if d.opset >= 11 else 0, x.ndim)))


@family("Expand")
def expand(d):
    x = d.tensor(d.type(strings=True))
    sizes = [1 if n != 1 and d.chance(0.2) else d.int(1, 3) if n == 1 else n for n in x.shape]
    sizes = [d.int(1, 3)] * d.int(0, 1) + sizes[d.int(0, len(sizes)) if d.chance(0.2) else 0 :]
    d.says(x, ints(*sizes))


@family("Tile")
def tile(d):
    x = d.tensor(d.type(strings=True), least=1)
    d.says(x, ints(*[d.int(0 if d.chance(0.1) else 1, 3) for _ in x.shape]))


@family("Concat")
def concat(d):
    t, shape = d.type(strings=True), d.shape(1)
    axis = d.axis(len(shape)) if d.opset >= 11 else d.int(0, len(shape) - 1)
    parts = []
    for _ in range(d.int(1, 3)):
        sizes = list(shape)
        sizes[axis] = d.int(0 if d.chance(0.2) else 1, 3)
        parts.append(d.values(tuple(sizes), t))
    d.says(*parts, axis=axis)


@family("Split")
def split(d):
    x = d.tensor(d.type(strings=True), least=1)
    axis = d.axis(x.ndim) if d.opset >= 11 else d.int(0, x.ndim - 1)
    size, n = x.shape[axis], d.int(1, 3)
    if d.opset >= 18 and d.chance():
        n = min(n, max(size, 1))
        return d.says(x, axis=axis, num_outputs=n, outputs=n)
    if size % n == 0 and d.chance() and d.opset < 18:
        return d.says(x, axis=axis, outputs=n)
    ends = sorted(d.int(0, size) for _ in range(n - 1))
    sizes = [b - a for a, b in zip([0, *ends], [*ends, size])]
    return (
        d.says(x, axis=axis, split=sizes, outputs=n)
        if d.opset < 13
        else d.says(x, ints(*sizes), axis=axis, outputs=n)
    )


@family("Slice")
def slice_(d):
    x = d.tensor(d.type(strings=True), least=1)
    axes = d.axes(x.ndim, 1) if d.opset >= 10 else [a % x.ndim for a in d.axes(x.ndim, 1)]
    starts = [d.int(-6, 6) for _ in axes]
    ends = [d.one(d.int(-6, 6), 2**31 - 1, 2**63 - 1, -(2**31)) for _ in axes]
    if d.opset < 10:
        return d.says(x, starts=starts, ends=ends, axes=axes)
    t = d.one(np.int32, np.int64)
    if t == np.int32:
        ends = [max(min(e, 2**31 - 1), -(2**31)) for e in ends]
    steps = [d.one(1, 2, -1, -2, 3) for _ in axes]
    return d.says(x, np.array(starts, t), np.array(ends, t), np.array(axes, t), d.maybe(np.array(steps, t)))


@family("Pad com.microsoft:Pad")
def pad(d):
    t = d.type()
    x = d.values(d.shape(1, empty=0), t)
    mode = d.one("constant", "reflect", "edge", *(["wrap"] if d.opset >= 19 and ":" not in d.name else []))
    least = -1 if mode == "constant" and d.chance(0.2) else 0
    axes = d.axes(x.ndim, 1) if d.opset >= 18 and d.chance() and ":" not in d.name else None
    sizes = [x.shape[a] for a in (range(x.ndim) if axes is None else axes)]
    pads = [d.int(max(least, 1 - n), (n - 1) if mode == "reflect" else 2) for n in sizes] + [
        d.int(0, (n - 1) if mode == "reflect" else 2) for n in sizes
    ]
    if d.opset < 11 and ":" not in d.name:
        return d.says(x, pads=pads, mode=mode, value=d.maybe(1.5))
    value = d.maybe(d.values((), t))
    return d.says(x, ints(*pads), value, None if axes is None else ints(*axes), mode=mode)


@family("DepthToSpace SpaceToDepth")
def blocks(d):
    b = d.int(1, 3)
    n, c, h, w = (d.int(1, 3) for _ in range(4))
    deep = d.name == "DepthToSpace"
    x = d.values((n, c * b * b, h, w) if deep else (n, c, h * b, w * b), d.type())
    d.says(x, blocksize=b, **(d.only(mode=d.maybe(d.one("DCR", "CRD"))) if deep else {}))


@family("Shape")
def shape_of(d):
    x = d.tensor(d.type(strings=True))
    d.says(x, **d.only(start=d.maybe(d.int(-5, 5)), end=d.maybe(d.int(-5, 5))))


@family("ConstantOfShape")
def constant_of_shape(d):
    value = d.values((1,), d.one(F32, F64, I64, I32, BOOL, U8, F16))
    d.says(ints(*d.shape()), value=d.maybe(value))


@family("Range com.microsoft:Range")
def range_(d):
    t = d.one(F32, F64, I32, I64)
    step = d.one(1, 2, -1, -2, 0.5 if t.kind == "f" else 3)
    d.says(np.array(d.int(-5, 5), t), np.array(d.int(-5, 5), t), np.array(step, t))


@family("EyeLike")
def eye_like(d):
    d.says(d.values(d.shape(2, 2), d.type()), k=d.maybe(d.int(-3, 3)), dtype=d.maybe(d.one(1, 6, 7, 11)))


@family("Trilu com.microsoft:Trilu")
def trilu(d):
    d.says(d.values(d.shape(2), d.type()), d.maybe(np.array(d.int(-4, 4), np.int64)), upper=d.maybe(d.int(0, 1)))


@family("Cast")
def cast(d):
    text = d.chance(0.1)
    t = np.dtype("O") if text else d.type()
    x = d.values(d.shape(), t, *((0, 3) if t.kind == "f" and d.chance() else (-3, 3)))
    if text:
        x = np.array([d.one("1", "25", "-3", "0") for _ in range(x.size)], object).reshape(x.shape)
    d.says(
        x,
        to=d.one(
            1, 6, 7, 11, *((9, 10) if not text else ()), *((3, 2, 12) if x.dtype.kind != "f" and not text else ())
        ),
    )


@family("CastLike")
def cast_like(d):
    d.says(d.tensor(), d.values((1,), d.one(F32, F64, I64, BOOL, F16)))
