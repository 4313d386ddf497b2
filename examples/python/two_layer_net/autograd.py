"""The two-layer network with gradients by autograd: only the forward computation is written.

    python3 autograd.py
"""
import sys

import cairn
from problem import STEPS, Problem, report, status


def forward(q: Problem) -> cairn.Tensor:
    h = (q.x @ q.w1 + q.b1).sigmoid()
    return (h @ q.w2 + q.b2 - q.y).square().mean()


def main() -> int:
    q = Problem(requires_grad=True)
    last = 0.0
    for step in range(STEPS):
        loss = forward(q)
        loss.backward()
        q.update([p.grad for p in q.parameters if p.grad is not None])
        for p in q.parameters:
            p.grad = None  # gradients add up until they are dropped
        last = loss.item()
        report(step, last)
    return status(last)


if __name__ == "__main__":
    sys.exit(main())
