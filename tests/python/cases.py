"""What tests share that compare with torch: a program run in cairn and in torch, with results that agree.

Where torch is not installed its results are read from golden/SUITE.golden, which record.py writes.
"""
import json
import os
import pathlib
import sys
import unittest

import cairn

try:
    import torch
except ImportError:
    torch = None


HERE = pathlib.Path(__file__).resolve().parent
RECORD = torch is not None and os.environ.get("CAIRN_RECORD") == "1"


class Golden:
    """torch's results of one suite: "Class.test#number of the call" -> value, as JSON keeps it."""
    path = HERE / "golden" / (pathlib.Path(sys.argv[0]).stem + ".golden")
    values = None

    @classmethod
    def get(cls, key):
        if cls.values is None:
            cls.values = json.loads(cls.path.read_text(encoding="utf-8")) if cls.path.is_file() else {}
        if key not in cls.values:
            raise AssertionError(f"{cls.path.name} has no {key}: run tests/python/record.py with PyTorch installed")
        return cls.values[key]

    @classmethod
    def put(cls, key, value):
        if not cls.values:
            cls.values = {}
            unittest.addModuleCleanup(cls.write)
        cls.values[key] = value

    @classmethod
    def write(cls):
        cls.path.parent.mkdir(exist_ok=True)
        lines = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(cls.values.items())]
        cls.path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def kept(value):
    """A result as the golden file keeps it: floats with fifteen digits, more than any comparison looks at."""
    value = plain(value)
    if isinstance(value, float):
        return float(f"{value:.15g}")
    if isinstance(value, list):
        return [kept(v) for v in value]
    if isinstance(value, dict):
        return {str(k): kept(v) for k, v in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    return value


def plain(value):
    """Tensors as lists, so that results of both libraries compare."""
    if isinstance(value, cairn.Tensor) or (torch and isinstance(value, torch.Tensor)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


class Case(unittest.TestCase):
    def near(self, a, b, places=5):
        a, b = plain(a), plain(b)
        if isinstance(a, list):
            self.assertIsInstance(b, list)
            self.assertEqual(len(a), len(b), (a, b))
            for x, y in zip(a, b):
                self.near(x, y, places)
        elif isinstance(a, float) and isinstance(b, float):
            self.assertAlmostEqual(a, b, places)
        else:
            self.assertEqual(a, b)

    calls = 0

    def theirs(self, program):
        """What program(torch) returns: now, where torch is installed; else what it returned when it was recorded."""
        self.calls += 1
        key = f"{type(self).__name__}.{self._testMethodName}#{self.calls}"
        if not torch:
            return Golden.get(key)
        value = program(torch)
        if RECORD:
            Golden.put(key, kept(value))
        return value

    def same(self, program, expected=None):
        """program(m) in cairn and in torch: the results of both, or `expected` where torch is not, must agree."""
        have = program(cairn)
        if expected is not None:
            self.near(have, expected)
            if torch:
                self.near(have, program(torch))
        else:
            want = self.theirs(program)
            self.near(have if torch else kept(have), want)
        return have

    def fails(self, program, kinds=RuntimeError):
        """program(m) raises in both, with a message."""
        with self.assertRaises(kinds) as caught:
            program(cairn)
        self.assertTrue(str(caught.exception))
        if torch:
            with self.assertRaises(kinds):
                program(torch)


def functions(m):
    """The same functions for cairn and torch."""
    class Scale(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, word=None):
            ctx.factor = factor
            ctx.save_for_backward(x)
            return x * x * factor

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            return grad * 2 * x * ctx.factor, None, None

    class Both(m.autograd.Function):
        @staticmethod
        def forward(a, b):
            return a * b, a + b, (a > b)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs, None)
            ctx.mark_non_differentiable(output[2])

        @staticmethod
        def backward(ctx, g1, g2, g3):
            a, b, nothing = ctx.saved_tensors
            assert nothing is None
            return (g1 * b + g2 if ctx.needs_input_grad[0] else None,
                    g1 * a + g2 if ctx.needs_input_grad[1] else None)

    class Lazy(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            ctx.seen.append([a is None, b is None])
            return b * 2 if a is None else a

    class Twice(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Scale, Both, Lazy, Twice
