"""Op samples as Python sees them: reads tests/ops/*.samples and makes the same tensors that tests/ops/sample.c makes.

The grammar is described in tests/ops/sample.h. Values come from a counter-based hash of the line's text, so both sides
agree to the bit without sharing data.
"""
import re

import numpy as np
import torch

DTYPES = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "c64": torch.complex64, "c128": torch.complex128,
    "i64": torch.int64, "i32": torch.int32, "i16": torch.int16, "i8": torch.int8,
    "u64": torch.uint64, "u32": torch.uint32, "u16": torch.uint16, "u8": torch.uint8, "bool": torch.bool,
    "f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "f8e4m3fnuz": torch.float8_e4m3fnuz,
    "f8e5m2fnuz": torch.float8_e5m2fnuz, "f8e8m0": torch.float8_e8m0fnu,
}
PARTS = {"c64": "f32", "c128": "f64"}
UNSIGNED = ("u64", "u32", "u16", "u8")
LIMITS = {"i64": 63, "i32": 31, "i16": 15, "i8": 7, "u64": 64, "u32": 32, "u16": 16, "u8": 8}
GOLDEN = 0x9E3779B97F4A7C15
WEIGHTS = 1000  # literal number of the weights of result 0; of result i: WEIGHTS + i


class Bad(Exception):
    """A line that is no sample."""


class Literal:
    """A tensor literal: f32[2,3].t+"""

    def __init__(self, dtype, shape, index):
        self.dtype, self.shape, self.index = dtype, shape, index
        self.layout, self.offset, self.constant, self.sparse = "", False, False, ""
        self.range, self.arg, self.values = "", 0, None


class Word(str):
    """A bare word: a dtype or a device."""


class Sample:
    def __init__(self, line, family, number):
        self.family, self.number = family, number
        self.must_fail = self.torch_accepts = self.large = self.forward_only = False
        for mark in ("!c ", "! ", "@ ", "~ "):
            if line.startswith(mark):
                self.must_fail, self.torch_accepts = mark[0] == "!", mark == "!c "
                self.large, self.forward_only = mark == "@ ", mark == "~ "
                line = line[len(mark):]
                break
        self.text = line.strip()
        self.hash = fnv1a(self.text)
        self.literals = []
        self.position = 0
        self.name = self.match(r"[A-Za-z_]\w*")
        self.args = self.arguments()
        if self.position != len(self.text):
            raise Bad("characters after the closing bracket: %r" % self.text[self.position:])

    # -- grammar --
    def match(self, pattern, needed=True):
        m = re.compile(r"\s*(%s)" % pattern).match(self.text, self.position)
        if not m:
            if needed:
                raise Bad("expected %s at %r" % (pattern, self.text[self.position:]))
            return None
        self.position = m.end()
        return m.group(1)

    def arguments(self):
        args = []
        self.match(r"\(")
        if self.match(r"\)", False):
            return args
        while True:
            name = self.match(r"[A-Za-z_]\w*(?=\s*=)", False)
            if name:
                self.match("=")
            args.append((name, self.value()))
            if self.match(r"\)", False):
                return args
            self.match(",")

    def value(self):
        text = self.match(r"'[^']*'", False)
        if text is not None:
            return text[1:-1]
        if self.match(r"\[", False):
            items = []
            while not self.match(r"\]", False):
                if items:
                    self.match(",")
                items.append(self.value())
            return items
        number = self.match(r"-?(?:\d+(?:\.\d*)?(?:e-?\d+)?|inf|nan)(?!\w)", False)
        if number is not None:
            return to_number(number)
        word = self.match(r"[A-Za-z]\w*")
        if word in ("None", "True", "False"):
            return {"None": None, "True": True, "False": False}[word]
        if word in DTYPES and self.text[self.position:self.position + 1] == "[":
            return self.literal(word)
        return Word(word)

    def literal(self, dtype):
        dims = self.match(r"\[[\d,\s]*\]")[1:-1].strip()
        shape = [int(d) for d in dims.split(",")] if dims else []
        t = Literal(dtype, shape, len(self.literals))
        self.literals.append(t)
        while True:
            m = re.compile(r"\.(coo|csr|csc|cl|[tsoerd])|%(\d+)|([+<>~!])|=(-?[\w.]+)|\{([^}]*)\}").match(self.text, self.position)
            if not m:
                return t
            self.position = m.end()
            if m.group(1) in ("coo", "csr", "csc"):
                t.sparse = m.group(1)
            elif m.group(1) == "o":
                t.offset = True
            elif m.group(1) == "d":
                t.constant = True
            elif m.group(1):
                t.layout = m.group(1)
            elif m.group(2):
                t.range, t.arg = "%", int(m.group(2))
            elif m.group(3):
                t.range = m.group(3)
            else:
                items = [m.group(4)] if m.group(4) else m.group(5).split(",")
                t.range, t.values = "=", [to_number(x.strip()) for x in items]


def to_number(text):
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def read(path, family):
    """The samples of one file; grammar errors name the line."""
    out = []
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            line = line.rstrip("\n")
            if not line.strip() or line.startswith("#"):
                continue
            try:
                out.append(Sample(line, family, number))
            except Bad as e:
                raise SystemExit("%s:%d: %s" % (path, number, e))
    return out


# ---- values ----
def fnv1a(text):
    h = 0xCBF29CE484222325
    for b in text.encode():
        h = (h ^ b) * 0x100000001B3 & (1 << 64) - 1
    return h


def hashes(seed, literal, count):
    """count 64-bit hashes of (seed, literal number, element number)."""
    with np.errstate(over="ignore"):
        z = (np.arange(count, dtype=np.uint64) + np.uint64(1 + (literal << 32))) * np.uint64(GOLDEN) + np.uint64(seed)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)


def ranks(x):
    out = np.empty(len(x), dtype=np.int64)
    out[np.argsort(x, kind="stable")] = np.arange(len(x))
    return out


def float_values(x, dtype, kind, arg):
    bits = 6 if dtype in ("f16", "bf16") else 22
    k = (x >> np.uint64(64 - bits)).astype(np.float64) / 2.0 ** bits
    plain = 4 * k - 2
    if kind == "+":
        return 0.125 + 2 * k
    if kind == ">":
        return 1.125 + 2 * k
    if kind == "<":
        return 1.75 * k - 0.875
    if kind == "%":
        return (x % np.uint64(arg)).astype(np.float64)
    if kind == "~":
        return (ranks(x) - len(x) // 2) * 0.25 + 0.0625
    if kind == "!":
        special = [np.nan, np.inf, -np.inf, -0.0, 0.0]
        return np.array([special[int(h & np.uint64(7))] if int(h & np.uint64(7)) < 5 else p
                         for h, p in zip(x, plain)], dtype=np.float64)
    return plain


def int_values(x, dtype, kind, arg):
    """As Python integers, since u64 and i64 have no common numpy type."""
    signed = dtype not in UNSIGNED
    low = -(1 << LIMITS[dtype]) if signed else 0
    high = (1 << LIMITS[dtype]) - 1
    if kind == "~":
        return [int(r) - (len(x) // 2 if signed else 0) for r in ranks(x)]
    out = []
    for h in (int(v) for v in x):
        plain = h % 16 - (8 if signed else 0)
        if kind == "!":
            plain = [low, high, 0, -1 if signed else 1, plain, plain, plain, plain][h >> 8 & 7]
        out.append({"+": h % 8 + 1, "<": h % 3 - 1 if signed else h % 2, "%": h % arg if arg else 0}.get(kind, plain))
    return out


def tensor_of(values, dtype, shape):
    t = DTYPES[dtype]
    if dtype in PARTS:
        return torch.view_as_complex(tensor_of(values, PARTS[dtype], list(shape) + [2]))
    if dtype == "u64":
        values = [v - (1 << 64) if v >> 63 else v for v in values]
        return torch.tensor(values, dtype=torch.int64).view(torch.uint64).reshape(shape)
    if dtype in LIMITS or dtype == "bool":
        return torch.tensor(list(values), dtype=t).reshape(shape)
    return torch.tensor(np.asarray(values, dtype=np.float64)).to(t).reshape(shape)


def numel(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def values_of(seed, lit):
    """The literal's tensor, contiguous."""
    count, shape = numel(lit.shape), lit.shape
    if lit.layout == "e" and shape[0]:
        shape = [1] + shape[1:]
        count //= lit.shape[0]
    x = hashes(seed, lit.index, count * (2 if lit.dtype in PARTS else 1))
    if lit.range == "=":
        v = lit.values * count if len(lit.values) == 1 else lit.values
        if lit.dtype in PARTS:
            return torch.tensor(v, dtype=DTYPES[lit.dtype]).reshape(shape)
        if len(v) != count:
            raise Bad("%d values for %d elements" % (len(v), count))
    elif lit.dtype == "bool":
        v = [bool(h % lit.arg) if lit.range == "%" else bool(h >> 40 & 1) for h in (int(y) for y in x)]
    elif lit.dtype in LIMITS:
        v = int_values(x, lit.dtype, lit.range, lit.arg)
    else:
        v = float_values(x, PARTS.get(lit.dtype, lit.dtype), lit.range, lit.arg)
    t = tensor_of(v, lit.dtype, shape)
    return t.expand(lit.shape).contiguous() if lit.layout == "e" and lit.shape[0] else t


def strides_of(shape, layout):
    def row_major(dims):
        out, n = [0] * len(dims), 1
        for i in reversed(range(len(dims))):
            out[i] = n
            n *= max(dims[i], 1)
        return out
    if layout == "t":
        s = row_major(shape[:-2] + [shape[-1], shape[-2]])
        return s[:-2] + [s[-1], s[-2]]
    if layout == "s":
        s = row_major(shape[:-1] + [2 * shape[-1]])
        return s[:-1] + [2]
    if layout == "e":
        return [0] + row_major(shape[1:])
    if layout == "cl":
        s = row_major([shape[0]] + shape[2:] + [shape[1]])
        return [s[0], s[-1]] + s[1:-1]
    return row_major(shape)


def make(seed, lit):
    """The literal's tensor in its layout (a reversed one stays as it is: PyTorch has no negative strides)."""
    t = values_of(seed, lit)
    if not lit.layout and not lit.offset or lit.layout == "r" or not t.numel():
        return t
    strides = strides_of(lit.shape, lit.layout)
    offset = 3 if lit.offset else 0
    reach = 1 + sum((d - 1) * s for d, s in zip(lit.shape, strides))
    base = torch.zeros(reach + offset, dtype=t.dtype)
    out = base.as_strided(lit.shape, strides, offset)
    (out[:1] if lit.layout == "e" else out).copy_(t[:1] if lit.layout == "e" else t)
    return out.detach()


def weights(seed, index, like):
    """What the gradient of result number `index` is checked with."""
    dtype = {v: k for k, v in DTYPES.items()}[like.dtype]
    x = hashes(seed, WEIGHTS + index, like.numel() * (2 if dtype in PARTS else 1))
    return tensor_of(float_values(x, dtype, "", 0), dtype, list(like.shape))
