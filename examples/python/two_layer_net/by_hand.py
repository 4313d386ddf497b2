"""The two-layer network with its gradients written out, on tensors alone.

    python3 by_hand.py
"""
import sys

import cairn
from problem import OUTPUTS, POINTS, STEPS, Problem, report, status


def forward_backward(q: Problem) -> tuple[cairn.Tensor, list[cairn.Tensor]]:
    """The loss, and the gradient of each parameter."""
    # forward, step by step
    h = (q.x @ q.w1 + q.b1).sigmoid()  # (POINTS, HIDDEN)
    error = h @ q.w2 + q.b2 - q.y  # (POINTS, OUTPUTS)
    loss = error.square().mean()
    # backward: the chain rule over the same steps, last first
    d_said = error * (2 / (POINTS * OUTPUTS))
    d_sum = (d_said @ q.w2.T) * (h * (1 - h))  # sigmoid' = h (1 - h)
    return loss, [q.x.T @ d_sum, d_sum.sum(0), h.T @ d_said, d_said.sum(0)]


def main() -> int:
    q = Problem(requires_grad=False)
    last = 0.0
    for step in range(STEPS):
        loss, gradients = forward_backward(q)
        q.update(gradients)
        last = loss.item()
        report(step, last)
    return status(last)


if __name__ == "__main__":
    sys.exit(main())
