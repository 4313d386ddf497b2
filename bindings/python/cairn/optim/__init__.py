"""cairn.optim: optimisers, rate schedules (lr_scheduler) and averages of parameters (swa_utils).

The optimisers are the library's; Optimizer is the base to write own ones with.
"""
from .. import _homes
from . import _optimisers
from ._optimisers import *  # noqa: F403
from .optimizer import Optimizer as Optimizer
from . import lr_scheduler as lr_scheduler
from . import optimizer as optimizer
from . import swa_utils as swa_utils

__all__ = ["Optimizer", "lr_scheduler", "swa_utils"]
__all__ += _optimisers.__all__
_homes.homes(__name__, {below: "%s ParamsT" % name for below, name in (
    ("_adafactor", "Adafactor"), ("_muon", "Muon"), ("adadelta", "Adadelta"), ("adagrad", "Adagrad"), ("adam", "Adam"),
    ("adamax", "Adamax"), ("adamw", "AdamW"), ("asgd", "ASGD"), ("lbfgs", "LBFGS"), ("nadam", "NAdam"),
    ("radam", "RAdam"), ("rmsprop", "RMSprop"), ("rprop", "Rprop"), ("sgd", "SGD"), ("sparse_adam", "SparseAdam"))})
ParamsT = optimizer.ParamsT
