"""cairn.optim: optimisers, rate schedules (lr_scheduler) and averages of parameters (swa_utils).

The optimisers are the library's; Optimizer is the base to write own ones with.
"""
from . import _optimisers
from ._optimisers import *  # noqa: F403
from .optimizer import Optimizer as Optimizer
from . import lr_scheduler as lr_scheduler
from . import optimizer as optimizer
from . import swa_utils as swa_utils

__all__ = ["Optimizer", "lr_scheduler", "swa_utils"]
__all__ += _optimisers.__all__
