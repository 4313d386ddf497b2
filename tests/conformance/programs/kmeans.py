"""k-means by broadcasting, masks and index assignment."""
import random

import torch

rng = random.Random(8)
centers = [(-2.0, 0.0), (2.0, 1.0), (0.0, 3.0)]
points = torch.tensor([[rng.gauss(cx, 0.4), rng.gauss(cy, 0.4)] for cx, cy in centers for _ in range(30)])
means = points[[0, 40, 80]].clone()
for step in range(10):
    distance = ((points[:, None, :] - means[None, :, :]) ** 2).sum(-1)
    owner = distance.argmin(dim=1)
    old = means.clone()
    for j in range(3):
        mask = owner == j
        if mask.any():
            means[j] = points[mask].mean(dim=0)
    if torch.equal(old, means):
        break
print("steps", step, "means", means.tolist())
print("sizes", [(owner == j).sum().item() for j in range(3)])
nearest, which = distance.min(dim=1)
print("inertia", nearest.sum().item(), which.shape, which.dtype)
order = torch.argsort(nearest, descending=True)[:5]
print("outliers", order.tolist(), nearest[order].tolist())
sums = torch.zeros(3, 2).index_add_(0, owner, points)
print("sums", sums.tolist())
points[owner == 1, 1] = 0.0
points[order] *= -1
print("changed", points[order].tolist(), points[:, 1].eq(0).sum().item())
print("first of each", [torch.nonzero(owner == j)[0].item() for j in range(3)])
