"""An op of one's own with a gradient of one's own, checked against finite differences.

The function is Legendre's polynomial P3(x) = (5 x^3 - 3 x) / 2. Fitting a + b P3(c + d x) to the sine shows that its
gradient is right in use, and gradcheck that it is right to the last digits.

    python3 custom_function.py
"""
import math
import sys

import cairn


class LegendreP3(cairn.autograd.Function):
    """forward is not recorded; backward is given the gradient of the result and returns that of the input."""

    @staticmethod
    def forward(ctx: cairn.autograd.FunctionCtx, x: cairn.Tensor) -> cairn.Tensor:
        ctx.save_for_backward(x)
        return (5 * x ** 3 - 3 * x) / 2

    @staticmethod
    def backward(ctx: cairn.autograd.FunctionCtx, grad: cairn.Tensor) -> cairn.Tensor:
        (x,) = ctx.saved_tensors
        return grad * (15 * x ** 2 - 3) / 2


def fit(steps: int) -> float:
    """Fits the four coefficients to sin on [-pi, pi]; returns the last loss."""
    x = cairn.linspace(-math.pi, math.pi, 2000)
    y = x.sin()
    a, b, c, d = (cairn.tensor(v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3))
    loss = cairn.tensor(math.inf)
    for step in range(steps):
        loss = (a + b * LegendreP3.apply(c + d * x) - y).square().sum()
        loss.backward()
        if step % 500 == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}")
        with cairn.no_grad():
            for p in (a, b, c, d):
                assert p.grad is not None
                p -= 5e-6 * p.grad
                p.grad = None
    print(f"step {steps:4d}  loss {loss.item():.3f}")
    # abs: a coefficient near 0 has no sign to speak of
    print(f"sin(x) is about {abs(a.item()):.2f} + {b.item():.2f} * P3({abs(c.item()):.2f} + {d.item():.2f} x)")
    return loss.item()


def main() -> int:
    cairn.manual_seed(1)
    x = cairn.randn(3, 4, dtype=cairn.float64, requires_grad=True)
    if cairn.autograd.gradcheck(LegendreP3.apply, (x,)):
        print("the gradient agrees with finite differences")
    return 0 if fit(2000) < 20 else 1


if __name__ == "__main__":
    sys.exit(main())
