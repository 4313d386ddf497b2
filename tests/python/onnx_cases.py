"""Cases of ONNX operators in a file: models of a few nodes, inputs, and what comes out, as tests/onnx/sample.py kept
them.

A case is a name, a relative and an absolute limit of errors, and messages of ONNX: the model, inputs, outputs. Needs
neither the onnx package nor numpy.
"""

import gzip
import struct

import cairn
from cairn import _C
from cairn.strings import Strings


def write(path, cases):
    """cases: (name, limits, model, inputs, outputs), the last three as bytes; the same bytes for the same cases."""
    parts = []
    for name, (relative, absolute), model, inputs, outputs in cases:
        parts.append(struct.pack("<ddHH", relative, absolute, len(inputs), len(outputs)))
        for blob in (name.encode(), model, *inputs, *outputs):
            parts.append(struct.pack("<I", len(blob)) + blob)
    with open(path, "wb") as f:
        f.write(gzip.compress(b"".join(parts), 9, mtime=0))


def read(path):
    with gzip.open(path) as f:
        data, at = f.read(), 0
    while at < len(data):
        relative, absolute, inputs, outputs = struct.unpack_from("<ddHH", data, at)
        at += 20
        blobs = []
        for _ in range(2 + inputs + outputs):
            (size,) = struct.unpack_from("<I", data, at)
            blobs.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        yield blobs[0].decode(), (relative, absolute), blobs[1], blobs[2 : 2 + inputs], blobs[2 + inputs :]


def value_of(message):
    made = _C._onnx_tensor(message)
    return made if isinstance(made, (cairn.Tensor, Strings)) else Strings(*made)


def flat(value):
    """Numbers as doubles, whole ones as such, strings as they are."""
    if isinstance(value, Strings):
        return value.numpy().ravel().tolist()
    value = value.detach().flatten()
    if value.dtype.is_complex:
        value = cairn.view_as_real(value).flatten()
    if value.dtype == cairn.bool or not (value.dtype.is_floating_point or value.dtype.is_complex):
        return value.to(cairn.int64).tolist() if value.dtype != cairn.uint64 else value.tolist()
    return value.to(cairn.float64).tolist()


def near(a, b, limits):
    return a == b or (a != a and b != b) or abs(a - b) <= limits[1] + limits[0] * abs(b)


def differs(got, want, limits):
    """How they differ; None: they do not."""
    if isinstance(got, Strings) != isinstance(want, Strings):
        return "strings and numbers"
    if list(got.shape) != list(want.shape):
        return "shape %s, not %s" % (list(got.shape), list(want.shape))
    if not isinstance(got, Strings) and got.dtype != want.dtype:
        return "type %s, not %s" % (got.dtype, want.dtype)
    a, b = flat(got), flat(want)
    exact = isinstance(got, Strings) or not (got.dtype.is_floating_point or got.dtype.is_complex)
    for i, (x, y) in enumerate(zip(a, b)):
        if (x != y) if exact else not near(x, y, limits):
            return "element %d is %s, not %s" % (i, x, y)
    return None


def wrong(limits, model, inputs, outputs):
    """What is wrong with cairn's results; None: nothing."""
    loaded = cairn.onnx.load_model_from_string(model)
    made = loaded.run(dict(zip(loaded.input_names, map(value_of, inputs))))
    if len(made) < len(outputs):
        return "%d results, not %d" % (len(made), len(outputs))
    for i, (got, want) in enumerate(zip(made, map(value_of, outputs))):
        how = differs(got, want, limits)
        if how:
            return "result %d: %s" % (i, how)
    return None
