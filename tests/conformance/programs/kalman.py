"""A Kalman filter for a body that moves at constant speed, with Cholesky and solves; likelihood and its gradient."""
import math
import random

import torch

rng = random.Random(9)
dt = 0.5
truth = [(0.3 * i * dt, 0.3) for i in range(20)]
seen = torch.tensor([[p + rng.gauss(0, 0.2)] for p, _ in truth], dtype=torch.float64)
F = torch.tensor([[1.0, dt], [0.0, 1.0]], dtype=torch.float64)
H = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
Q = 1e-3 * torch.eye(2, dtype=torch.float64)


def run(log_r):
    r = log_r.exp().reshape(1, 1)
    mean = torch.zeros(2, dtype=torch.float64)
    cov = torch.eye(2, dtype=torch.float64) * 10
    likelihood = torch.zeros((), dtype=torch.float64)
    path = []
    for z in seen:
        mean, cov = F @ mean, F @ cov @ F.mT + Q
        s = H @ cov @ H.mT + r
        chol = torch.linalg.cholesky(s)
        innovation = (z - H @ mean).unsqueeze(1)
        white = torch.linalg.solve_triangular(chol, innovation, upper=False)
        likelihood = likelihood - 0.5 * (white ** 2).sum() - chol.diagonal().log().sum() - 0.5 * math.log(2 * math.pi)
        gain = torch.linalg.solve(s, H @ cov).mT
        mean = mean + (gain @ innovation).squeeze(1)
        cov = (torch.eye(2, dtype=torch.float64) - gain @ H) @ cov
        path.append(mean)
    return likelihood, torch.stack(path), cov


log_r = torch.tensor(-1.0, dtype=torch.float64, requires_grad=True)
for step in range(15):
    likelihood, path, cov = run(log_r)
    grad, = torch.autograd.grad(likelihood, log_r)
    log_r = (log_r + 0.05 * grad.clamp(-5, 5)).detach().requires_grad_()
    if step % 5 == 0:
        print(step, likelihood.item(), grad.item())
print("noise", log_r.exp().sqrt().item())
print("path", path[::5].tolist())
print("covariance", cov.tolist(), torch.linalg.det(cov).item(), torch.linalg.inv(cov).tolist())
