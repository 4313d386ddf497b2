"""Images from files and back, with torchvision.io's names: PNG and JPEG as (channels, height, width) of uint8."""
from __future__ import annotations

import enum
import os
from typing import Any

from .. import _C
from .._arguments import only_speed
from .._tensor import Tensor
from ._exif import orientation, upright

__all__ = ["ImageReadMode", "decode_image", "decode_jpeg", "decode_png", "encode_jpeg", "encode_png", "read_file",
           "read_image", "write_file", "write_jpeg", "write_png"]

_Path = str | os.PathLike[str]


class ImageReadMode(enum.Enum):
    """The channels to read an image in."""

    UNCHANGED = 0
    GRAY = 1
    GRAY_ALPHA = 2
    RGB = 3
    RGB_ALPHA = 4


def _channels(mode: ImageReadMode | str) -> int:
    mode = ImageReadMode[mode.upper().replace("RGBA", "RGB_ALPHA")] if isinstance(mode, str) else mode
    if mode is ImageReadMode.GRAY_ALPHA:
        raise ValueError("images are read in 1, 3 or 4 channels, not grey with alpha")
    return int(mode.value)


def read_image(path: _Path, mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
               apply_exif_orientation: bool = False) -> Tensor:
    """A PNG or JPEG file as a tensor; apply_exif_orientation: turned as its camera says that it was held."""
    if apply_exif_orientation:
        return decode_image(read_file(path), mode, True)
    return _C._image_load(os.fspath(path), _channels(mode)).contiguous()


def decode_image(input: Any, mode: ImageReadMode | str = ImageReadMode.UNCHANGED,
                 apply_exif_orientation: bool = False) -> Tensor:
    """The same from the bytes of a file: a row of uint8, or bytes. A path is read."""
    if isinstance(input, (str, os.PathLike)):
        return read_image(input, mode, apply_exif_orientation)
    data = _C._to_bytes(input.cpu().contiguous()) if isinstance(input, Tensor) else bytes(input)
    image = _C._image_decode(data, _channels(mode))
    return (upright(image, orientation(data)) if apply_exif_orientation else image).contiguous()


decode_png = decode_jpeg = decode_image


def _row(data: bytes) -> Tensor:
    return _C.frombuffer(bytearray(data), dtype=_C.uint8)


def encode_png(input: Tensor, compression_level: int = 6) -> Tensor:
    """The bytes of a PNG file, a row of uint8; compression_level, a matter of time and size, is the writer's."""
    if not 0 <= compression_level <= 9:
        raise ValueError("the compression level of a PNG goes from 0 to 9, not %r" % (compression_level,))
    only_speed("encode_png", 6, compression_level=compression_level)
    return _row(_C._image_encode(input, 0))


def encode_jpeg(input: Tensor, quality: int = 75) -> Tensor:
    """The bytes of a JPEG file, a row of uint8."""
    if not 1 <= quality <= 100:
        raise ValueError("the quality of a JPEG goes from 1 to 100, not %r" % (quality,))
    return _row(_C._image_encode(input, quality))


def read_file(path: _Path) -> Tensor:
    """The bytes of a file, a row of uint8."""
    with open(path, "rb") as file:
        return _row(file.read())


def write_file(filename: _Path, data: Tensor) -> None:
    """A row of uint8 as a file."""
    with open(filename, "wb") as file:
        file.write(_C._to_bytes(data.cpu().contiguous()))


def write_png(input: Tensor, filename: _Path, compression_level: int = 6) -> None:
    """An image as a PNG file."""
    write_file(filename, encode_png(input, compression_level))


def write_jpeg(input: Tensor, filename: _Path, quality: int = 75) -> None:
    """An image as a JPEG file."""
    write_file(filename, encode_jpeg(input, quality))
