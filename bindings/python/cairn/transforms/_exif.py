"""How a picture was held when it was taken: the orientation in the Exif data of JPEG and PNG files.

Place in the flow: decode_image asks for it where apply_exif_orientation is given. Invariant: whatever the bytes are,
the result is a number from 1 to 8, and 1 (as it is) where they say nothing.
"""
from __future__ import annotations

import struct

from .._tensor import Tensor

__all__ = ["orientation", "upright"]

_TAG, _SHORT = 0x0112, 3


def _jpeg(data: bytes) -> bytes:
    """The Exif data of a JPEG file: in a segment APP1, before the picture itself."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] not in (0xD9, 0xDA):
        size = int.from_bytes(data[at + 2:at + 4], "big")
        if data[at + 1] == 0xE1 and data[at + 4:at + 10] == b"Exif\0\0":
            return data[at + 10:at + 2 + size]
        at += 2 + max(size, 2)
    return b""


def _png(data: bytes) -> bytes:
    """The Exif data of a PNG file: its chunk eXIf."""
    at = 8
    while at + 8 <= len(data):
        size, kind = int.from_bytes(data[at:at + 4], "big"), data[at + 4:at + 8]
        if kind == b"eXIf":
            return data[at + 8:at + 8 + size]
        at += 12 + size
    return b""


def orientation(data: bytes) -> int:
    """1 as it is; 2 to 8 as Exif counts them."""
    exif = _jpeg(data) if data[:2] == b"\xff\xd8" else _png(data) if data[:8] == b"\x89PNG\r\n\x1a\n" else b""
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(exif[:4])
    if order is None or len(exif) < 8:
        return 1
    first = struct.unpack_from(order + "I", exif, 4)[0]
    if first + 2 > len(exif):
        return 1
    for i in range(struct.unpack_from(order + "H", exif, first)[0]):
        at = first + 2 + 12 * i
        if at + 12 > len(exif):
            break
        tag, kind, count, value = struct.unpack_from(order + "HHIH", exif, at)
        if tag == _TAG:
            return value if kind == _SHORT and count == 1 and 1 <= value <= 8 else 1
    return 1


def upright(image: Tensor, held: int) -> Tensor:
    """The picture (channels, height, width) as it was seen, of one that was held so."""
    if held >= 5:  # on its side
        image = image.transpose(-2, -1)
    flips = {2: (-1,), 3: (-2, -1), 4: (-2,), 6: (-1,), 7: (-2, -1), 8: (-2,)}.get(held)
    return image if flips is None else image.flip(flips)
