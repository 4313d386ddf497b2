"""cairn: deep learning in C, for Python.

Names, arguments and errors are those of torch: `cairn.tensor([1.0, 2.0], requires_grad=True).exp().sum().backward()`.
Every op of the library's table is a function here (`cairn.add`) and, where torch has one, a method (`t.add`, `t.add_`);
they come from the C extension. What is written in Python lies in the modules below.
"""
from ._C import *  # noqa: F401,F403  (every op, the dtypes, device, settings)
from ._C import _version
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
from . import autograd as autograd, linalg as linalg, random as random, special as special, version as version
from ._forms_pointwise import *  # noqa: F401,F403
from ._forms_shape import *  # noqa: F401,F403
from ._forms_linalg import *  # noqa: F401,F403
from ._forms_order import *  # noqa: F401,F403
from typing import TYPE_CHECKING as _TYPING

# What is imported by those who use it, so that `import cairn` stays a matter of milliseconds: modules of the package,
# and names that stand in one of them.
_MODULES = ("amp", "callbacks", "cuda", "datasets", "func", "keras", "metrics", "nn", "optim", "serialization",
            "signal", "testing", "tokenizers", "transforms", "utils", "zoo")
_NAMES = {"load": "serialization", "save": "serialization", "summary": "zoo", "Model": "model",
          "autocast": "amp.autocast_mode", "get_autocast_dtype": "amp.autocast_mode",
          "is_autocast_enabled": "amp.autocast_mode", "set_autocast_dtype": "amp.autocast_mode",
          "set_autocast_enabled": "amp.autocast_mode", "celu_": "nn.functional", "rrelu_": "nn.functional",
          "selu_": "nn.functional", "threshold_": "nn.functional"}
if _TYPING:
    from . import (amp as amp, callbacks as callbacks, cuda as cuda, datasets as datasets, func as func, keras as keras,
                   metrics as metrics, nn as nn, optim as optim, serialization as serialization, signal as signal,
                   testing as testing, tokenizers as tokenizers, transforms as transforms, utils as utils, zoo as zoo)
    from .amp.autocast_mode import (autocast as autocast, get_autocast_dtype as get_autocast_dtype, is_autocast_enabled
                                    as is_autocast_enabled, set_autocast_dtype as set_autocast_dtype,
                                    set_autocast_enabled as set_autocast_enabled)
    from .model import Model as Model
    from .nn.functional import celu_ as celu_, rrelu_ as rrelu_, selu_ as selu_, threshold_ as threshold_
    from .serialization import load as load, save as save
    from .zoo import summary as summary
else:
    def __getattr__(name: str) -> object:
        from importlib import import_module
        if name in _MODULES:
            return import_module("." + name, __name__)
        if name not in _NAMES:
            raise AttributeError("module 'cairn' has no attribute %r" % (name,))
        value = globals()[name] = getattr(import_module("." + _NAMES[name], __name__), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, *_NAMES})

__version__ = _version()
del _version
