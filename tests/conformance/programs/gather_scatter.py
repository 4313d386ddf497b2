"""Tricks with gather, scatter, take_along_dim, topk and cumulative sums."""
import random

import torch
import torch.nn.functional as F

rng = random.Random(10)
x = torch.tensor([[rng.gauss(0, 1) for _ in range(6)] for _ in range(4)], requires_grad=True)
index = torch.tensor([[0, 5], [2, 2], [1, 3], [4, 0]])
picked = x.gather(1, index)
print(picked.tolist())
(picked ** 2).sum().backward()
print(x.grad.tolist())
flat = torch.zeros(4, 6).scatter(1, index, 1.0)
print(flat.tolist(), torch.zeros(4, 6).scatter_add(1, index, torch.ones(4, 2)).tolist())
values, where = x.detach().topk(3, dim=1)
print(values.tolist(), where.tolist())
kept = torch.zeros_like(x).scatter_(1, where, values)
print((kept != 0).sum(dim=1).tolist(), torch.take_along_dim(x.detach(), where, dim=1).equal(values))

# A histogram, a run-length segment sum, a top-p filter.
data = torch.tensor([rng.randrange(5) for _ in range(40)])
print("histogram", torch.zeros(5).scatter_add_(0, data, torch.ones(40)).tolist())
segments = torch.tensor([0, 0, 1, 1, 1, 3])
amounts = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
print("segments", torch.zeros(4).index_add(0, segments, amounts).tolist())
print("largest", torch.zeros(4).scatter_reduce(0, segments, amounts, reduce="amax", include_self=False).tolist())
probabilities = F.softmax(x.detach(), dim=1)
ordered, order = probabilities.sort(dim=1, descending=True)
drop = (ordered.cumsum(dim=1) - ordered) > 0.7
ordered = ordered.masked_fill(drop, 0.0)
filtered = torch.zeros_like(probabilities).scatter(1, order, ordered)
print("filtered", (filtered / filtered.sum(dim=1, keepdim=True)).tolist())
print("one hot", F.one_hot(data[:4], 5).tolist(), torch.where(data[:6] > 2, data[:6], -data[:6]).tolist())
