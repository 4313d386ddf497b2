"""Keras's names on cairn: the usual Keras programs run with `from cairn import keras`.

    from cairn import keras
    from cairn.keras import layers

    model = keras.Sequential([keras.Input((28, 28, 1)), layers.Conv2D(32, 3, activation="relu"), layers.MaxPooling2D(),
                              layers.Flatten(), layers.Dense(10, activation="softmax")])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    model.fit(x, y, epochs=5, validation_split=0.1)

Layers are modules, weights are parameters, everything is computed by cairn's ops and optimisers: what cairn.nn and
cairn.optim have goes together with what is here.
"""
from typing import Any as _Any

from . import activations as activations, backend as backend, constraints as constraints, initializers as initializers
from . import layers as layers, losses as losses, metrics as metrics, optimizers as optimizers
from . import regularizers as regularizers
from . import callbacks as callbacks, config as config, dtype_policies as dtype_policies, models as models, ops as ops
from . import mixed_precision as mixed_precision, random as random, saving as saving, tree as tree, utils as utils
from . import applications as applications, datasets as datasets, preprocessing as preprocessing
from ..autograd.tape import GradientTape as GradientTape
from ._graph import Input as Input, KerasTensor as KerasTensor
from .backend import name_scope as name_scope
from .dtype_policies import DTypePolicy as DTypePolicy, FloatDTypePolicy as FloatDTypePolicy
from .initializers import Initializer as Initializer
from .layers.base import InputSpec as InputSpec, Layer as Layer, Variable as Variable
from .losses import Loss as Loss
from .metrics import Metric as Metric
from .models import Model as Model, Sequential as Sequential
from .optimizers import Optimizer as Optimizer
from .regularizers import Regularizer as Regularizer

__version__ = "3.15.0"  # of the names here


def version() -> str:
    return __version__


def device(device_name: str) -> _Any:
    """A context whose tensors are made on a device, as `keras.device("cpu:0")`."""
    import cairn
    kind, _, number = device_name.lower().partition(":")
    kind = "cuda" if kind == "gpu" else kind
    return cairn.device(kind if kind == "cpu" or not number else "%s:%s" % (kind, number))
