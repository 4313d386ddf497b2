"""The table of a model's layers as Keras prints it: names, shapes of outputs, numbers of parameters, and for models
with branches what each layer is connected to."""
from __future__ import annotations

import math
import re
import shutil
from typing import Any, Sequence

import cairn
from .batches import flatten

__all__ = ["text"]


def _size(bytes_: float) -> str:
    """Bytes, as people read them."""
    for unit in ("B", "KB", "MB", "GB"):
        if bytes_ < 1024:
            return "%.2f %s" % (bytes_, unit)
        bytes_ /= 1024
    return "%.2f TB" % bytes_


def _amount(weights: Sequence[Any]) -> tuple[int, int]:
    """Numbers and bytes, each weight once."""
    each = {id(w): w for w in weights}.values()
    return sum(int(w.numel()) for w in each), sum(int(w.numel()) * int(w.element_size()) for w in each)


# ---- what the rows say ----
def _shapes(model: Any, children: list[Any], input_size: Any) -> dict[int, str]:
    """Shapes of outputs, seen by a run on zeros."""
    found: dict[int, str] = {}

    def note(module: Any, args: Any, out: Any) -> None:  # unused: args (the hooks' signature)
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


def _shape(layer: Any) -> str:
    """Of the last call on a place, or of the last call at all."""
    nodes = layer.__dict__.get("_nodes")
    if nodes:
        shapes = [t.shape for t in nodes[-1].outputs]
        return str(shapes[0]) if len(shapes) == 1 else "[%s]" % ", ".join(map(str, shapes))
    own = getattr(layer, "_output", None)
    if own is not None:
        return ", ".join(str(t.shape) for t in flatten(own))
    return str(layer.__dict__.get("_seen_shape") or "?")


def _params(layer: Any) -> str:
    if not getattr(layer, "built", True):
        return "0 (unbuilt)"
    return "{:,}".format(_amount(list(layer.parameters()))[0])


def _branches(model: Any) -> bool:
    """Whether a layer has several inputs, or a place goes to several layers."""
    order = getattr(model, "_order", None)
    if order is None:
        return False
    layers = [node.layer for node in order]
    starts = len(getattr(model, "_places", ()))
    used = [id(t) for node in order for t in node.inputs]
    return starts > 1 or len(set(map(id, layers))) < len(layers) or any(len(n.inputs) > 1 for n in order) \
        or len(set(used)) < len(used)


def _from(layer: Any, model: Any) -> str:
    """The places that the layer's calls in this model are given."""
    mine = {id(n) for n in model._order}
    said = []
    for node in layer.__dict__.get("_nodes", ()):
        if id(node) not in mine:
            continue
        for t in node.inputs:
            home = t.node
            number = home.layer.__dict__["_nodes"].index(home) if home is not None else 0
            said.append("%s[%d][%d]" % (t.name if home is None else home.layer.name, number, t.index))
    return ", ".join(said) or "-"


def _rows(model: Any, layers: list[Any], found: dict[int, str], wide: bool, nested: bool, trained: bool,
          level: int = 0) -> list[list[str]]:
    rows = []
    for layer, given in layers:
        name = "%s (%s)" % (getattr(layer, "name", given), getattr(layer, "class_name", type(layer).__name__))
        row = [("   " * level + "└ " if level else "") + name, found.get(id(layer)) or _shape(layer), _params(layer)]
        if wide:
            row.append(_from(layer, model) if level == 0 else "-")
        if trained:
            own = bool(list(layer.parameters()))
            row.append("-" if not own else "Y" if any(p.requires_grad for p in layer.parameters()) else "N")
        rows.append(row)
        if nested and getattr(layer, "layers", None):
            rows += _rows(layer, [(k, "") for k in layer.layers], found, wide, nested, trained, level + 1)
    return rows


# ---- how they are drawn ----
def _widths(positions: Sequence[float], line: int) -> list[int]:
    """Of columns with a blank on both sides, all of them and their rules `line` wide."""
    ends = [int(p * line) for p in positions]
    wide = [b - a + 2 for a, b in zip([0] + ends, ends)]
    left, over = len(wide), sum(wide) + len(wide) + 1 - line
    for i in range(len(wide)):
        less = min(wide[i], round(over / left)) if over > 0 else 0
        wide[i], over, left = wide[i] - less, over - less, left - 1
    return wide


def _wrapped(value: str, width: int) -> list[str]:
    """Words in lines; a word that is too long ends with an ellipsis."""
    if len(value) <= width:
        return [value]
    lines, now = [], ""
    for word in re.findall(r"\s*\S+", value):
        if now and len(now) + len(word) > width:
            lines.append(now)
            now = word.lstrip()
        else:
            now += word
    lines.append(now)
    return [k if len(k) <= width else k[:width - 1] + "…" for k in lines]


def _row(cells: Sequence[str], widths: Sequence[int], sides: Sequence[str], bar: str) -> list[str]:
    parts = [_wrapped(c, w - 2) for c, w in zip(cells, widths)]
    made = []
    for i in range(max(map(len, parts))):
        line = []
        for part, w, side in zip(parts, widths, sides):
            text = part[i] if i < len(part) else ""
            line.append(" %s " % (text.rjust(w - 2) if side == "r" else text.center(w - 2) if side == "c"
                                  else text.ljust(w - 2)))
        made.append(bar + bar.join(line) + bar)
    return made


def _table(head: list[str], rows: list[list[str]], widths: list[int], sides: str) -> list[str]:
    def rule(left: str, line: str, cross: str, right: str) -> str:
        return left + cross.join(line * w for w in widths) + right
    lines = [rule("┏", "━", "┳", "┓"), *_row(head, widths, sides, "┃"), rule("┡", "━", "╇", "┩")]
    for i, row in enumerate(rows):
        lines += _row(row, widths, sides, "│")
        lines.append(rule("├", "─", "┼", "┤") if i + 1 < len(rows) else rule("└", "─", "┴", "┘"))
    return lines


def _range(layers: list[Any], ends: Any) -> list[Any]:
    """The layers from the first whose name fits to the last."""
    if ends is None:
        return layers
    names = [getattr(layer, "name", given) for layer, given in layers]
    low = [i for i, n in enumerate(names) if re.match(ends[0], n)]
    high = [i for i, n in enumerate(names) if re.match(ends[1], n)]
    if not low or not high:
        raise ValueError("layer_range %r: there are no such layers among %s" % (ends, ", ".join(names)))
    return layers[min(low[0], high[-1]):max(low[0], high[-1]) + 1]


def text(model: Any, input_size: Any = None, line_length: int | None = None, positions: Any = None,
         expand_nested: bool = False, show_trainable: bool = False, layer_range: Any = None) -> str:
    children = [(child, name) for name, child in model._weights_owner().named_children()]
    found = {} if input_size is None else _shapes(model, [c for c, _ in children], input_size)
    wide = _branches(model)
    line, head, sides = 88, ["Layer (type)", "Output Shape", "Param #"], "llr"
    columns = positions or [0.45, 0.80, 1.0]
    if wide:
        line, head, sides = 108, head + ["Connected to"], "llrl"
        columns = positions or [0.3, 0.56, 0.74, 1.0]
    if show_trainable:
        line, head, sides = line + 12, head + ["Trainable"], sides + "c"
        columns = [p * 0.9 for p in columns] + [1.0]
    widths = _widths(columns, line_length or min(line, shutil.get_terminal_size().columns - 4))
    rows = _rows(model, _range(children, layer_range), found, wide, expand_nested, show_trainable)
    lines = ["Model: \"%s\"" % getattr(model, "name", type(model).__name__), *_table(head, rows, widths, sides)]
    weights = list(model.parameters())
    yes, no = _amount([w for w in weights if w.requires_grad]), _amount([w for w in weights if not w.requires_grad])
    kept = (0, 0)
    made = getattr(getattr(model, "optimizer", None), "variables", None)
    if isinstance(made, list) and getattr(model.optimizer, "built", False):
        kept = (sum(math.prod(v.shape) for v in made), sum(math.prod(v.shape) * 4 for v in made))
    said = [("Total params", (yes[0] + no[0] + kept[0], yes[1] + no[1] + kept[1])), ("Trainable params", yes),
            ("Non-trainable params", no)] + ([("Optimizer params", kept)] if kept[0] else [])
    return "\n".join(lines + [" %s: %s (%s)" % (name, "{:,}".format(n), _size(b)) for name, (n, b) in said])
