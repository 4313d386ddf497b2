"""The functional way to build models: layers are called on tensors that have a shape and a type but no numbers yet.

A call on such a tensor runs the layer once on zeros (one sample), which builds its weights and shows the shape of its
output, and notes a Node. A model of inputs and outputs is the nodes between them in the order of their making.
"""
from __future__ import annotations

import math
from typing import Any, Iterator, Sequence

import cairn
from ..model import in_phase
from .._training.batches import flatten, mapped
from .._training.strings import Strings
from .backend import dtype_of, unique_name

__all__ = ["Input", "KerasTensor", "Node", "layers_by_depth", "nodes_between", "symbolic_call"]

_clock = iter(range(1 << 62))  # nodes are numbered as they are made, so that this order is one to run them in


class KerasTensor:
    """A place in a model: shape with None for sizes that a batch decides, type, and the node that it comes from."""

    __array_priority__ = 2000

    def __init__(self, shape: Sequence[int | None], dtype: Any = None, name: str | None = None,
                 node: Node | None = None, index: int = 0) -> None:
        self.shape = tuple(shape)
        self.dtype = str(dtype_of(dtype)).rpartition(".")[2]
        self.name = name or unique_name("keras_tensor")
        self.node, self.index = node, index
        self.mask_ndim = 0  # dimensions of the mask that comes with it; 0: none

    @property
    def ndim(self) -> int:
        return len(self.shape)

    rank = ndim

    @property
    def is_input(self) -> bool:
        """Whether it comes from Input()."""
        return self.node is None or not self.node.inputs

    def _zeros(self, fill: int) -> Any:
        """One sample of it; unknown sizes are `fill`."""
        shape = [1 if i == 0 and n is None else fill if n is None else n for i, n in enumerate(self.shape)]
        if self.dtype == "string":
            return Strings([" ".join("x" * fill)] * math.prod(shape), tuple(shape))
        made = cairn.zeros(tuple(shape), dtype=dtype_of(self.dtype))
        if self.mask_ndim:
            setattr(made, "_keras_mask", cairn.ones(tuple(shape[:self.mask_ndim]), dtype=cairn.bool))
        return made

    def __repr__(self) -> str:
        return "<KerasTensor shape=%s, dtype=%s, sparse=False, ragged=False, name=%s>" % (self.shape, self.dtype,
                                                                                          self.name)

    def __len__(self) -> int:
        raise TypeError("the size of %r is known when the model runs" % self)

    def __bool__(self) -> bool:
        raise TypeError("%r has no value while a model is built; put conditions into the call() of a layer" % self)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("%r cannot be iterated over while a model is built" % self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("%r has no numbers: functions of numpy or cairn cannot take it; use a function of cairn.keras."
                        "ops, or a layer (Lambda)" % self)

    def _op(self, name: str, *args: Any) -> Any:
        from . import ops
        return getattr(ops, name)(*args)

    def __getitem__(self, key: Any) -> Any:
        return self._op("get_item", self, key)

    def __neg__(self) -> Any:
        return self._op("negative", self)

    def __abs__(self) -> Any:
        return self._op("abs", self)

    def reshape(self, new_shape: Any) -> Any:
        return self._op("reshape", self, new_shape)

    def squeeze(self, axis: Any = None) -> Any:
        return self._op("squeeze", self, axis)

    @property
    def T(self) -> Any:
        return self._op("transpose", self)


def _binary(method: str, name: str) -> None:
    def left(self: Any, other: Any) -> Any:
        return self._op(name, self, other)

    def right(self: Any, other: Any) -> Any:
        return self._op(name, other, self)
    setattr(KerasTensor, "__%s__" % method, left)
    setattr(KerasTensor, "__r%s__" % method, right)


for _method, _name in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "true_divide"),
                       ("floordiv", "floor_divide"), ("mod", "mod"), ("pow", "power"), ("matmul", "matmul"),
                       ("gt", "greater"), ("ge", "greater_equal"), ("lt", "less"), ("le", "less_equal"),
                       ("and", "logical_and"), ("or", "logical_or")):
    _binary(_method, _name)


class Node:
    """One call of a layer: what it was given and what came out; inputs are KerasTensors inside args and kwargs."""

    def __init__(self, layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.layer, self.args, self.kwargs = layer, args, kwargs
        self.number = next(_clock)
        self.outputs: list[KerasTensor] = []

    @property
    def inputs(self) -> list[KerasTensor]:
        return [t for t in flatten([self.args, self.kwargs]) if isinstance(t, KerasTensor)]


def has_symbol(value: Any) -> bool:
    return any(isinstance(t, KerasTensor) for t in flatten(value))


def marked(inputs: Any, mask: Any) -> Any:
    """Inputs whose places count where a mask that the caller gave says so; None: as they come."""
    if mask is None:
        return inputs
    masks = iter(flatten(mask))

    def one(t: Any) -> Any:
        own = next(masks, None)
        if own is None or not isinstance(t, cairn.Tensor):
            return t
        made = t.view_as(t)
        setattr(made, "_keras_mask", own.to(cairn.bool))
        return made
    return mapped(one, inputs)


def _shapes(layer: Any, args: Any, kwargs: Any, fill: int) -> Any:
    """What the layer returns for zeros."""
    given = [mapped(lambda t: t._zeros(fill) if isinstance(t, KerasTensor) else t, v) for v in (args, kwargs)]
    with cairn.no_grad(), in_phase(False):
        return layer(*given[0], **given[1])


def symbolic_call(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The places that a call leads to."""
    node = Node(layer, args, kwargs)
    inputs = node.inputs
    open_sizes = any(n is None for t in inputs for n in t.shape[1:]) or any(t.dtype == "string" for t in inputs)
    out = _shapes(layer, args, kwargs, 8)
    other = _shapes(layer, args, kwargs, 12) if open_sizes else out
    batched = all(t.shape and t.shape[0] is None for t in inputs)
    seconds = iter(flatten(other))

    def place(t: Any) -> Any:
        again = next(seconds)
        if not isinstance(t, (cairn.Tensor, Strings)):
            return t
        shape = [None if a != b or i == 0 and batched else int(a)
                 for i, (a, b) in enumerate(zip(t.shape, again.shape))]
        made = KerasTensor(shape, t.dtype, node=node, index=len(node.outputs))
        mask = getattr(t, "_keras_mask", None)
        made.mask_ndim = 0 if mask is None else mask.ndim
        node.outputs.append(made)
        return made
    result = mapped(place, out)
    layer.__dict__.setdefault("_nodes", []).append(node)
    return result


def Input(shape: Any = None, batch_size: int | None = None, dtype: Any = None, sparse: Any = None,
          batch_shape: Any = None, name: str | None = None, tensor: Any = None, optional: bool = False,
          ragged: Any = None) -> Any:
    """Where data come into a model. shape: of one sample, None where a size is open."""
    if tensor is not None:
        return tensor
    if batch_shape is None:
        if shape is None:
            raise ValueError("Input needs a shape")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        batch_shape = (batch_size,) + shape
    from .layers.core import InputLayer
    return place_of(InputLayer(batch_shape=tuple(batch_shape), dtype=dtype, sparse=sparse, ragged=ragged, name=name,
                               optional=optional))


def place_of(layer: Any) -> KerasTensor:
    """The place that an InputLayer stands for, always the same one."""
    nodes = layer.__dict__.setdefault("_nodes", [])
    if not nodes:
        node = Node(layer, (), {})
        node.outputs.append(KerasTensor(layer.batch_shape, layer._dtype, layer.name, node))
        nodes.append(node)
    place: KerasTensor = nodes[0].outputs[0]
    return place


def nodes_between(inputs: list[KerasTensor], outputs: list[KerasTensor]) -> list[Node]:
    """The nodes that lead from the inputs to the outputs, in an order to run them in."""
    known, found, stack = {id(t) for t in inputs}, {}, list(outputs)
    while stack:
        t = stack.pop()
        if id(t) in known:
            continue
        if not isinstance(t, KerasTensor):
            raise TypeError("inputs and outputs of a Model come from Input() and calls on it, not %r" % (t,))
        if t.node is None or t.is_input:
            raise ValueError("the outputs depend on %r, which is not among the inputs of the model" % (t,))
        known.add(id(t))
        if t.node.number not in found:
            found[t.node.number] = t.node
            stack.extend(t.node.inputs)
    return [found[n] for n in sorted(found)]


def layers_by_depth(inputs: list[KerasTensor], outputs: list[KerasTensor]) -> list[Any]:
    """The layers of a model in Keras's order: those farthest from the outputs first, which is the order of weights.
    Inputs that are places inside another model have layers of their own."""
    from .layers.core import InputLayer
    stops: dict[int, Node] = {}
    for t in inputs:
        if t.node is not None and t.is_input:
            stops[id(t)] = t.node
        else:
            fresh = InputLayer(batch_shape=t.shape, dtype=t.dtype)
            place_of(fresh)
            stops[id(t)] = fresh.__dict__["_nodes"][0]
    rank: dict[int, int] = {}  # layers as the way back from the outputs meets them
    order: list[Node] = []
    begun: set[int] = set()

    def into(t: KerasTensor) -> Node | None:
        return stops.get(id(t)) or t.node

    for start in outputs:
        stack: list[tuple[Node, Any]] = []

        def enter(node: Node | None) -> None:
            if node is not None and id(node) not in begun:
                begun.add(id(node))
                rank.setdefault(id(node.layer), len(rank))
                stack.append((node, iter(() if any(node is s for s in stops.values()) else node.inputs)))
        enter(into(start))
        while stack:
            node, rest = stack[-1]
            before = next(rest, None)
            if before is None:
                order.append(node)
                stack.pop()
            else:
                enter(into(before))
    depth: dict[int, int] = {}
    of_layer: dict[int, tuple[int, Any]] = {}
    for node in reversed(order):
        at = max(depth.get(id(node), 0), of_layer.get(id(node.layer), (0, None))[0])
        of_layer[id(node.layer)], depth[id(node)] = (at, node.layer), at
        for t in node.inputs:
            source = into(t)
            if source is not None:
                depth[id(source)] = max(at + 1, depth.get(id(source), 0))
    for node in stops.values():
        of_layer.setdefault(id(node.layer), (0, node.layer))
        rank.setdefault(id(node.layer), len(rank))
    return [layer for _, layer in sorted(of_layer.values(), key=lambda kept: (-kept[0], rank[id(kept[1])]))]
