"""keras.ops: numpy's names and a network's for cairn's ops, also on places of a model that is being built.

The parts are modules of their own as in Keras: ops.numpy, ops.nn, ops.linalg, ops.image.
"""
from __future__ import annotations

from typing import Any

from . import core as _core, image as image, linalg as linalg, nn as nn, numpy as numpy

for _part in (numpy, linalg, nn, _core):
    for _name, _value in vars(_part).items():
        if not _name.startswith("_") and callable(_value) and not isinstance(_value, type) \
                and getattr(_value, "__module__", "").startswith("cairn.keras.ops"):
            globals().setdefault(_name, _value)
for _name in ("op", "unary", "binary", "reduction", "floats", "tensor", "dims", "extreme", "flattened", "one_by_one",
              "all_ints"):
    globals().pop(_name, None)
globals().update({n: getattr(numpy, n) for n in ("sum", "max", "min", "any", "all", "abs", "round")})

_complex = ("fft fft2 ifft2 rfft irfft stft istft polar eig view_as_complex view_as_real").split()


def __getattr__(name: str) -> Any:
    if name in _complex:
        raise AttributeError("keras.ops.%s is not there: its complex results are in cairn.fft and cairn" % name)
    raise AttributeError("module 'cairn.keras.ops' has no attribute %r" % (name,))


def __dir__() -> list[str]:
    return sorted(n for n in globals() if not n.startswith("_") and n not in ("annotations", "Any"))
