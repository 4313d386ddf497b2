"""What the tests of gradients share: a program run in cairn, and in torch where it is, with answers that agree."""
import unittest

import cairn

try:
    import torch
except ImportError:
    torch = None


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

    def same(self, program, expected=None):
        """program(m) in cairn, and in torch where it is; answers of both (or `expected`) must agree."""
        have = program(cairn)
        if expected is not None:
            self.near(have, expected)
        if torch:
            self.near(have, program(torch))
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
