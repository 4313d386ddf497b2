"""Linear algebra: torch.linalg's names. `cairn.linalg.inv` is the op linalg_inv."""
from . import _C
from ._names import SPACES

for _name in SPACES["linalg"]:
    globals()[_name.removeprefix("linalg_")] = getattr(_C, _name)

LinAlgError = _C.InvalidArgumentError  # what a singular matrix raises: a RuntimeError, as torch's
