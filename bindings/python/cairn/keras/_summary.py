"""The table of a model's layers: names, shapes of outputs, numbers of parameters."""
from __future__ import annotations

from typing import Any

import cairn

__all__ = ["text"]


def _size(count: int) -> str:
    """4 bytes a number, as people read it."""
    size = float(count * 4)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1024 or unit == "GB":
            return "%.2f %s" % (size, unit)
        size /= 1024
    return ""


def _counted(module: Any) -> tuple[int, int]:
    """Parameters, and those that train; each once."""
    seen = {id(p): p for p in module.parameters()}
    return sum(p.numel() for p in seen.values()), sum(p.numel() for p in seen.values() if p.requires_grad)


def _rows(model: Any, input_size: Any) -> list[tuple[str, str, int]]:
    found: dict[int, str] = {}
    children = list(model._weights_owner().named_children())
    if input_size is not None:
        found = _shapes(model, [m for _, m in children], input_size)
    rows = []
    for place in getattr(model, "_places", ()):
        rows.append(("%s (InputLayer)" % place.name, str(place.shape), 0))
    for name, child in children:
        shape = found.get(id(child)) or str(child.__dict__.get("_seen_shape") or "?")
        rows.append(("%s (%s)" % (getattr(child, "name", name), type(child).__name__), shape, _counted(child)[0]))
    return rows


def _shapes(model: Any, children: list[Any], input_size: Any) -> dict[int, str]:
    """Shapes of outputs, seen by a run on zeros."""
    found: dict[int, str] = {}

    def note(module: Any, args: Any, out: Any) -> None:
        if isinstance(out, cairn.Tensor):
            found[id(module)] = str(tuple([None] + [int(n) for n in out.shape[1:]]))
    handles = [c.register_forward_hook(note) for c in children]
    first = next(iter(model.parameters()), None)
    was = model.training
    model.eval()
    try:
        with cairn.no_grad():
            model(cairn.zeros((1,) + tuple(input_size), device=None if first is None else first.device))
    finally:
        model.train(was)
        for handle in handles:
            handle.remove()
    return found


def text(model: Any, input_size: Any = None) -> str:
    rows = _rows(model, input_size)
    name = getattr(model, "name", type(model).__name__)
    head = ("Layer (type)", "Output Shape", "Param #")
    cells = [head] + [(a, b, "{:,}".format(n)) for a, b, n in rows]
    wide = [max(len(row[i]) for row in cells) for i in range(3)]
    rule = "-" * (sum(wide) + 4)
    lines = ["Model: \"%s\"" % name, rule]
    for i, (a, b, c) in enumerate(cells):
        lines.append("%s  %s  %s" % (a.ljust(wide[0]), b.ljust(wide[1]), c.rjust(wide[2])))
        if i == 0:
            lines.append(rule.replace("-", "="))
    lines.append(rule)
    total, trained = _counted(model)
    lines.append("Total params: {:,} ({})".format(total, _size(total)))
    lines.append("Trainable params: {:,} ({})".format(trained, _size(trained)))
    lines.append("Non-trainable params: {:,} ({})".format(total - trained, _size(total - trained)))
    return "\n".join(lines)
