"""keras.optimizers.legacy: where programs of Keras 2 look for optimisers; they are the same ones, which take lr and
decay too."""
from . import (SGD as SGD, Adadelta as Adadelta, Adagrad as Adagrad, Adam as Adam, Adamax as Adamax, Ftrl as Ftrl,
               Nadam as Nadam, Optimizer as Optimizer, RMSprop as RMSprop)

__all__ = ["Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop", "SGD"]
