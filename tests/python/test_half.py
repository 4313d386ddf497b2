"""float16 and bfloat16 on the CPU, to the last bit as in PyTorch: what is rounded between the steps of an op, and what
becomes of numbers and of tensors of other types beside a half tensor. Where PyTorch is not there, a few known values.
"""
import itertools
import unittest

import cairn

try:
    import torch
except ImportError:
    torch = None

NUMBERS = (0.1, 3.3, 8.396163642458497, -1.7)


def half(m, dtype, rows=24, columns=24, scale=1.0):
    """The same numbers in both libraries: multiples of 1/64 between -3 and 3, without order."""
    values = [[(i * 37 + j * 101 + i * j * 7) % 385 / 64 - 3 for j in range(columns)] for i in range(rows)]
    return m.tensor(values).mul(scale).to(getattr(m, dtype))


# name -> function of (library, tensor, number)
OPS = {
    "x + s": lambda m, x, s: x + s, "s - x": lambda m, x, s: s - x, "x * s": lambda m, x, s: x * s,
    "s * x": lambda m, x, s: s * x, "x / s": lambda m, x, s: x / s, "s / x": lambda m, x, s: s / x,
    "x % s": lambda m, x, s: x % s, "x == s": lambda m, x, s: m.full_like(x, s) == s,
    "x < s": lambda m, x, s: m.full_like(x, s) < s,
    "0-d": lambda m, x, s: m.sub(m.tensor(s), x), "0-d factor": lambda m, x, s: m.mul(x, m.tensor(s)),
    "integers": lambda m, x, s: x + m.arange(24) * 4099,
    "add alpha": lambda m, x, s: m.add(x, x.t(), alpha=s), "sub alpha": lambda m, x, s: m.sub(x, x.t(), alpha=s),
    "addr": lambda m, x, s: m.addr(x, x[0], x[1], beta=s, alpha=0.3),
    "div trunc": lambda m, x, s: m.div(x, x.t() + 0.25, rounding_mode="trunc"),
    "div floor": lambda m, x, s: m.div(x * 5, x.t() + 0.25, rounding_mode="floor"),
    "logit": lambda m, x, s: m.logit(x.sigmoid(), 0.2), "xlogy": lambda m, x, s: m.xlogy(x, x.t().abs()),
    "ndtr": lambda m, x, s: m.special.ndtr(x), "softsign": lambda m, x, s: m.nn.functional.softsign(x),
    "tanhshrink": lambda m, x, s: m.nn.functional.tanhshrink(x),
    "mse": lambda m, x, s: m.nn.functional.mse_loss(x, x.t() * 2, reduction="none"),
    "bce": lambda m, x, s: m.nn.functional.binary_cross_entropy(x.sigmoid(), x.t().sigmoid(), reduction="none"),
    "linspace": lambda m, x, s: m.linspace(s, -3, 50, dtype=x.dtype),
    "vecdot": lambda m, x, s: m.linalg.vecdot(x, x.t()),
}


class Half(unittest.TestCase):
    def test_as_torch(self):
        if torch is None:
            self.skipTest("PyTorch is not installed")
        if tuple(int(n) for n in torch.__version__.split(".")[:2]) < (2, 15):
            self.skipTest("halves are rounded as PyTorch 2.15 does, not %s" % torch.__version__)
        for dtype in ("float16", "bfloat16"):
            for name, op in OPS.items():
                for number in NUMBERS:
                    with self.subTest(dtype=dtype, op=name, number=number):
                        mine, theirs = (op(m, half(m, dtype), number) for m in (cairn, torch))
                        same = torch.from_dlpack(mine).isclose(theirs, rtol=0, atol=0, equal_nan=True)
                        self.assertLessEqual(int((~same).sum()), 2)     # logarithms may be a last bit apart

    def test_known(self):
        x = cairn.full((3,), 0.1, dtype=cairn.float16)
        self.assertTrue(bool((x == 0.1).all()))
        self.assertFalse(bool((x < 0.1).any()))
        one = cairn.ones(1, dtype=cairn.bfloat16)
        self.assertEqual((one + 0.005859375).item(), 1.0078125)          # 1 + 1.5 * 2^-8 rounds up
        self.assertEqual(cairn.add(one, one, alpha=1.00390625).item(), 2.0)     # alpha itself is rounded to 1


SIZES = {"float16": (6e-5, 1e-3, 0.3, 1.0, 3.0, 30.0, 3000.0, 60000.0, -0.3, -1.0, -300.0),
         "bfloat16": (1e-30, 1e-3, 0.3, 1.0, 3.0, 30.0, 1e10, 1e30, -0.3, -1.0, -1e10)}

# name -> function of one tensor, or of several of one size
GRADIENTS = {
    **{"pow %g" % e: lambda x, e=e: x ** e for e in (-1.7, -0.5, 0.1, 1.5, 2.0, 2.7, 7.3)},
    **{"rpow %g" % b: lambda x, b=b: b ** x for b in (0.25, 2.0, 5.125)},  # what the types hold
    **{"polygamma %d" % n: lambda x, n=n: cairn.polygamma(n, x) for n in (1, 2)},
    "pow": lambda x, y: x.abs() ** y, "hypot": cairn.hypot, "div": lambda x, y: x / y,
    "ldexp": lambda x, y: cairn.ldexp(x, y.clamp(-8, 8)), "xlogy": cairn.xlogy, "logaddexp": cairn.logaddexp,
    "addcdiv": lambda x, y, z: cairn.addcdiv(x, y, z, value=0.5), "erfinv": lambda x: (x / 65504).erfinv(),
    "addcmul": lambda x, y, z: cairn.addcmul(x, y, z, value=0.5), "lerp": cairn.lerp,
    "rsqrt": lambda x: x.abs().rsqrt(),
}


class Gradients(unittest.TestCase):
    """Of large and small numbers: one pass in float32, rounded once, so that they are those of float64 as far as the
    half type tells numbers apart; where a gradient is read off the result, of the result as it was stored."""

    def gradients(self, function, dtype, rows):
        leaves = [cairn.tensor(column, dtype=dtype).requires_grad_() for column in zip(*rows)]
        result = function(*leaves)
        weights = cairn.tensor([(i * 37 % 19 - 9.5) / 8 for i in range(len(rows))], dtype=cairn.float64).to(dtype)
        return cairn.autograd.grad(result, leaves, weights)

    def test_are_those_of_float64(self):
        for name, function in GRADIENTS.items():
            three = name in ("addcdiv", "addcmul", "lerp")
            count = 1 if " " in name or name in ("erfinv", "rsqrt") else 3 if three else 2
            for kind, sizes in SIZES.items():
                dtype, some = getattr(cairn, kind), sizes if count < 3 else sizes[2::2]
                rows = list(itertools.product(cairn.tensor(some, dtype=dtype).double().tolist(), repeat=count))
                half, wide = (self.gradients(function, d, rows) for d in (dtype, cairn.float64))
                for number, (mine, true) in enumerate(zip(half, wide)):
                    with self.subTest(op=name, dtype=kind, input=number):
                        self.near(mine.double(), true, cairn.finfo(dtype), rows)

    def near(self, mine, true, limits, rows):
        """Within four roundings (the gradient's, and those of steps that the op stores, its result among them);
        infinite where the type ends, or float32, through which all of it goes."""
        for have, want, row in zip(mine.tolist(), true.tolist(), rows):
            if want != want or abs(want) > limits.max / 16 or have != have or abs(have) == float("inf"):
                self.assertTrue(want != want or abs(want) > limits.max / 16, (row, have, want))
                continue
            self.assertLessEqual(abs(have - want), 4 * limits.eps * abs(want) + 4 * limits.smallest_normal, row)

    def test_convolutions(self):
        for kind in ("float16", "bfloat16"):
            dtype = getattr(cairn, kind)
            cairn.manual_seed(1)
            for scale in (1e-3, 1.0, 30.0):
                x, w = ((cairn.randn(*size, dtype=cairn.float64) * scale).to(dtype) for size in ((4, 3, 50), (5, 3, 7)))
                found = []
                for d in (dtype, cairn.float64):
                    leaves = [t.detach().to(d).requires_grad_() for t in (x, w)]
                    found.append(cairn.autograd.grad(cairn.nn.functional.conv1d(*leaves).sum(), leaves))
                for mine, true in zip(*found):
                    far = (mine.double() - true).abs().max() / true.abs().max()
                    self.assertLess(far.item(), cairn.finfo(dtype).eps)

    def test_matrix_exp(self):
        a = cairn.tensor([[0.1, 0.5], [-0.3, 0.2]], dtype=cairn.float64)
        for dtype in (cairn.float16, cairn.bfloat16):
            for scale in (1, 3, 10, 20):
                half = (a * scale).to(dtype)
                far = (cairn.matrix_exp(half).double() - cairn.matrix_exp(half.double())).abs().max()
                self.assertLess(far.item(), cairn.finfo(dtype).eps * 30)

    def test_layer_norm_s_other_results(self):
        """As PyTorch's: of the weights' type, without history."""
        x = cairn.randn(2, 3, dtype=cairn.bfloat16).requires_grad_()
        for weight, kind in ((None, cairn.bfloat16), (cairn.ones(3, dtype=cairn.bfloat16), cairn.bfloat16),
                             (cairn.ones(3), cairn.float32)):
            made = cairn.native_layer_norm(x, (3,), weight, weight, 1e-5)
            self.assertEqual([t.dtype for t in made], [cairn.bfloat16, kind, kind])
            self.assertEqual([t.requires_grad for t in made], [True, False, False])


if __name__ == "__main__":
    unittest.main()
