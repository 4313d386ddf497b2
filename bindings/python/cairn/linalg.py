"""Linear algebra: torch.linalg's names. `cairn.linalg.inv` is the op linalg_inv."""
from . import _C
from ._linalg_ops import *  # noqa: F401,F403

matmul = _C.matmul

LinAlgError = _C.InvalidArgumentError  # what a singular matrix raises: a RuntimeError, as torch's
