"""Small ONNX models, written field by field, and .npy files, for tests that have neither the onnx package nor numpy."""
import ast
import math
import struct

FLOAT, INT64, STRING = 1, 7, 8


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def node(op, inputs, outputs, **attrs):
    made = b"".join(field(1, name) for name in inputs.split()) + b"".join(field(2, name) for name in outputs.split())
    for name, value in attrs.items():
        number, kind = (3, 2) if isinstance(value, int) else (2, 1)
        made += field(5, field(1, name) + field(number, value) + field(20, kind))
    return field(1, made + field(4, op))


def info(number, name, kind, shape=()):
    dims = b"".join(field(1, field(1, n) if isinstance(n, int) else field(2, n)) for n in shape)
    return field(number, field(1, name) + field(2, field(1, field(1, kind) + field(2, dims))))


def sequence(number, name, kind):
    return field(number, field(1, name) + field(2, field(4, field(1, field(1, field(1, kind))))))


def model(*parts):
    return field(1, 8) + field(8, field(1, "") + field(2, 17)) + field(7, b"".join(parts))


def weight(name, values, *shape):
    """An initialiser."""
    dims = b"".join(field(1, n) for n in shape)
    return field(5, dims + field(2, FLOAT) + field(8, name) + field(9, struct.pack("<%df" % len(values), *values)))


# ---- .npy ----

def save_npy(path, code, shape, values):
    """code: of the struct module."""
    descr = {"f": "<f4", "q": "<i8", "B": "|u1"}[code]
    head = repr({"descr": descr, "fortran_order": False, "shape": tuple(shape)}).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head)
        file.write(struct.pack(f"<{len(values)}{code}", *values))


def load_npy(path):
    """(shape, values)"""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack_from("<H", data, 8)[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    code = {"<f4": "f", "<i8": "q", "<i4": "i", "|b1": "?", "|u1": "B"}[head["descr"]]
    return head["shape"], list(struct.unpack_from(f"<{math.prod(head['shape'])}{code}", data, 10 + size))
