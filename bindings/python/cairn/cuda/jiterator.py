"""cairn.cuda.jiterator: ops on elements written as a template of CUDA C++.

Place in the flow: torch's names for what a program compiles by itself (kernels.py): a function of elements becomes a
kernel over tensors, which are broadcast and of the type that theirs promote to. Invariant: 16-bit floats are computed
with in float32, and rounded once.
"""
from __future__ import annotations

import ctypes
import re
from typing import TYPE_CHECKING, Any, Callable

from .. import _C
from .._forms_shape import broadcast_shapes
from .kernels import Kernel, compile_kernel

if TYPE_CHECKING:
    from .._tensor import Tensor

__all__: list[str] = []

_TYPES = {_C.float32: "float", _C.float64: "double", _C.bool: "bool", _C.uint8: "unsigned char",
          _C.int8: "signed char", _C.int16: "short", _C.int32: "int", _C.int64: "long long"}
_WIDE = {_C.float16: _C.float32, _C.bfloat16: _C.float32}
_MOST = 8
_BLOCK = 256

_TEXT = """%(code)s

extern "C" __global__ void cairn_elements(%(parameters)s, long long n)
{
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x)
    %(statement)s;
}
"""


class _Function:
    """A compiled template: called with tensors, and by name with the numbers that its text ends with."""

    def __init__(self, code: str, outputs: int, by_reference: bool, numbers: dict[str, Any]) -> None:
        names = re.findall(r"template\s*<[^>]*>\s*[\w:]+\s+(\w+)\s*\(", code)
        if not names:
            raise ValueError("Couldn't parse code, please check correctness:\n %s" % code)
        if not 1 <= outputs <= _MOST:
            raise ValueError("a function has 1 to %d outputs, not %r" % (_MOST, outputs))
        self.name, self._code, self._outputs, self._by_reference = names[-1], code, outputs, by_reference
        self._numbers = dict(numbers)
        self._kernels: dict[tuple[Any, ...], Kernel] = {}

    def _kernel(self, kind: _C.dtype, inputs: int, device: _C.device) -> Kernel:
        key = (kind, inputs, device.index)
        if key not in self._kernels:
            name = _TYPES[kind]
            reads = ["x%d[i]" % k for k in range(inputs)] + ["(%s)a%d" % (name, k) for k in range(len(self._numbers))]
            writes = ["y%d[i]" % k for k in range(self._outputs)]
            called = "%s<%s>(%%s)" % (self.name, name)
            statement = called % ", ".join(reads + writes) if self._by_reference else \
                "y0[i] = " + called % ", ".join(reads)
            parameters = ["const %s *x%d" % (name, k) for k in range(inputs)] + \
                ["%s *y%d" % (name, k) for k in range(self._outputs)] + \
                ["double a%d" % k for k in range(len(self._numbers))]
            text = _TEXT % {"code": self._code, "parameters": ", ".join(parameters), "statement": statement}
            self._kernels[key] = compile_kernel(text, "cairn_elements", device=device)
        return self._kernels[key]

    def __call__(self, *tensors: Tensor, **numbers: Any) -> Any:
        for name in numbers:
            if name not in self._numbers:
                raise KeyError("%s is not declared in function definition" % name)
        if not 1 <= len(tensors) <= _MOST:
            raise ValueError("jiterator takes 1 to %d tensors, not %d" % (_MOST, len(tensors)))
        device = tensors[0].device
        if any(t.device != device for t in tensors) or device.type != "cuda":
            raise RuntimeError("jiterator takes tensors of one CUDA device")
        given = tensors[0].dtype
        for one in tensors[1:]:
            given = _C.promote_types(given, one.dtype)
        kind = _WIDE.get(given, given)
        if kind not in _TYPES:
            raise TypeError("jiterator: %s is not supported" % given)
        shape = broadcast_shapes(*(t.shape for t in tensors))
        inputs = [t.to(kind).expand(shape).contiguous() for t in tensors]
        outputs = [_C.empty(shape, dtype=kind, device=device) for _ in range(self._outputs)]
        n = outputs[0].numel()
        values = [ctypes.c_double(v) for v in {**self._numbers, **numbers}.values()]
        if n:
            self._kernel(kind, len(inputs), device)((min((n + _BLOCK - 1) // _BLOCK, 1 << 20),), (_BLOCK,),
                                                    [*inputs, *outputs, *values, ctypes.c_longlong(n)])
        results = tuple(y.to(given) for y in outputs)
        return results if self._by_reference and self._outputs > 1 else results[0]


def _create_jit_fn(code_string: str, **kwargs: Any) -> Callable[..., Any]:
    """An op of a template that returns an element: "template <typename T> T f(T x, T y, T alpha) {...}"; the last one
    of the text. kwargs: the numbers behind its elements, in order, with what they are where a call does not say."""
    return _Function(code_string, 1, False, kwargs)


def _create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs: Any) -> Callable[..., Any]:
    """The same of a template that returns nothing and writes its last arguments, references."""
    return _Function(code_string, num_outputs, True, kwargs)
