"""How tensors are printed, under the names of torch._tensor_str."""
from __future__ import annotations

from typing import Any

from . import _forms
from ._tensor import Tensor

__all__ = ["set_printoptions"]

set_printoptions = _forms.set_printoptions


class _Options:
    """How tensors are printed now."""

    def __getattr__(self, name: str) -> Any:
        order = ("precision", "threshold", "edgeitems", "linewidth")
        if name not in order:
            raise AttributeError("there is no option %r of printing" % name)
        return _forms._printing[order.index(name)]


PRINT_OPTS = _Options()


def _tensor_str(self: Tensor, indent: int) -> str:
    """The elements of a tensor as it is printed, its further lines moved to the right."""
    text = repr(self)
    start = text.index("(") + 1
    body = text[start:-1]
    lines = body.split("\n")
    moved = [line[start:] if line[:start].isspace() else line for line in lines[1:]]
    return "\n".join([lines[0], *(" " * indent + line for line in moved)])


def _str(self: Tensor, *, tensor_contents: Any = None) -> str:
    """The tensor as it is printed."""
    if tensor_contents is not None:
        raise NotImplementedError("_str: tensor_contents is not supported")
    return repr(self)
