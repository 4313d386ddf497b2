"""Logistic regression on two clouds, with weight decay and a count of errors."""
import random

import torch
import torch.nn.functional as F

rng = random.Random(2)
points, labels = [], []
for i in range(120):
    label = i % 2
    points.append([rng.gauss(2.0 * label - 1, 0.8), rng.gauss(1 - label, 0.8)])
    labels.append(float(label))
x = torch.tensor(points)
y = torch.tensor(labels)

weight = torch.zeros(2, requires_grad=True)
bias = torch.tensor(0.0, requires_grad=True)
for step in range(100):
    logits = torch.mv(x, weight) + bias
    loss = F.binary_cross_entropy_with_logits(logits, y) + 0.01 * weight.square().sum()
    gw, gb = torch.autograd.grad(loss, [weight, bias])
    with torch.no_grad():
        weight.sub_(gw, alpha=0.5)
        bias.sub_(gb, alpha=0.5)
print("loss", loss.item())
print("weight", weight.tolist(), bias.item())
guess = (torch.sigmoid(torch.mv(x, weight) + bias) > 0.5).float()
print("errors", int((guess != y).sum()), "of", y.numel())
confusion = torch.zeros(2, 2, dtype=torch.int64)
for t, g in zip(y.long().tolist(), guess.long().tolist()):
    confusion[t, g] += 1
print("confusion", confusion.tolist())
