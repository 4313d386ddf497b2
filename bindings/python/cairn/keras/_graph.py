"""The functional way to build models: layers are called on tensors that have a shape and a type but no numbers yet.

A call on such a tensor runs the layer once on zeros (one sample), which builds its weights and shows the shape of its
output, and notes a Node. A model of inputs and outputs is the nodes between them in the order of their making.
"""
from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

import cairn
from ..model import in_phase
from ._batches import flatten, mapped
from .backend import dtype_of, unique_name

__all__ = ["Input", "KerasTensor", "Node", "nodes_between", "symbolic_call"]

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

    @property
    def ndim(self) -> int:
        return len(self.shape)

    rank = ndim

    def _zeros(self, fill: int) -> Any:
        """One sample of it; unknown sizes are `fill`."""
        shape = [1 if i == 0 and n is None else fill if n is None else n for i, n in enumerate(self.shape)]
        return cairn.zeros(tuple(shape), dtype=dtype_of(self.dtype))

    def __repr__(self) -> str:
        return "<KerasTensor shape=%s, dtype=%s, name=%s>" % (self.shape, self.dtype, self.name)

    def __len__(self) -> int:
        raise TypeError("the size of %r is known when the model runs" % self)

    def __bool__(self) -> bool:
        raise TypeError("%r has no value while a model is built; put conditions into the call() of a layer" % self)

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("%r cannot be iterated over while a model is built" % self)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("%r has no numbers: functions of numpy or cairn cannot take it; use a function of cairn.keras."
                        "ops, or a layer (Lambda)" % self)

    def _op(self, name: str, f: Callable[..., Any] | None, *args: Any) -> Any:
        from .layers.core import Function
        return Function(f, name=unique_name(name), op=name if f is None else None)(*args)

    def __getitem__(self, key: Any) -> Any:
        return self._op("get_item", lambda x: x[key], self)

    def __neg__(self) -> Any:
        return self._op("negative", None, self)

    def __abs__(self) -> Any:
        return self._op("abs", None, self)

    @property
    def T(self) -> Any:
        return self._op("transpose", lambda x: x.T, self)


operators: dict[str, Callable[..., Any]] = {"negative": lambda x: -x, "abs": lambda x: x.abs()}


def _binary(name: str, f: Callable[[Any, Any], Any]) -> None:
    operators[name], operators["r" + name] = f, lambda a, b: f(b, a)

    def left(self: Any, other: Any) -> Any:
        return self._op(name, None, self, other)

    def right(self: Any, other: Any) -> Any:
        return self._op("r" + name, None, self, other)
    for method, function in (("__%s__" % name, left), ("__r%s__" % name, right)):
        setattr(KerasTensor, method, function)


_binary("add", lambda a, b: a + b)
_binary("sub", lambda a, b: a - b)
_binary("mul", lambda a, b: a * b)
_binary("truediv", lambda a, b: a / b)
_binary("floordiv", lambda a, b: a // b)
_binary("mod", lambda a, b: a % b)
_binary("pow", lambda a, b: a ** b)
_binary("matmul", lambda a, b: a @ b)
for _name, _f in (("gt", lambda a, b: a > b), ("ge", lambda a, b: a >= b), ("lt", lambda a, b: a < b),
                  ("le", lambda a, b: a <= b)):
    _binary(_name, _f)


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


def _shapes(layer: Any, args: Any, kwargs: Any, fill: int) -> Any:
    """What the layer answers to zeros."""
    given = [mapped(lambda t: t._zeros(fill) if isinstance(t, KerasTensor) else t, v) for v in (args, kwargs)]
    with cairn.no_grad(), in_phase(False):
        return layer(*given[0], **given[1])


def symbolic_call(layer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The places that a call leads to."""
    node = Node(layer, args, kwargs)
    inputs = node.inputs
    open_sizes = any(n is None for t in inputs for n in t.shape[1:])
    out = _shapes(layer, args, kwargs, 8)
    other = _shapes(layer, args, kwargs, 12) if open_sizes else out
    batched = all(t.shape and t.shape[0] is None for t in inputs)
    seconds = iter(flatten(other))

    def place(t: Any) -> Any:
        again = next(seconds)
        if not isinstance(t, cairn.Tensor):
            return t
        shape = [None if a != b or i == 0 and batched else int(a)
                 for i, (a, b) in enumerate(zip(t.shape, again.shape))]
        made = KerasTensor(shape, t.dtype, node=node, index=len(node.outputs))
        node.outputs.append(made)
        return made
    result = mapped(place, out)
    layer.__dict__.setdefault("_nodes", []).append(node)
    return result


def Input(shape: Any = None, batch_size: int | None = None, dtype: Any = None, name: str | None = None,
          batch_shape: Any = None, **ignored: Any) -> KerasTensor:
    """Where data come into a model. shape: of one sample, None where a size is open."""
    if batch_shape is None:
        if shape is None:
            raise ValueError("Input needs a shape")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        batch_shape = (batch_size,) + shape
    return KerasTensor(batch_shape, dtype, name or unique_name("input_layer"))


def nodes_between(inputs: list[KerasTensor], outputs: list[KerasTensor]) -> list[Node]:
    """The nodes that lead from the inputs to the outputs, in an order to run them in."""
    known, found, stack = {id(t) for t in inputs}, {}, list(outputs)
    while stack:
        t = stack.pop()
        if id(t) in known:
            continue
        if not isinstance(t, KerasTensor):
            raise TypeError("inputs and outputs of a Model come from Input() and calls on it, not %r" % (t,))
        if t.node is None:
            raise ValueError("the outputs depend on %r, which is not among the inputs of the model" % (t,))
        known.add(id(t))
        if t.node.number not in found:
            found[t.node.number] = t.node
            stack.extend(t.node.inputs)
    return [found[n] for n in sorted(found)]
