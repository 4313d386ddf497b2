"""Fits a line by gradient descent, then by the normal equations."""
import random

import torch

rng = random.Random(1)
xs = [rng.uniform(-2, 2) for _ in range(64)]
ys = [3.0 * x - 0.5 + rng.gauss(0, 0.1) for x in xs]
x = torch.tensor(xs).unsqueeze(1)
y = torch.tensor(ys).unsqueeze(1)

w = torch.zeros(1, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for step in range(200):
    loss = ((x @ w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
    w.grad.zero_()
    b.grad.zero_()
    if step % 50 == 0:
        print(f"step {step} loss {loss.item():.6f}")
print("weight", w.item(), "bias", b.item())

design = torch.cat([x, torch.ones_like(x)], dim=1).double()
beta = torch.linalg.solve(design.T @ design, design.T @ y.double())
print("normal equations", beta.flatten().tolist())
both = torch.stack([w.detach().flatten()[0], b.detach()[0]])
print("agree", (beta.float().flatten() - both).abs().max().item() < 1e-3)
