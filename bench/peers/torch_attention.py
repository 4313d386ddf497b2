"""PyTorch's side of attention.c: scaled dot-product attention, forward and forward with backward."""
from functools import partial

from torch.nn.functional import scaled_dot_product_attention
from torch_side import Case, fill, serve

WIDTH = 64
# batch, heads, length, causal
SHAPES = {"attention_128": (8, 8, 128, False), "attention_512": (2, 8, 512, False),
          "attention_1024": (1, 8, 1024, False), "attention_1024_causal": (1, 8, 1024, True),
          "attention_4096": (1, 2, 4096, False)}


def prepare(count, *shape):
    return [fill((*shape, WIDTH), seed, 1.0) for seed in range(1, count + 1)]


def cases():
    for name, (batch, heads, length, causal) in SHAPES.items():
        flops = 4 * batch * heads * length**2 * WIDTH / (2 if causal else 1)
        call = partial(scaled_dot_product_attention, is_causal=causal)
        shape = batch, heads, length
        yield Case(name, "flop", flops, partial(prepare, 3, *shape), call, variants=("eager",))
        yield Case(name + "_grad", "flop", 3 * flops, partial(prepare, 4, *shape), call, (0, 1, 2), ("eager",))


if __name__ == "__main__":
    serve(list(cases()))
