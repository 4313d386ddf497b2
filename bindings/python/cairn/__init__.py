"""cairn: deep learning in C, for Python.

Names, arguments and errors are those of torch: `cairn.tensor([1.0, 2.0], requires_grad=True).exp().sum().backward()`.
Every op of the library's table is a function here (`cairn.add`) and, where torch has one, a method (`t.add`, `t.add_`);
they come from the C extension. What is written in Python lies in the modules below.
"""
from ._C import *  # noqa: F401,F403  (every op, the dtypes, device, settings)
from ._C import (_chunk_cat as _chunk_cat, _grouped_mm as _grouped_mm, _int_mm as _int_mm, _safe_softmax as
                 _safe_softmax, _scaled_mm as _scaled_mm, _softmax_backward_data as _softmax_backward_data,
                 _unsafe_masked_index as _unsafe_masked_index, _unsafe_masked_index_put_accumulate as
                 _unsafe_masked_index_put_accumulate, _version)
from ._types import (Size as Size, finfo as finfo, iinfo as iinfo, inf as inf, nan as nan, pi as pi, e as e, newaxis
                     as newaxis)
from ._tensor import Tensor as Tensor
from ._forms import *  # noqa: F401,F403  (the ops whose torch form is more than a signature)
from ._modes import (enable_grad as enable_grad, inference_mode as inference_mode, is_grad_enabled as
                     is_grad_enabled, is_inference_mode_enabled as is_inference_mode_enabled, no_grad as no_grad,
                     set_grad_enabled as set_grad_enabled)
from ._numpy import from_numpy as from_numpy
from .random import (Generator as Generator, default_generator as default_generator, get_rng_state as get_rng_state,
                     initial_seed as initial_seed, manual_seed as manual_seed, seed as seed, set_rng_state as
                     set_rng_state)
from . import _C as _C, _libraries as _libraries
from . import (autograd as autograd, fft as fft, linalg as linalg, random as random, special as special, version as
               version)
from ._forms_pointwise import *  # noqa: F401,F403
from ._forms_shape import *  # noqa: F401,F403
from ._forms_linalg import *  # noqa: F401,F403
from ._forms_order import *  # noqa: F401,F403
from ._inplace_ops import *  # noqa: F401,F403
from ._forms_compat import *  # noqa: F401,F403
from ._forms_native import *  # noqa: F401,F403
from ._forms_compat import _assert as _assert
from ._forms_complex import *  # noqa: F401,F403
from ._forms_sparse import *  # noqa: F401,F403
from typing import TYPE_CHECKING as _TYPING

# What is imported by those who use it, so that `import cairn` stays a matter of milliseconds: modules of the package,
# and names that stand in one of them.
_MODULES = ("__config__", "_dynamo", "_inductor", "_jit_internal", "_ops", "_tensor_str", "_utils", "accelerator",
            "amp", "ao", "backends", "callbacks", "compiler", "cpu", "cuda", "datasets", "distributed", "distributions",
            "export", "func", "functional", "futures", "fx", "hub", "io", "jit", "keras", "library", "lists", "masked",
            "metrics", "models", "monitor", "mps", "multiprocessing", "nn", "onnx", "ops", "optim",
            "overrides", "package", "profiler", "quantization", "quasirandom", "return_types", "serialization",
            "sharding", "signal", "sparse", "stablehlo", "storage", "strings", "testing", "tokenizers", "torch_version",
            "transforms", "types", "utils", "xpu", "zoo")
# Private modules of torch that have no counterpart: see _absent_parts.py.
_PARTS = frozenset("_VF _custom_ops _decomp _dispatch _export _functorch _guards _higher_order_ops _lazy _library "
                   "_logging _meta_registrations _numpy _prims _prims_common _refs _streambase _subclasses "
                   "_vmap_internals _weights_only_unpickler".split())
_NAMES = {name: place for place, names in {
    "_alias": "as_torch", "_control": "cond while_loop",
    "_checks": "_assert_async _assert_scalar _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int "
               "_cast_Long _cast_Short _check _check_index _check_is_size _check_not_implemented _check_tensor_all "
               "_check_tensor_all_with _check_type _check_value _check_with _shape_as_tensor _standard_gamma "
               "bits16 bits1x8 bits2x4 bits4x2 bits8 classes compiled_with_cxx11_abi eig from_file has_cuda has_cudnn "
               "has_lapack has_mkl has_mps has_openmp has_spectral int1 int2 int3 int4 int5 int6 int7 "
               "legacy_contiguous_format lstsq matrix_rank per_channel_affine per_channel_symmetric per_tensor_affine "
               "per_tensor_symmetric qint32 qint8 quint2x4 quint4x2 quint8 solve symeig uint1 uint2 uint3 uint4 uint5 "
               "uint6 uint7",
    "_absent": "PyTorchFileReader PyTorchFileWriter ScriptMethod ScriptObject",
    "_legacy": "BFloat16Storage BFloat16Tensor BoolStorage BoolTensor ByteStorage ByteTensor CharStorage CharTensor "
               "DoubleStorage DoubleTensor FloatStorage FloatTensor HalfStorage HalfTensor IntStorage IntTensor "
               "LongStorage LongTensor ShortStorage ShortTensor",
    "futures": "Future",
    "_settings": "are_deterministic_algorithms_enabled get_deterministic_debug_mode get_float32_matmul_precision "
                 "get_num_interop_threads is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled "
                 "set_default_tensor_type set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal "
                 "set_num_interop_threads set_warn_always use_deterministic_algorithms",
    "_limits": "Cancelled limits",
    "_symbols": "SymBool SymFloat SymInt sym_float sym_fresh_size sym_int sym_ite sym_max sym_min sym_not sym_sqrt "
                "sym_sum",
    "jit": "ScriptFunction ScriptModule", "_streams": "Event Stream", "_vmap": "vmap",
    "amp": "GradScaler",
    "amp.autocast_mode": "autocast get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype "
                         "is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled "
                         "set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled",
    "autograd.tape": "GradientTape", "compiler": "compile", "model": "Model", "serialization": "load save",
    "sharding": "Mesh", "storage": "TypedStorage UntypedStorage", "zoo": "summary"}.items() for name in names.split()}
if _TYPING:
    from . import (accelerator as accelerator, amp as amp, ao as ao, backends as backends, callbacks as callbacks,
                   compiler as compiler, cpu as cpu, cuda as cuda, datasets as datasets, distributed as distributed,
                   distributions as distributions, export as export, func as func, functional as functional,
                   futures as futures, fx as fx, hub as hub, io as io, jit as jit, keras as keras, library as library,
                   lists as lists, masked as masked, metrics as metrics, models as models, monitor as monitor,
                   mps as mps, multiprocessing as multiprocessing, nn as nn, onnx as onnx, ops as ops,
                   optim as optim, overrides as overrides, package as package, profiler as profiler,
                   quantization as quantization, quasirandom as quasirandom, return_types as return_types,
                   serialization as serialization, sharding as sharding, signal as signal, sparse as sparse,
                   stablehlo as stablehlo, storage as storage,
                   strings as strings, testing as testing, tokenizers as tokenizers, torch_version as torch_version,
                   transforms as transforms, types as types, utils as utils, xpu as xpu, zoo as zoo)
    from ._alias import as_torch as as_torch
    from ._control import cond as cond, while_loop as while_loop
    from ._checks import *
    from ._absent import (PyTorchFileReader as PyTorchFileReader, PyTorchFileWriter as PyTorchFileWriter,
                          ScriptMethod as
                          ScriptMethod, ScriptObject as ScriptObject)
    from ._symbols import *
    from .jit import ScriptFunction as ScriptFunction, ScriptModule as ScriptModule
    from ._legacy import (BFloat16Storage as BFloat16Storage, BoolStorage as BoolStorage, ByteStorage as ByteStorage,
                          CharStorage as CharStorage, DoubleStorage as DoubleStorage, FloatStorage as FloatStorage,
                          HalfStorage as HalfStorage, IntStorage as IntStorage, LongStorage as LongStorage, ShortStorage
                          as ShortStorage)
    from ._legacy import (BFloat16Tensor as BFloat16Tensor, BoolTensor as BoolTensor, ByteTensor as ByteTensor,
                          CharTensor as CharTensor, DoubleTensor as DoubleTensor, FloatTensor as FloatTensor, HalfTensor
                          as HalfTensor, IntTensor as IntTensor, LongTensor as LongTensor, ShortTensor as ShortTensor)
    from .futures import Future as Future
    from ._limits import Cancelled as Cancelled, limits as limits
    from ._settings import *
    from ._streams import Event as Event, Stream as Stream
    from ._vmap import vmap as vmap
    from .amp import GradScaler as GradScaler
    from .amp.autocast_mode import (autocast as autocast, get_autocast_cpu_dtype as get_autocast_cpu_dtype,
                                    get_autocast_dtype as get_autocast_dtype, get_autocast_gpu_dtype as
                                    get_autocast_gpu_dtype, is_autocast_cache_enabled as is_autocast_cache_enabled,
                                    is_autocast_cpu_enabled as is_autocast_cpu_enabled, is_autocast_enabled as
                                    is_autocast_enabled, set_autocast_cache_enabled as set_autocast_cache_enabled,
                                    set_autocast_dtype as set_autocast_dtype, set_autocast_enabled as
                                    set_autocast_enabled)
    from .autograd.tape import GradientTape as GradientTape
    from .compiler import compile as compile
    from .model import Model as Model
    from .serialization import load as load, save as save
    from .sharding import Mesh as Mesh
    from .storage import TypedStorage as TypedStorage, UntypedStorage as UntypedStorage
    from .zoo import summary as summary
else:
    def __getattr__(name: str) -> object:
        from importlib import import_module
        if name in _MODULES:
            return import_module("." + name, __package__)
        if name.startswith("_foreach_"):
            value = globals()[name] = import_module("._foreach", __package__).by_name(name)
            return value
        if name not in _NAMES:
            if name in ("DeviceObjType", "FloatType", "IntType", "BoolType", "StringType", "ListType", "DictType",
                        "TupleType", "OptionalType", "TensorType", "NumberType", "ClassType", "FunctionSchema"):
                return getattr(_C, name)
            if name in _PARTS:
                from ._absent_parts import part
                return part(name)
            raise AttributeError("module 'cairn' has no attribute %r" % (name,))
        value = globals()[name] = getattr(import_module("." + _NAMES[name], __package__), name)
        return value

    def _name_of_c(name: str) -> object:
        from ._c_names import by_name
        return by_name(name)

    setattr(_C, "__getattr__", _name_of_c)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, *_NAMES})

__version__ = _version()
del _version
