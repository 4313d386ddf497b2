"""PyTorch's side of narrow.c: products of bfloat16 and of int8, which oneDNN does."""
import torch
import torch.nn.functional as F
from torch_side import Case, fill, serve

EAGER = ("eager",)


def half(shape, seed):
    return fill(shape, seed, 1.0).bfloat16()


def mm(n):
    return Case(f"mm_bf16_{n}", "flop", 2.0 * n**3, lambda: [half((n, n), 1), half((n, n), 2)], torch.mm, variants=EAGER)


def mm_int8(n):
    def prepare():
        return [fill((n, n), seed, 100.0).to(torch.int8) for seed in (1, 2)]

    return Case(f"mm_int8_{n}", "flop", 2.0 * n**3, prepare, torch._int_mm, variants=EAGER)


def linear(m, grads=False):
    k, n = 1024, 4096

    def prepare():
        inputs = [half((m, k), 1), half((n, k), 2), half((n,), 3)]
        return [*inputs, half((m, n), 4)] if grads else inputs

    return Case(f"linear_bf16_{m}" + ("_grad" if grads else ""), "flop", (6.0 if grads else 2.0) * m * k * n, prepare,
                F.linear, grads=(0, 1, 2) if grads else (), variants=EAGER)


if __name__ == "__main__":
    serve([mm(512), mm(1024), mm(2048), linear(1), linear(8), linear(512), linear(512, True), mm_int8(1024),
           mm_int8(2048)])
