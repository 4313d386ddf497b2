"""Optimisers written as classes over parameters, a two-layer net, a schedule and early stopping."""
import math
import random

import torch
import torch.nn.functional as F

rng = random.Random(12)


class SGD:
    def __init__(self, params, lr, momentum=0.0):
        self.params, self.lr, self.momentum = list(params), lr, momentum
        self.state = {}

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    @torch.no_grad()
    def step(self):
        for i, p in enumerate(self.params):
            if p.grad is None:
                continue
            buffer = self.state.setdefault(i, torch.zeros_like(p))
            buffer.mul_(self.momentum).add_(p.grad)
            p.data.add_(buffer, alpha=-self.lr)


def parameter(rows, columns):
    data = [[rng.uniform(-1, 1) / math.sqrt(columns) for _ in range(columns)] for _ in range(rows)]
    return torch.tensor(data, requires_grad=True)


x = torch.tensor([[i / 10.0] for i in range(-20, 20)])
y = torch.sin(2 * x) + 0.3 * x
net = [parameter(16, 1), torch.zeros(16, requires_grad=True), parameter(1, 16), torch.zeros(1, requires_grad=True)]
optimizer = SGD(net, lr=0.1, momentum=0.9)
best, since = float("inf"), 0
for epoch in range(120):
    optimizer.lr = 0.1 * 0.5 * (1 + math.cos(math.pi * epoch / 120))
    hidden = F.silu(F.linear(x, net[0], net[1]))
    loss = F.smooth_l1_loss(F.linear(hidden, net[2], net[3]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best, since = loss.item(), 0
    else:
        since += 1
    if epoch % 30 == 0:
        print(epoch, f"{loss.item():.5f}")
print(f"best {best:.4f}", since, sum(p.numel() for p in net))
print([round(p.grad.norm().item(), 2) for p in net], torch.is_grad_enabled())
