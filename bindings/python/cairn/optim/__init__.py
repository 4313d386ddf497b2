"""cairn.optim: optimisers, rate schedules (lr_scheduler) and averages of parameters (swa_utils).

The optimisers are the library's; Optimizer is the base to write own ones with.
"""
from ._optimisers import (ASGD as ASGD, LBFGS as LBFGS, SGD as SGD, Adadelta as Adadelta, Adafactor as Adafactor,
                          Adagrad as Adagrad, Adam as Adam, Adamax as Adamax, AdamW as AdamW, Lion as Lion,
                          Muon as Muon, NAdam as NAdam, RAdam as RAdam, RMSprop as RMSprop, Rprop as Rprop,
                          SparseAdam as SparseAdam)
from .optimizer import Optimizer as Optimizer
from . import lr_scheduler as lr_scheduler
from . import optimizer as optimizer
from . import swa_utils as swa_utils

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Lion", "Muon", "NAdam",
           "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "SparseAdam", "lr_scheduler", "swa_utils"]
