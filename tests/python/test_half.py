"""float16 and bfloat16 on the CPU, to the last bit as in PyTorch: what is rounded between the steps of an op, and what
becomes of numbers and of tensors of other types beside a half tensor. Where PyTorch is not there, a few known values.
"""
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


if __name__ == "__main__":
    unittest.main()
