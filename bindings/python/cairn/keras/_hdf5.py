"""HDF5 files as h5py writes them for Keras: groups, attributes and whole arrays, read and written without the library.

A file is a tree of Groups. Read: version 0 of the superblock, symbol tables, contiguous and compact data, numbers and
texts; other things (chunks, compression, newer layouts) are refused with a word about it. Written: the same.
Invariant of the writer: an address is known before what points to it is made.
"""
from __future__ import annotations

import struct
from typing import Any, Iterator

import cairn

__all__ = ["Group", "read", "write"]

_MAGIC = b"\x89HDF\r\n\x1a\n"
_NONE = 0xFFFFFFFFFFFFFFFF


class Group:
    """attrs: texts, numbers and lists of texts by name. items: Groups and tensors by name."""

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        self.attrs: dict[str, Any] = attrs or {}
        self.items: dict[str, Any] = {}

    def at(self, path: str, make: bool = False) -> Any:
        """What is at a/b/c; None where there is nothing. make: groups on the way are made."""
        now: Any = self
        for part in path.split("/"):
            if not part:
                continue
            if not isinstance(now, Group):
                return None
            if part not in now.items:
                if not make:
                    return None
                now.items[part] = Group()
            now = now.items[part]
        return now

    def walk(self, path: str = "") -> Iterator[tuple[str, Any]]:
        """Tensors by their paths."""
        for name, item in self.items.items():
            if isinstance(item, Group):
                yield from item.walk(path + name + "/")
            else:
                yield path + name, item


# ---- reading ----
class _Type:
    """A datatype: a tensor's, text of a fixed size, or text elsewhere."""

    def __init__(self, data: bytes) -> None:
        head, bits, self.size = data[0], int.from_bytes(data[1:4], "little"), struct.unpack_from("<I", data, 4)[0]
        self.kind = head & 15
        self.name = ""
        if self.kind in (0, 1) and bits & 1 and self.size > 1:
            raise ValueError("HDF5: numbers with the high byte first are not read")
        if self.kind == 0:
            self.name = "%sint%d" % ("" if bits & 8 else "u", self.size * 8)
        elif self.kind == 1:
            exponent = data[13]
            self.name = "bfloat16" if self.size == 2 and exponent == 8 else "float%d" % (self.size * 8)
        elif self.kind == 8:  # names for numbers, which is how truth is kept
            self.name = "bool" if self.size == 1 else "int%d" % (self.size * 8)
        elif self.kind == 9 and bits & 15 != 1 or self.kind not in (0, 1, 3, 8, 9):
            raise ValueError("HDF5: data of class %d are not read" % self.kind)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        if data[:8] != _MAGIC:
            raise ValueError("this is no HDF5 file")
        if data[8] > 1 or data[13] != 8 or data[14] != 8:
            raise ValueError("HDF5: version %d of the superblock is not read; h5py.File(..., libver='earliest') writes "
                             "what is" % data[8])
        self.root = 56 if data[8] == 0 else 60

    def u(self, at: int, size: int = 8) -> int:
        return int.from_bytes(self.data[at:at + size], "little")

    def messages(self, at: int) -> Iterator[tuple[int, bytes]]:
        """Of an object's header, with its continuations."""
        if self.data[at] != 1:
            raise ValueError("HDF5: this version of object headers is not read; h5py.File(..., libver='earliest') "
                             "writes what is")
        left, blocks = self.u(at + 2, 2), [(at + 16, self.u(at + 8, 4))]
        while blocks:
            here, size = blocks.pop(0)
            end = here + size
            while here + 8 <= end and left > 0:
                kind, n = self.u(here, 2), self.u(here + 2, 2)
                body = self.data[here + 8:here + 8 + n]
                if kind == 0x10:
                    blocks.append(struct.unpack_from("<QQ", body))
                else:
                    yield kind, body
                here, left = here + 8 + n, left - 1

    def object(self, at: int) -> Any:
        """A Group, or a tensor."""
        attrs: dict[str, Any] = {}
        table = space = kind = layout = None
        for number, body in self.messages(at):
            if number == 0x11:
                table = struct.unpack_from("<QQ", body)
            elif number == 0x01:
                space = _dims(body)
            elif number == 0x03:
                kind = _Type(body)
            elif number == 0x08:
                layout = body
            elif number == 0x0B:
                raise ValueError("HDF5: compressed data are not read")
            elif number == 0x0C:
                name, value = self.attribute(body)
                attrs[name] = value
        if table is None:
            if layout is None or kind is None:
                raise ValueError("HDF5: an object that is neither a group nor an array")
            return self.values(kind, space or (), self.stored(layout))
        group = Group(attrs)
        for name, address in self.links(*table):
            group.items[name] = self.object(address)
        return group

    def links(self, tree: int, heap: int) -> Iterator[tuple[str, int]]:
        names = self.u(heap + 24)
        if self.data[tree:tree + 4] != b"TREE":
            raise ValueError("HDF5: a group's table is damaged")
        for i in range(self.u(tree + 6, 2)):
            child = self.u(tree + 32 + 16 * i)
            if self.data[tree + 5]:
                yield from self.links(child, heap)
                continue
            for k in range(self.u(child + 6, 2)):
                entry = child + 8 + 40 * k
                start = names + self.u(entry)
                yield self.data[start:self.data.index(b"\0", start)].decode("utf-8"), self.u(entry + 8)

    def stored(self, body: bytes) -> bytes:
        version, kind = body[0], body[1]
        if version == 3 and kind == 0:
            return body[4:4 + self.u_of(body, 2, 2)]
        if version == 3 and kind == 1:
            at, size = struct.unpack_from("<QQ", body, 2)
            return b"" if at == _NONE else self.data[at:at + size]
        raise ValueError("HDF5: arrays in chunks are not read")

    @staticmethod
    def u_of(body: bytes, at: int, size: int) -> int:
        return int.from_bytes(body[at:at + size], "little")

    def attribute(self, body: bytes) -> tuple[str, Any]:
        version = body[0]
        sizes = struct.unpack_from("<HHH", body, 2)
        at = 9 if version == 3 else 8

        def part(size: int) -> bytes:
            nonlocal at
            made = body[at:at + size]
            at += -(-size // 8) * 8 if version == 1 else size
            return made
        name, kind, space = part(sizes[0]), _Type(part(sizes[1])), _dims(part(sizes[2]))
        value = self.values(kind, space, body[at:])
        if isinstance(value, cairn.Tensor):
            value = value.tolist()
        return name.split(b"\0")[0].decode("utf-8"), value

    def values(self, kind: _Type, shape: tuple[int, ...], data: bytes) -> Any:
        count = 1
        for n in shape:
            count *= n
        if kind.kind in (3, 9):
            texts = [self.text(kind, data[i * kind.size:(i + 1) * kind.size]) for i in range(count)]
            return texts if shape else texts[0]
        stored = cairn.uint8 if kind.name == "bool" else getattr(cairn, kind.name, None)
        if stored is None:
            raise ValueError("HDF5: numbers of type %s are not read" % kind.name)
        if len(data) < count * kind.size:
            raise ValueError("HDF5: the file is cut short")
        made = cairn.frombuffer(bytearray(data[:count * kind.size]), dtype=stored) if count else \
            cairn.empty(0, dtype=stored)
        made = made.to(cairn.bool) if kind.name == "bool" else made
        return made.reshape(shape)

    def text(self, kind: _Type, data: bytes) -> str:
        if kind.kind == 3:
            return data.split(b"\0")[0].decode("utf-8")
        size, heap, number = struct.unpack_from("<IQI", data)
        at, end = heap + 16, heap + self.u(heap + 8)
        while number and at < end:
            n = self.u(at + 8)
            if self.u(at, 2) == number:
                return self.data[at + 16:at + 16 + size].decode("utf-8")
            at += 16 + -(-n // 8) * 8
        return ""


def _dims(body: bytes) -> tuple[int, ...]:
    rank, at = body[1], 8 if body[0] == 1 else 4
    return struct.unpack_from("<%dQ" % rank, body, at)


def read(data: bytes) -> Group:
    """The tree of a file's bytes."""
    reader = _Reader(data)
    try:
        made: Group = reader.object(reader.u(reader.root + 8))
    except (struct.error, IndexError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError("HDF5: the file is damaged (%s)" % error) from error
    return made


# ---- writing ----
_floats = {"float16": (15, 10, 5, 10, 15), "bfloat16": (15, 7, 8, 7, 127), "float32": (31, 23, 8, 23, 127),
           "float64": (63, 52, 11, 52, 1023)}


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 8)


def _number_type(name: str, size: int) -> bytes:
    if name in _floats:
        sign, place, exponent, mantissa, bias = _floats[name]
        return struct.pack("<BBBBIHHBBBBI", 0x11, 0x20, sign, 0, size, 0, size * 8, place, exponent, 0, mantissa, bias)
    signed = 0 if name.startswith("u") or name == "bool" else 8
    return struct.pack("<BBBBIHH", 0x10, signed, 0, 0, size, 0, size * 8)


_text_type = struct.pack("<BBBBI", 0x19, 1, 1, 0, 16) + struct.pack("<BBBBI", 0x13, 0x10, 0, 0, 1)


def _space(shape: tuple[int, ...]) -> bytes:
    return struct.pack("<BBBBI", 1, len(shape), 0, 0, 0) + struct.pack("<%dQ" % len(shape), *shape)


def _message(kind: int, body: bytes) -> bytes:
    body = _padded(body)
    if len(body) > 65528:
        raise ValueError("HDF5: an attribute is too large to be written")
    return struct.pack("<HHBBBB", kind, len(body), 0, 0, 0, 0) + body


class _Writer:
    def __init__(self, most: int) -> None:
        self.leaf = max(4, -(-most // 2))  # so large that the names of any group are in one node
        self.out = bytearray(96)

    def put(self, data: bytes) -> int:
        self.out += b"\0" * (-len(self.out) % 8)
        at = len(self.out)
        self.out += data
        return at

    def header(self, messages: list[bytes]) -> int:
        body = b"".join(messages)
        return self.put(struct.pack("<BBHIII", 1, 0, len(messages), 1, len(body), 0) + body)

    def texts(self, values: list[str]) -> bytes:
        """References to texts in a heap of their own."""
        raw = [v.encode("utf-8") for v in values]
        body = b"".join(struct.pack("<HHIQ", i + 1, 1, 0, len(v)) + _padded(v) for i, v in enumerate(raw))
        size = max(4096, 16 + len(body) + 16)
        rest = size - 16 - len(body)
        heap = self.put(struct.pack("<4sBBBBQ", b"GCOL", 1, 0, 0, 0, size) + body
                        + struct.pack("<HHIQ", 0, 0, 0, rest) + b"\0" * (rest - 16))
        return b"".join(struct.pack("<IQI", len(v), heap, i + 1) for i, v in enumerate(raw))

    def attribute(self, name: str, value: Any) -> bytes:
        key = name.encode("utf-8") + b"\0"
        if isinstance(value, str):
            kind, space, data = _text_type, _space(()), self.texts([value])
        elif isinstance(value, (list, tuple)) and value:
            if not all(isinstance(v, str) for v in value):
                raise TypeError("HDF5: a list as an attribute is of texts, not %r" % (value,))
            kind, space = _text_type, _space((len(value),))
            data = b"".join(self.texts(list(value[i:i + 60000])) for i in range(0, len(value), 60000))
        elif isinstance(value, (list, tuple)):
            kind, space, data = _number_type("float64", 8), _space((0,)), b""
        else:
            number = isinstance(value, float)
            kind, space = _number_type("float64" if number else "int64", 8), _space(())
            data = struct.pack("<d" if number else "<q", value)
        return _message(0x0C, struct.pack("<BBHHH", 1, 0, len(key), len(kind), len(space)) + _padded(key)
                        + _padded(kind) + _padded(space) + data)

    def tensor(self, t: Any) -> int:
        t = t.detach().cpu()
        t = t.to(cairn.uint8) if t.dtype == cairn.bool else t
        name = str(t.dtype).rpartition(".")[2]
        shape = tuple(int(n) for n in t.shape)
        raw = memoryview(cairn.Tensor.contiguous(t).reshape(-1).view(cairn.uint8)).tobytes() if t.numel() else b""
        at = self.put(raw) if raw else _NONE
        return self.header([_message(0x01, _space(shape)), _message(0x03, _number_type(name, int(t.itemsize))),
                            _message(0x05, bytes([2, 2, 2, 0])),
                            _message(0x08, struct.pack("<BBQQ", 3, 1, at, len(raw)))])

    def group(self, group: Group) -> tuple[int, int, int]:
        """The addresses of its header, its tree and its heap."""
        names = sorted(group.items, key=lambda n: n.encode("utf-8"))
        places, heap, entries = {}, bytearray(8), b""
        for name in names:
            places[name] = len(heap)
            heap += _padded(name.encode("utf-8") + b"\0")
        for name in names:
            item = group.items[name]
            if isinstance(item, Group):
                at, tree, kept = self.group(item)
                entries += struct.pack("<QQIIQQ", places[name], at, 1, 0, tree, kept)
            else:
                entries += struct.pack("<QQIIQQ", places[name], self.tensor(item), 0, 0, 0, 0)
        size = 2 * self.leaf * 40
        node = self.put(struct.pack("<4sBBH", b"SNOD", 1, 0, len(names)) + entries.ljust(size, b"\0")) if names else 0
        top = struct.pack("<4sBBHQQQ", b"TREE", 0, 0, 1 if names else 0, _NONE, _NONE, 0)
        if names:
            top += struct.pack("<QQ", node, places[names[-1]])
        tree_at = self.put(top.ljust(24 + 33 * 8 + 32 * 8, b"\0"))
        data = self.put(bytes(heap))
        heap_at = self.put(struct.pack("<4sBBBBQQQ", b"HEAP", 0, 0, 0, 0, len(heap), 1, data))
        messages = [_message(0x11, struct.pack("<QQ", tree_at, heap_at))]
        messages += [self.attribute(k, v) for k, v in group.attrs.items()]
        return self.header(messages), tree_at, heap_at

    def finish(self, root: Group) -> bytes:
        at, tree, heap = self.group(root)
        self.out += b"\0" * (-len(self.out) % 8)
        head = _MAGIC + struct.pack("<BBBBBBBBHHI", 0, 0, 0, 0, 0, 8, 8, 0, self.leaf, 16, 0)
        head += struct.pack("<QQQQ", 0, _NONE, len(self.out), _NONE)
        head += struct.pack("<QQIIQQ", 0, at, 1, 0, tree, heap)
        self.out[:len(head)] = head
        return bytes(self.out)


def _most(group: Group) -> int:
    return max([len(group.items)] + [_most(g) for g in group.items.values() if isinstance(g, Group)])


def write(root: Group) -> bytes:
    """A file's bytes of a tree."""
    most = _most(root)
    if most > 130000:
        raise ValueError("HDF5: a group of %d names is not written" % most)
    return _Writer(most).finish(root)
