"""plot_model: a model as a graph of boxes. Graphviz's dot draws pictures where it is installed; a name that ends with
.dot gets the graph as text, and .svg a picture that needs nothing."""
from __future__ import annotations

import html
import os
import shutil
import subprocess
from typing import Any

from .._arguments import refused
from .._training.summary import _shape

__all__ = ["model_to_dot", "plot_model"]


class _Show:
    """What boxes say of layers."""

    def __init__(self, shapes: bool, dtype: bool, names: bool, activations: bool, trainable: bool) -> None:
        self.shapes, self.dtype, self.names = shapes, dtype, names
        self.activations, self.trainable = activations, trainable


def _boxes(model: Any, show: _Show) -> list[tuple[str, list[str]]]:
    made = []
    for layer in model.layers:
        kind = getattr(layer, "class_name", type(layer).__name__)
        lines = ["%s (%s)" % (layer.name, kind) if show.names and hasattr(layer, "name") else kind]
        own = getattr(getattr(layer, "activation", None), "__name__", None)
        if show.activations and own:
            lines.append("activation: %s" % own)
        if show.shapes:
            lines.append("output: %s" % _shape(layer))
        if show.dtype:
            lines.append("dtype: %s" % getattr(layer, "dtype", "?"))
        if show.trainable:
            lines.append("trainable" if getattr(layer, "trainable", True) else "not trainable")
        made.append((str(getattr(layer, "name", kind)), lines))
    return made


def _edges(model: Any) -> list[tuple[str, str]]:
    order = getattr(model, "_order", None)
    if order is None:
        chain = [str(getattr(k, "name", k)) for k in model.layers]
        return list(zip(chain, chain[1:]))
    found: dict[tuple[str, str], None] = {}
    places = {id(p): layer.name for p, layer in zip(model._places, model._input_layers)}
    for node in order:
        for t in node.inputs:
            before = places.get(id(t)) or t.node.layer.name
            found[before, node.layer.name] = None
    return list(found)


class _Dot:
    """A graph as Graphviz reads it."""

    def __init__(self, text: str) -> None:
        self.text = text

    def to_string(self) -> str:
        return self.text

    def write(self, path: str, format: str = "raw") -> None:
        refused("write", "the graph is text; plot_model() draws", "raw", format=format)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.text)


def model_to_dot(model: Any, show_shapes: bool = False, show_dtype: bool = False, show_layer_names: bool = True,
                 rankdir: str = "TB", expand_nested: bool = False, dpi: int = 200, subgraph: bool = False,
                 show_layer_activations: bool = False, show_trainable: bool = False) -> Any:
    """The graph as text for Graphviz."""
    refused("model_to_dot", "a whole graph is made", False, subgraph=subgraph)
    _no_nested(model, expand_nested)
    show = _Show(show_shapes, show_dtype, show_layer_names, show_layer_activations, show_trainable)
    lines = ["digraph model {", "  rankdir=%s; dpi=%d; node [shape=box];" % (rankdir, dpi)]
    for name, box in _boxes(model, show):
        lines.append('  "%s" [label="%s"];' % (name, "\\n".join(box)))
    lines += ['  "%s" -> "%s";' % pair for pair in _edges(model)]
    return _Dot("\n".join(lines + ["}"]))


def _no_nested(model: Any, expand: bool) -> None:
    if any(hasattr(layer, "layers") for layer in model.layers):
        refused("plot_model", "a model inside of another is one box", False, expand_nested=expand)


def _svg(model: Any, show: _Show) -> str:
    """Boxes one below the other by their distance from the inputs, and lines between them."""
    boxes, edges = _boxes(model, show), _edges(model)
    level: dict[str, int] = {name: 0 for name, _ in boxes}
    for _ in boxes:
        for a, b in edges:
            level[b] = max(level.get(b, 0), level.get(a, 0) + 1)
    rows: dict[int, list[tuple[str, list[str]]]] = {}
    for name, lines in boxes:
        rows.setdefault(level[name], []).append((name, lines))
    wide, high, where, parts = 230, 24 + 16 * max((len(k) for _, k in boxes), default=1), {}, []
    most = max((len(r) for r in rows.values()), default=1)
    for depth, row in sorted(rows.items()):
        for i, (name, lines) in enumerate(row):
            x = 10 + (i + (most - len(row)) / 2) * (wide + 20)
            y = 10 + depth * (high + 30)
            where[name] = (x + wide / 2, y)
            parts.append("<rect x='%.0f' y='%.0f' width='%d' height='%d' fill='white' stroke='black'/>"
                         % (x, y, wide, high))
            parts += ["<text x='%.0f' y='%.0f' text-anchor='middle'>%s</text>"
                      % (x + wide / 2, y + 20 + 16 * k, html.escape(line)) for k, line in enumerate(lines)]
    for a, b in edges:
        if a in where and b in where:
            parts.append("<line x1='%.0f' y1='%.0f' x2='%.0f' y2='%.0f' stroke='black'/>"
                         % (where[a][0], where[a][1] + high, where[b][0], where[b][1]))
    return ("<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' font-family='sans-serif' font-size='11'>"
            "%s</svg>" % (most * (wide + 20) + 20, (max(rows, default=0) + 1) * (high + 30) + 20, "".join(parts)))


def plot_model(model: Any, to_file: Any = "model.png", show_shapes: bool = False, show_dtype: bool = False,
               show_layer_names: bool = False, rankdir: str = "TB", expand_nested: bool = False, dpi: int = 200,
               show_layer_activations: bool = False, show_trainable: bool = False) -> None:
    """Writes the picture. .dot and .svg need nothing else; others need Graphviz, without which a line says so and no
    file is written, as in Keras."""
    path = os.fspath(to_file)
    names = show_layer_names or not show_shapes
    graph = model_to_dot(model, show_shapes, show_dtype, names, rankdir, expand_nested, dpi,
                         show_layer_activations=show_layer_activations, show_trainable=show_trainable)
    ending = os.path.splitext(path)[1].lstrip(".") or "png"
    if ending == "dot":
        graph.write(path)
    elif ending == "svg":
        with open(path, "w", encoding="utf-8") as file:
            file.write(_svg(model, _Show(show_shapes, show_dtype, names, show_layer_activations, show_trainable)))
    elif shutil.which("dot") is None:
        print("plot_model: Graphviz (dot) is not installed, which %s needs; a name that ends with .svg does not" % path)
    else:
        subprocess.run(["dot", "-T" + ending, "-o", path], input=graph.text.encode("utf-8"), check=True)
