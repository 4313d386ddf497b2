"""Special functions: torch.special's names. `cairn.special.zeta` is the op special_zeta, `expit` a second name of
sigmoid: the rows of the op table say which have one.
"""
from ._special_ops import *  # noqa: F401,F403
