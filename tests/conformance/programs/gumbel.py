"""A Gumbel-softmax sampler: noise from Python, soft and hard samples, straight-through gradients; then draws
of the library itself, of which only what does not depend on the generator is printed."""
import math
import random

import torch
import torch.nn.functional as F

rng = random.Random(6)
logits = torch.tensor([[0.5, 1.5, -0.5], [0.0, 0.2, 2.0]], requires_grad=True)
noise = torch.tensor([[-math.log(-math.log(rng.random())) for _ in range(3)] for _ in range(2)])


def sample(tau, hard):
    soft = F.softmax((logits + noise) / tau, dim=-1)
    if not hard:
        return soft
    index = soft.argmax(dim=-1)
    one = F.one_hot(index, num_classes=3).to(soft.dtype)
    return one - soft.detach() + soft


for tau in (1.0, 0.3):
    for hard in (False, True):
        out = sample(tau, hard)
        grad, = torch.autograd.grad((out * torch.tensor([1.0, 2.0, 3.0])).sum(), logits)
        print(tau, hard, out.tolist(), grad.tolist())

torch.manual_seed(0)
uniform = torch.rand(20000)
gumbel = -torch.log(-torch.log(uniform.clamp(min=1e-7, max=1 - 1e-7)))
counts = F.one_hot((logits.detach()[0] + gumbel[:19998].view(-1, 3)).argmax(dim=1), 3).sum(dim=0)
expected = F.softmax(logits.detach()[0], dim=0)
close = ((counts.double() / counts.sum()) - expected).abs() < 0.03
print("frequencies fit", close.tolist(), int(counts.sum()))
torch.manual_seed(7)
a = torch.randn(5)
torch.manual_seed(7)
print("repeatable", torch.equal(a, torch.randn(5)), torch.equal(a, torch.randn(5)))
print("kinds", torch.randint(0, 3, (4,)).dtype, torch.randperm(6).sort().values.tolist(), torch.rand(2, 3).shape)
