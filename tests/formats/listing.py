"""Writes what a file holds, one value a line, as listing.c does for the tree that cairn reads from it."""
import json
import struct
import zlib

import numpy as np


def tensor_bytes(value):
    """The elements, row-major: of a PyTorch tensor or a NumPy array."""
    if isinstance(value, np.ndarray):
        native = value.astype(value.dtype.newbyteorder("="))
        return np.ascontiguousarray(native).tobytes()
    import torch
    flat = value.detach().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def dtype_name(value):
    return str(value.dtype).replace("torch.", "") if not isinstance(value, np.ndarray) else value.dtype.name


def is_tensor(value):
    return isinstance(value, np.ndarray) or type(value).__name__ in ("Tensor", "Parameter")


def lines(value, path=""):
    def line(kind, text=""):
        return f"{json.dumps(path, ensure_ascii=False)} {kind}" + (f" {text}" if text else "")

    if is_tensor(value):
        shape = ", ".join(str(n) for n in value.shape)
        yield line("tensor", f"{dtype_name(value)} [{shape}] {zlib.crc32(tensor_bytes(value))}")
    elif value is None:
        yield line("none")
    elif isinstance(value, bool):
        yield line("bool", str(int(value)))
    elif isinstance(value, int):
        yield line("int", str(value))
    elif isinstance(value, float):
        yield line("float", struct.pack(">d", value).hex())
    elif isinstance(value, str):
        yield line("str", json.dumps(value, ensure_ascii=False))
    elif isinstance(value, dict):
        yield line("dict", str(len(value)))
        for key, below in value.items():
            yield from lines(below, f"{path}/{key}")
    elif isinstance(value, (list, tuple)):
        yield line("tuple" if isinstance(value, tuple) else "list", str(len(value)))
        for i, below in enumerate(value):
            yield from lines(below, f"{path}/{i}")
    else:  # dtypes, devices, layouts
        yield line("str", json.dumps(str(value)))


def text(value):
    return "".join(line + "\n" for line in lines(value))
