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
from . import (autograd as autograd, cuda as cuda, func as func, linalg as linalg, nn as nn, random as random, special
               as special, testing as testing, utils as utils, version as version)
from ._forms_pointwise import *  # noqa: F401,F403
from ._forms_shape import *  # noqa: F401,F403
from . import signal as signal
from ._forms_linalg import *  # noqa: F401,F403
from ._forms_order import *  # noqa: F401,F403

__version__ = _version()
del _version
