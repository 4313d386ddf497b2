"""Layers under Keras's names, with its arguments, defaults, weights and data layout."""
from typing import Any

from .._graph import Input as Input
from .activation import *  # noqa: F401,F403
from .attention import *  # noqa: F401,F403
from .audio import *  # noqa: F401,F403
from .base import InputSpec as InputSpec, Layer as Layer
from .colour import *  # noqa: F401,F403
from .conv import *  # noqa: F401,F403
from .conv_recurrent import *  # noqa: F401,F403
from .core import *  # noqa: F401,F403
from .image import *  # noqa: F401,F403
from .lookup import *  # noqa: F401,F403
from .merge import *  # noqa: F401,F403
from .mix import *  # noqa: F401,F403
from .noise import *  # noqa: F401,F403
from .norm import *  # noqa: F401,F403
from .pool import *  # noqa: F401,F403
from .prepare import *  # noqa: F401,F403
from .recurrent import *  # noqa: F401,F403
from .shape import *  # noqa: F401,F403
from . import activation as _activation, attention as _attention, audio as _audio, colour as _colour, conv as _conv, \
    conv_recurrent as _conv_recurrent, core as _core, image as _image, lookup as _lookup, merge as _merge, \
    mix as _mix, noise as _noise, norm as _norm, pool as _pool, prepare as _prepare, recurrent as _recurrent, \
    shape as _shape

__all__ = ["Input", "InputSpec", "Layer", "deserialize", "serialize"]
__all__ += _activation.__all__ + _attention.__all__ + _audio.__all__ + _colour.__all__ + _conv.__all__
__all__ += _conv_recurrent.__all__ + _core.__all__ + _image.__all__ + _lookup.__all__
__all__ += _merge.__all__ + _mix.__all__ + _noise.__all__ + _norm.__all__ + _pool.__all__ + _prepare.__all__
__all__ += _recurrent.__all__ + _shape.__all__


def serialize(layer: Any) -> Any:
    """A layer as what JSON can hold."""
    from .._serial import serialize as packed
    return packed(layer)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    """The layer of what serialize returned."""
    from .._serial import deserialize as unpacked
    return unpacked(config, custom_objects)
