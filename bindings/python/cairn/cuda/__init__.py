"""cairn.cuda: NVIDIA devices: which there are, what they are like, waiting for them, their memory.

Importing this module loads nothing; the CUDA plugin comes with the first question (_devices.py). Invariant: where there
is no device, questions are answered (False, 0), and what needs a device raises RuntimeError.
"""
from __future__ import annotations

import typing

from .. import _C
from . import (_devices, _doors, allocator, graphs as graphs, kernels as kernels, memory as memory, nvtx as nvtx,
               profiler as profiler, random as random, readings, runtime, streams as streams)
from ._devices import *  # noqa: F401,F403
from ._devices import DeviceProperties as DeviceProperties
from ._doors import *  # noqa: F401,F403
from .allocator import *  # noqa: F401,F403
from .graphs import *  # noqa: F401,F403
from .kernels import *  # noqa: F401,F403
from .memory import *  # noqa: F401,F403
from .random import *  # noqa: F401,F403
from .readings import *  # noqa: F401,F403
from .runtime import *  # noqa: F401,F403
from .streams import *  # noqa: F401,F403

AcceleratorError = _C.AcceleratorError
OutOfMemoryError = _C.OutOfMemoryError
has_half = True
has_magma = False

_KINDS = ("BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
          "IntTensor", "LongTensor", "ShortTensor")
_STORAGES = tuple(kind.replace("Tensor", "Storage") for kind in _KINDS) + ("ComplexDoubleStorage",
                                                                          "ComplexFloatStorage")
__all__ = [*_devices.__all__, *allocator.__all__, *graphs.__all__, *kernels.__all__, *memory.__all__, *random.__all__,
           *readings.__all__, *runtime.__all__, *streams.__all__, *_doors.__all__, "AcceleratorError",
           "OutOfMemoryError"]

if typing.TYPE_CHECKING:
    from .._legacy import StorageType, TensorType
    BFloat16Storage: StorageType
    BoolStorage: StorageType
    ByteStorage: StorageType
    CharStorage: StorageType
    ComplexDoubleStorage: StorageType
    ComplexFloatStorage: StorageType
    DoubleStorage: StorageType
    FloatStorage: StorageType
    HalfStorage: StorageType
    IntStorage: StorageType
    LongStorage: StorageType
    ShortStorage: StorageType
    default_generators: tuple[typing.Any, ...]
    BFloat16Tensor: TensorType
    BoolTensor: TensorType
    ByteTensor: TensorType
    CharTensor: TensorType
    DoubleTensor: TensorType
    FloatTensor: TensorType
    HalfTensor: TensorType
    IntTensor: TensorType
    LongTensor: TensorType
    ShortTensor: TensorType
else:
    def __getattr__(name):
        if name == "default_generators":  # one for each device; all devices draw from the same
            from .. import default_generator
            return (default_generator,) * _devices.device_count()
        if name == "_initialized":
            return _devices.is_initialized()
        if name in ("comm", "jiterator"):  # which need more of the package
            from importlib import import_module
            return import_module(__name__ + "." + name)
        if name not in _KINDS + _STORAGES:
            raise AttributeError("module 'cairn.cuda' has no attribute %r" % (name,))
        from .._legacy import by_name, storage_by_name
        find = by_name if name in _KINDS else storage_by_name
        made = globals()[name] = find("cuda." + name)
        return made

from . import amp as amp, tunable as tunable  # noqa: E402  (at the end: they look at this module)
