"""ShapeProp: runs a graph with examples, and notes of each result what tensor it is.

Place in the flow: programs that count or draw graphs. Invariant: node.meta has "tensor_meta" (for nodes whose result
has tensors) and "type" afterwards."""
from __future__ import annotations

from typing import Any, NamedTuple

from ... import _C
from ..._tensor import Tensor
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What a tensor is, without its values."""
    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """Of one tensor."""
    form = None
    if include_contiguity:
        formats = [_C.contiguous_format, *([_C.channels_last] if result.ndim == 4 else [])]
        form = next((f for f in formats if result.is_contiguous(memory_format=f)), None)
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), form, False, {})


class ShapeProp(Interpreter):
    """ShapeProp(module).propagate(example)"""

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)
        if fake_mode is not None:
            raise NotImplementedError("ShapeProp: there is no fake_mode; give examples on the device \"meta\"")

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        found = [False]

        def note(value: Any) -> Any:
            if isinstance(value, Tensor):
                found[0] = True
                return _extract_tensor_metadata(value)
            return value
        meta = map_aggregate(result, note)
        if found[0]:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs it with these arguments."""
        return super().run(*args)
