"""Layers under Keras's names, with its arguments, defaults, weights and data layout."""
from .._graph import Input as Input
from .attention import *  # noqa: F401,F403
from .base import InputSpec as InputSpec, Layer as Layer
from .conv import *  # noqa: F401,F403
from .core import *  # noqa: F401,F403
from .norm import *  # noqa: F401,F403
from .recurrent import *  # noqa: F401,F403
from . import attention as _attention, conv as _conv, core as _core, norm as _norm, recurrent as _recurrent

__all__ = ["Input", "InputSpec", "Layer"]
__all__ += _attention.__all__ + _conv.__all__ + _core.__all__ + _norm.__all__ + _recurrent.__all__
