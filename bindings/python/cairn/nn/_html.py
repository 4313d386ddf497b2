"""Modules in notebooks: a table of what is inside."""
from __future__ import annotations

import html
from typing import Any

__all__ = ()

_STYLE = "text-align:left;font-family:monospace;white-space:pre"


def _count(module: Any) -> int:
    return sum(p.numel() for p in module.parameters())


def _rows(module: Any, name: str, depth: int, seen: set[int]) -> list[str]:
    shared = id(module) in seen
    seen.add(id(module))
    extra = "" if module._modules else module.extra_repr().replace("\n", ", ")
    label = "&nbsp;" * 4 * depth + (html.escape(name) + " " if name else "")
    count = "shared" if shared else "{:,}".format(_count(module))
    rows = ['<tr><td style="%s">%s<b>%s</b></td><td style="%s">%s</td><td style="text-align:right">%s</td></tr>'
            % (_STYLE, label, html.escape(module._get_name()), _STYLE, html.escape(extra), count)]
    if not shared:
        for child_name, child in module._modules.items():
            if child is not None:
                rows += _rows(child, child_name, depth + 1, seen)
    return rows


def table(module: Any) -> str:
    """The module and all below it, a line each, with settings and numbers of parameters."""
    head = '<tr><th style="text-align:left">module</th><th style="text-align:left">settings</th>' \
           "<th>parameters</th></tr>"
    mode = "training" if module.training else "evaluation"
    total = "{:,}".format(_count(module))
    return "<table>%s%s</table><div>%s parameters, %s mode</div>" % (
        head, "".join(_rows(module, "", 0, set())), total, mode)
