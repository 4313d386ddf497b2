"""A recurrent network written out by hand learns to add up a sequence; gradients are clipped by norm."""
import random

import torch

rng = random.Random(4)
steps, batch, hidden = 6, 16, 8
data = [[[rng.uniform(-1, 1)] for _ in range(batch)] for _ in range(steps)]
x = torch.tensor(data)                                   # (T, B, 1)
y = x.sum(dim=0)                                         # (B, 1)


def initial(rows, columns):
    return torch.tensor([[rng.gauss(0, 0.3) for _ in range(columns)] for _ in range(rows)], requires_grad=True)


wx, wh, wo = initial(1, hidden), initial(hidden, hidden), initial(hidden, 1)
bias = torch.zeros(hidden, requires_grad=True)
parameters = [wx, wh, wo, bias]
for step in range(60):
    h = torch.zeros(batch, hidden)
    states = []
    for t in range(steps):
        h = torch.tanh(x[t] @ wx + h @ wh + bias)
        states.append(h)
    loss = (h @ wo - y).pow(2).mean()
    grads = torch.autograd.grad(loss, parameters)
    norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
    scale = torch.clamp(1.0 / (norm + 1e-6), max=1.0)
    with torch.no_grad():
        for p, g in zip(parameters, grads):
            p -= 0.1 * scale * g
    if step % 15 == 0:
        print("step", step, "loss", loss.item(), "norm", norm.item())
stacked = torch.stack(states)
print("final", loss.item(), tuple(stacked.shape), stacked.mean().item(), stacked.std().item())
