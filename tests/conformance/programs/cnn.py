"""A small convolutional network from functional calls: training on pictures of bars, then its accuracy."""
import math
import random

import torch
import torch.nn.functional as F

rng = random.Random(3)


def picture(kind):
    rows = [[rng.gauss(0, 0.3) for _ in range(8)] for _ in range(8)]
    at = rng.randrange(1, 7)
    for i in range(8):
        if kind == 0:
            rows[at][i] += 1.0
        elif kind == 1:
            rows[i][at] += 1.0
        else:
            rows[i][i] += 1.0
    return [rows]


def initial(*shape):
    fan = math.prod(shape[1:])
    flat = [rng.gauss(0, 1 / math.sqrt(fan)) for _ in range(math.prod(shape))]
    return torch.tensor(flat).reshape(shape).requires_grad_()


labels = [i % 3 for i in range(48)]
images = torch.tensor([picture(k) for k in labels])
targets = torch.tensor(labels)
w1, b1 = initial(6, 1, 3, 3), torch.zeros(6, requires_grad=True)
w2, b2 = initial(8, 6, 3, 3), torch.zeros(8, requires_grad=True)
gain, shift = torch.ones(6, requires_grad=True), torch.zeros(6, requires_grad=True)
w3, b3 = initial(3, 8 * 2 * 2), torch.zeros(3, requires_grad=True)
parameters = [w1, b1, gain, shift, w2, b2, w3, b3]
running_mean, running_var = torch.zeros(6), torch.ones(6)


def network(x, training):
    x = F.conv2d(x, w1, b1, padding=1)
    x = F.batch_norm(x, running_mean, running_var, gain, shift, training=training)
    x = F.max_pool2d(F.relu(x), 2)
    x = F.avg_pool2d(F.gelu(F.conv2d(x, w2, b2, padding=1)), 2)
    return F.linear(x.flatten(1), w3, b3)


momentum = [torch.zeros_like(p) for p in parameters]
for epoch in range(12):
    loss = F.cross_entropy(network(images, True), targets)
    for p in parameters:
        p.grad = None
    loss.backward()
    with torch.no_grad():
        for p, m in zip(parameters, momentum):
            m.mul_(0.9).add_(p.grad)
            p.add_(m, alpha=-0.1)
    print(f"epoch {epoch} loss {loss.item():.4f}")
with torch.no_grad():
    out = network(images, False)
print("accuracy", (out.argmax(dim=1) == targets).float().mean().item())
print("running mean", running_mean.tolist())
print("probabilities", F.softmax(out[:2], dim=1).tolist())
