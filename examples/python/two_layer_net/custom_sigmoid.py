"""The two-layer network with a sigmoid of our own that stays exact for large inputs.

Written as 1 / (1 + exp(-x)), the exponential overflows for x below -88 in float32, and the derived gradient becomes
0 * infinity. Ours takes the exponential of -|x| only, which cannot overflow, and gives its gradient from its result.
(cairn.sigmoid does the same inside; this shows how one would do it.)

    python3 custom_sigmoid.py
"""
import sys
from collections.abc import Callable

import cairn
from problem import STEPS, Problem, report, status


class StableSigmoid(cairn.autograd.Function):
    @staticmethod
    def forward(ctx: cairn.autograd.FunctionCtx, x: cairn.Tensor) -> cairn.Tensor:
        e = (-x.abs()).exp()  # in (0, 1]
        y = cairn.where(x >= 0, cairn.ones_like(e), e) / (e + 1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: cairn.autograd.FunctionCtx, grad: cairn.Tensor) -> cairn.Tensor:
        (y,) = ctx.saved_tensors
        return grad * y * (1 - y)


def naive_sigmoid(x: cairn.Tensor) -> cairn.Tensor:
    return 1 / ((-x).exp() + 1)


def survives(f: Callable[[cairn.Tensor], cairn.Tensor]) -> bool:
    """Is the gradient of f a number everywhere, also far out?"""
    x = cairn.tensor([-200.0, -1.0, 0.0, 1.0, 200.0], requires_grad=True)
    f(x).sum().backward()
    assert x.grad is not None
    return bool(x.grad.isfinite().all())


def forward(q: Problem) -> cairn.Tensor:
    h = StableSigmoid.apply(q.x @ q.w1 + q.b1)
    return (h @ q.w2 + q.b2 - q.y).square().mean()


def main() -> int:
    ours, naive = survives(StableSigmoid.apply), survives(naive_sigmoid)
    print(f"gradient at -200: ours {'finite' if ours else 'NaN'}, 1 / (1 + exp(-x)) {'finite' if naive else 'NaN'}")
    q = Problem(requires_grad=True)
    last = 0.0
    for step in range(STEPS):
        loss = forward(q)
        loss.backward()
        q.update([p.grad for p in q.parameters if p.grad is not None])
        for p in q.parameters:
            p.grad = None
        last = loss.item()
        report(step, last)
    return status(last) or int(not ours or naive)


if __name__ == "__main__":
    sys.exit(main())
