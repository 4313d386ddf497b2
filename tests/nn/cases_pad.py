"""Padding layers."""
from golden import Case, T

SHAPES = {1: (2, 2, 4), 2: (1, 2, 3, 4), 3: (1, 1, 3, 3, 3)}
UNEVEN = {1: [1, 2], 2: [1, 2, 2, 0], 3: [1, 2, 2, 0, 1, 1]}


def pads(kind, more):
    for d in (1, 2, 3):
        for padding in (1, UNEVEN[d]):
            yield Case("%sPad%dd" % (kind, d), {"padding": padding, **more}, {"input": T(*SHAPES[d])})
        yield Case("%sPad%dd" % (kind, d), {"padding": 1, **more}, {"input": T(*SHAPES[d][1:])})


CASES = [
    *pads("Constant", {"value": 3.5}), *pads("Zero", {}), *pads("Reflection", {}), *pads("Replication", {}),
    *pads("Circular", {}),
    Case("ConstantPad1d", {"padding": [-1, 2], "value": 0.0}, {"input": T(5)}),
    Case("ZeroPad2d", {"padding": [-1, 1, 1, -1]}, {"input": T(1, 1, 3, 4)}),
    Case("ReflectionPad1d", {"padding": 5}, {"input": T(1, 1, 4)}, error="call"),
    Case("CircularPad2d", {"padding": 7}, {"input": T(1, 1, 4, 4)}, error="call"),
    Case("ReplicationPad2d", {"padding": 1}, {"input": T(4, 4)}, error="call"),
]
