#!/usr/bin/env python3
"""Writes the files beside it: small data files, what others' readers make of them, and images as torchvision changes
them. Needs torch, torchvision, Pillow, numpy, scipy and safetensors.

usage: tests/data/golden/make.py

readers.safetensors holds what Python's csv, scipy's wavfile and Pillow read from the data files, under the file's name;
transforms.safetensors holds two images and, under "IMAGE/FUNCTION:ARGUMENTS", what torchvision.transforms.v2.functional
makes of them.
"""
import csv
import gzip
import io
import pathlib
import struct
import zlib

import numpy as np
import PIL.Image
import scipy.io.wavfile
import torch
from safetensors.torch import save_file
from torchvision.transforms.v2 import functional as F

HERE = pathlib.Path(__file__).resolve().parent
RANDOM = np.random.default_rng(1)


def picture(h, w, seed):
    """Smooth colours with edges and a little noise, (h, w, 3) uint8."""
    random = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w]
    base = np.stack([128 + 100 * np.sin(x / 5.0 + y / 9.0), 255 * x / w, 255 * ((x // 7 + y // 5) % 2)], -1)
    return np.clip(base + random.normal(0, 12, base.shape), 0, 255).astype(np.uint8)


# ---- files of numbers and sounds ----
def tables(out):
    text = ('\ufeffa,"b, quoted",c,kind\r\n1,2.5,-3e-2,cat\r\n,NA,+7,"dog ""big"""\r\n'
            '0.1,1e300,123456789012345678,cat\r\n"4","5\n",6.0e+1, bird\r\n\r\n-0,.5,5.,cat\r\n'
            '3.4028235e38,1.17549435e-38,0.3333333333333333333,"dog ""big"""')
    (HERE / "table.csv").write_bytes(text.encode())
    rows = list(csv.reader(io.StringIO(text.lstrip("\ufeff"), newline="")))[1:]
    rows = [row for row in rows if row]

    def number(s):
        return float("nan") if s.strip() in ("", "NA") else float(s)

    x = np.array([[number(v) for v in row[:3]] for row in rows])
    with np.errstate(over="ignore"):
        out["table.csv/x"] = torch.from_numpy(x.astype(np.float32))
    kinds = [row[3].strip() for row in rows]
    out["table.csv/y"] = torch.tensor([sorted(set(kinds)).index(k) for k in kinds])
    numbers = RANDOM.normal(0, 1, (50, 4)) * 10.0 ** RANDOM.integers(-30, 30, (50, 4))
    with open(HERE / "numbers.csv", "w", encoding="ascii") as f:
        for row in numbers:
            f.write(";".join(repr(float(v)) for v in row) + "\n")
    out["numbers.csv/all"] = torch.from_numpy(numbers.astype(np.float32))


def sounds(out):
    t = np.arange(40) / 40
    wave = np.stack([np.sin(9 * t), 0.5 * np.cos(23 * t)], 1)
    kinds = {"u8": (wave * 127 + 128).astype(np.uint8), "i16": (wave * 32767).astype(np.int16),
             "i32": (wave * 2147483647).astype(np.int32), "f32": wave.astype(np.float32), "f64": wave}
    for name, data in kinds.items():
        scipy.io.wavfile.write(HERE / f"{name}.wav", 8000, data)
        rate, back = scipy.io.wavfile.read(HERE / f"{name}.wav")
        assert rate == 8000
        scale = {"u8": 128.0, "i16": 32768.0, "i32": 2147483648.0}.get(name, 1.0)
        values = (back.astype(np.float64) - (128 if name == "u8" else 0)) / scale
        out[f"{name}.wav"] = torch.from_numpy(values.astype(np.float32).T.copy())
    # 24 bits, with a chunk of odd length before the samples and one after
    values = (wave[:, 0] * 8388607).astype(np.int32)
    data = b"".join(struct.pack("<i", int(v))[:3] for v in values)
    fmt = struct.pack("<HHIIHH", 1, 1, 22050, 22050 * 3, 3, 24)
    body = b"WAVE" + b"note" + struct.pack("<I", 3) + b"abc\0" + b"fmt " + struct.pack("<I", 16) + fmt
    body += b"data" + struct.pack("<I", len(data)) + data + b"tail" + struct.pack("<I", 0)
    (HERE / "i24.wav").write_bytes(b"RIFF" + struct.pack("<I", len(body)) + body)
    out["i24.wav"] = torch.from_numpy((values / 8388608.0).astype(np.float32)[None].copy())


def arrays(out):
    pixels = RANDOM.integers(0, 256, (5, 4, 3), np.uint8)
    head = struct.pack(">BBBBIII", 0, 0, 8, 3, 5, 4, 3)
    (HERE / "images.idx3").write_bytes(head + pixels.tobytes())
    labels = np.array([3, 1, 4, 1, 5], np.uint8)
    text = struct.pack(">BBBBI", 0, 0, 8, 1, 5) + labels.tobytes()
    with open(HERE / "labels.idx1.gz", "wb") as f, gzip.GzipFile("", "wb", fileobj=f, mtime=0) as g:
        g.write(text)
    shorts = RANDOM.integers(-3000, 3000, (2, 7)).astype(">i2")
    (HERE / "shorts.idx2").write_bytes(struct.pack(">BBBBII", 0, 0, 0x0B, 2, 2, 7) + shorts.tobytes())
    out["images.idx3"] = torch.from_numpy(pixels)
    out["labels.idx1.gz"] = torch.from_numpy(labels.astype(np.int64))
    out["shorts.idx2"] = torch.from_numpy(shorts.astype(np.int16))
    for classes, name in ((10, "cifar10.bin"), (100, "cifar100.bin")):
        images = RANDOM.integers(0, 256, (3, 3, 32, 32), np.uint8)
        y = RANDOM.integers(0, classes, 3)
        head = b"" if classes == 10 else b"\7"
        data = b"".join(head + bytes([int(k)]) + image.tobytes() for k, image in zip(y, images))
        (HERE / name).write_bytes(data)
        out[f"{name}/x"] = torch.from_numpy(images)
        out[f"{name}/y"] = torch.from_numpy(y)


# ---- images ----
def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(h, w, depth, colour, rows, interlace=0, extra=b""):
    """A PNG file of rows that are already packed."""
    data = b"".join(b"\0" + row for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, h, depth, colour, 0, 0, interlace)) + extra
            + chunk(b"IDAT", zlib.compress(data, 9)) + chunk(b"IEND", b""))


def packed(values, depth):
    """(h, w) numbers of `depth` bits, as rows of bytes."""
    bits = np.unpackbits(values.astype(np.uint8)[..., None], axis=-1)[..., 8 - depth:]
    return [np.packbits(row.reshape(-1)).tobytes() for row in bits]


def keep(out, name, data, expected):
    (HERE / name).write_bytes(data)
    out[name] = torch.from_numpy(np.ascontiguousarray(np.moveaxis(np.array(expected), -1, 0)))


def read_by_pillow(data, mode):
    image = np.asarray(PIL.Image.open(io.BytesIO(data)).convert(mode))
    return image if image.ndim == 3 else image[..., None]


def images(out):
    rgb = picture(13, 11, 2)
    grey = rgb[..., 0]
    for depth in (1, 2, 4):
        data = png(13, 11, depth, 0, packed(grey >> (8 - depth), depth))
        keep(out, f"grey{depth}.png", data, (grey >> (8 - depth))[..., None] * (255 // (2**depth - 1)))
    keep(out, "grey8.png", png(13, 11, 8, 0, [row.tobytes() for row in grey]), grey[..., None])
    wide = RANDOM.integers(0, 65536, (13, 11), np.uint16)
    keep(out, "grey16.png", png(13, 11, 16, 0, [row.astype(">u2").tobytes() for row in wide]),
         np.round(wide / 257.0).astype(np.uint8)[..., None])
    keep(out, "rgb.png", png(13, 11, 8, 2, [row.tobytes() for row in rgb]), rgb)
    alpha = np.concatenate([rgb, grey[..., None]], -1)
    keep(out, "rgba.png", png(13, 11, 8, 6, [row.tobytes() for row in alpha]), alpha)
    both = np.stack([grey, rgb[..., 1]], -1)
    keep(out, "grey_alpha.png", png(13, 11, 8, 4, [row.tobytes() for row in both]), both)
    colours = RANDOM.integers(0, 256, (16, 3), np.uint8)
    index = RANDOM.integers(0, 16, (13, 11), np.uint8)
    palette = chunk(b"PLTE", colours.tobytes())
    keep(out, "palette.png", png(13, 11, 4, 3, packed(index, 4), extra=palette), colours[index])
    clear = chunk(b"tRNS", bytes([0, 100]))
    values = np.concatenate([colours[index], np.where(index == 0, 0, np.where(index == 1, 100, 255))[..., None]], -1)
    keep(out, "palette_alpha.png", png(13, 11, 4, 3, packed(index, 4), extra=palette + clear), values.astype(np.uint8))
    passes = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
    rows = [row.tobytes() for y, x, dy, dx in passes for row in rgb[y::dy, x::dx] if row.size]
    keep(out, "interlaced.png", png(13, 11, 8, 2, rows, interlace=1), rgb)

    photo = PIL.Image.fromarray(picture(29, 37, 3))
    for name, image, options in (("grey.jpg", photo.convert("L"), {}), ("colour.jpg", photo, {}),
                                 ("fine.jpg", photo, {"subsampling": 0, "quality": 95}),
                                 ("progressive.jpg", photo, {"progressive": True}),
                                 ("cmyk.jpg", photo.convert("CMYK"), {})):
        file = io.BytesIO()
        if name == "colour.jpg":  # on its side: the mark is left alone
            options["exif"] = PIL.Image.Exif()
            options["exif"][0x0112] = 6
        image.save(file, "jpeg", **options)
        keep(out, name, file.getvalue(), read_by_pillow(file.getvalue(), "L" if name == "grey.jpg" else "RGB"))


# ---- transforms ----
def put(out, name, image):
    out[name] = image.contiguous()


def both_types(out, key, image, fn):
    put(out, "u8/" + key, fn(image))
    put(out, "f32/" + key, fn(F.to_dtype(image, torch.float32, scale=True)))


def transforms(out):
    image = torch.from_numpy(np.moveaxis(picture(21, 29, 4), -1, 0).copy())
    put(out, "u8", image)
    put(out, "f32", F.to_dtype(image, torch.float32, scale=True))
    for h, w in ((14, 20), (21, 20), (13, 29), (31, 47), (7, 9), (3, 60)):
        both_types(out, f"resize:{h},{w}", image, lambda t, h=h, w=w: F.resize(t, [h, w], antialias=True))
    for top, left, h, w in ((2, 3, 10, 20), (-3, -2, 12, 11), (15, 20, 12, 12)):
        both_types(out, f"crop:{top},{left},{h},{w}", image, lambda t, a=(top, left, h, w): F.crop(t, *a))
    for h, w in ((10, 10), (11, 16), (26, 20), (25, 34)):
        put(out, f"u8/center_crop:{h},{w}", F.center_crop(image, [h, w]))
    for size in (10, 30):
        put(out, f"u8/resize_short:{size}", F.resize(image, [size], antialias=True))
        put(out, f"u8/resize_short_turned:{size}", F.resize(image.transpose(1, 2).contiguous(), [size], antialias=True))
    put(out, "u8/flip:1,0", F.horizontal_flip(image))
    put(out, "u8/flip:0,1", F.vertical_flip(image))
    put(out, "f32/flip:1,1", F.vertical_flip(F.horizontal_flip(out["f32"])))
    for degrees in (17.5, -90, 180, 200):
        both_types(out, f"rotate:{degrees}", image, lambda t, d=degrees: F.rotate(t, d))
    for args in ((10, 3, -2, 1.2, 5, 0), (-31.5, 0, 7, 0.7, -11, 4)):
        key = "affine:" + ",".join(str(a) for a in args)
        both_types(out, key, image, lambda t, a=args: F.affine(t, a[0], [a[1], a[2]], a[3], [a[4], a[5]]))
    for factor in (0, 0.4, 1.7):
        for name in ("brightness", "contrast", "saturation"):
            both_types(out, f"{name}:{factor}", image, lambda t, n=name, f=factor: getattr(F, f"adjust_{n}")(t, f))
    for turn in (-0.4, 0.15, 0.5):
        both_types(out, f"hue:{turn}", image, lambda t, h=turn: F.adjust_hue(t, h))
    for channels in (1, 3):
        both_types(out, f"grayscale:{channels}", image, lambda t, c=channels: F.rgb_to_grayscale(t, c))
    both_types(out, "erase:5,7,9,11", image, lambda t: F.erase(t, 5, 7, 9, 11, torch.zeros(3, 1, 1, dtype=t.dtype)))
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    put(out, "f32/normalize:0.485,0.456,0.406,0.229,0.224,0.225", F.normalize(out["f32"], mean, std))
    put(out, "u8/normalize:0.485,0.456,0.406,0.229,0.224,0.225", F.normalize(out["f32"], mean, std))


def main():
    readers, changed = {}, {}
    for fill in (tables, sounds, arrays, images):
        fill(readers)
    transforms(changed)
    save_file(readers, HERE / "readers.safetensors")
    save_file(changed, HERE / "transforms.safetensors")
    for name in ("readers", "transforms"):
        (HERE / f"{name}.safetensors").chmod(0o644)


if __name__ == "__main__":
    main()
