"""Tensors in notebooks: a table of their elements, the middle left out where there are many."""
from __future__ import annotations

import html
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._tensor import Tensor

_EDGE, _MOST = 3, 8  # elements at each end of a dimension with more than _MOST
_CELL = "text-align:right;font-family:monospace"


def _places(n: int) -> list[int | None]:
    """Which of n elements are shown; None stands for those left out."""
    return list(range(n)) if n <= _MOST else [*range(_EDGE), None, *range(n - _EDGE, n)]


def _shown(value: object) -> str:
    return "%.4g" % value if isinstance(value, float) else str(value)


def _row(cells: list[str]) -> str:
    return "<tr>%s</tr>" % "".join('<td style="%s">%s</td>' % (_CELL, cell) for cell in cells)


def _grid(t: Tensor) -> str:
    """Of a tensor with two dimensions."""
    rows, columns = _places(t.shape[0]), _places(t.shape[1])
    body = [_row(["&#8942;"] * len(columns)) if i is None else
            _row(["&#8943;" if j is None else _shown(t[i, j].item()) for j in columns]) for i in rows]
    return "<table>%s</table>" % "".join(body)


def table(t: Tensor) -> str:
    """The elements of up to two dimensions, the text of others, and shape, type and device below."""
    about = "%s, %s, %s" % (tuple(t.shape), t.dtype, t.device)
    plain = t.detach()
    if 0 < t.ndim <= 2 and t.numel():
        body = _grid(plain if t.ndim == 2 else plain.unsqueeze(0))
    else:
        body = "<pre>%s</pre>" % html.escape(repr(plain))
    return "%s<div>%s%s</div>" % (body, html.escape(about), ", requires a gradient" if t.requires_grad else "")
