"""Attention three ways: by formula, masked by hand, and by the fused function; values and gradients agree."""
import math
import random

import torch
import torch.nn.functional as F

rng = random.Random(5)


def values(*shape):
    flat = [rng.gauss(0, 1) for _ in range(math.prod(shape))]
    return torch.tensor(flat, dtype=torch.float64).view(*shape)


q, k, v = (values(2, 3, 5, 4).requires_grad_() for _ in range(3))


def plain(q, k, v, mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1) @ v


causal = torch.ones(5, 5, dtype=torch.bool).tril()
for name, mask in (("full", None), ("causal", causal)):
    mine = plain(q, k, v, mask)
    fused = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    print(name, mine.sum().item(), (mine - fused).abs().max().item() < 1e-10)
    weights = values(2, 3, 5, 4)
    first = torch.autograd.grad((mine * weights).sum(), (q, k, v))
    second = torch.autograd.grad((fused * weights).sum(), (q, k, v))
    print(name, [g.norm().item() for g in first], all((a - b).abs().max().item() < 1e-8 for a, b in zip(first, second)))
print("is_causal", F.scaled_dot_product_attention(q, k, v, is_causal=True)[0, 0].tolist())
