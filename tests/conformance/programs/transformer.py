"""A transformer block by functional calls (no einsum): training a copy task by Adam written out."""
import math
import random

import torch
import torch.nn.functional as F

rng = random.Random(11)
tokens, width, heads, length = 7, 16, 4, 6


def initial(*shape, scale=0.2):
    flat = [rng.gauss(0, scale) for _ in range(math.prod(shape))]
    return torch.tensor(flat).reshape(*shape).requires_grad_(True)


p = {
    "embed": initial(tokens, width), "place": initial(length, width), "qkv": initial(3 * width, width),
    "out": initial(width, width), "up": initial(4 * width, width), "down": initial(width, 4 * width),
    "g1": torch.ones(width, requires_grad=True), "b1": torch.zeros(width, requires_grad=True),
    "g2": torch.ones(width, requires_grad=True), "b2": torch.zeros(width, requires_grad=True),
}


def block(x):
    n, t, c = x.shape
    h = F.layer_norm(x, (c,), p["g1"], p["b1"])
    q, k, v = F.linear(h, p["qkv"]).chunk(3, dim=-1)
    q, k, v = (s.view(n, t, heads, c // heads).transpose(1, 2) for s in (q, k, v))
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + F.linear(mixed.transpose(1, 2).reshape(n, t, c), p["out"])
    h = F.layer_norm(x, (c,), p["g2"], p["b2"])
    return x + F.linear(F.gelu(F.linear(h, p["up"]), approximate="tanh"), p["down"])


def logits(ids):
    x = F.embedding(ids, p["embed"]) + p["place"]
    return block(x) @ p["embed"].T


ids = torch.tensor([[rng.randrange(tokens) for _ in range(length)] for _ in range(8)])
target = ids.roll(1, dims=1)
target[:, 0] = -100
first = {name: torch.zeros_like(t) for name, t in p.items()}
second = {name: torch.zeros_like(t) for name, t in p.items()}
for step in range(1, 31):
    loss = F.cross_entropy(logits(ids).view(-1, tokens), target.reshape(-1), ignore_index=-100)
    grads = torch.autograd.grad(loss, list(p.values()))
    with torch.no_grad():
        for (name, t), g in zip(p.items(), grads):
            first[name].lerp_(g, 0.1)
            second[name].mul_(0.99).addcmul_(g, g, value=0.01)
            m = first[name] / (1 - 0.9 ** step)
            v = second[name] / (1 - 0.99 ** step)
            t.addcdiv_(m, v.sqrt().add_(1e-6), value=-0.01)
    if step % 6 == 0:
        print(f"step {step} loss {loss.item():.4f}")
with torch.no_grad():
    guess = logits(ids).argmax(-1)
print("right", (guess[:, 1:] == target[:, 1:]).float().mean().item())
