"""PyTorch's side of stream.c: the rows that memory limits, eager and compiled."""
from functools import partial

import torch
from torch.nn import functional as F
from torch_side import Case, fill, serve

VOCABULARY, WIDTH, TOKENS = 50000, 256, 32768
SQUARE, ROWS, N = (4096, 4096), (16384, 1024), 4096 * 4096
IMAGES, GATHERED = (64, 64, 56, 56), 4 * TOKENS * WIDTH


def inputs(*shapes):
    return [fill(shape, seed, 1.0) for seed, shape in enumerate(shapes, 1)]


def scaled(shape):
    return [fill(shape, 1, 1.0), fill(shape[1:2], 3, 1.0), fill(shape[1:2], 4, 1.0)]


def images():
    return [*scaled(IMAGES), torch.zeros(IMAGES[1]), torch.ones(IMAGES[1])]


def table():
    token = (fill((TOKENS,), 5, 1.0) * VOCABULARY).abs().long()
    return [token, fill((VOCABULARY, WIDTH), 1, 1.0), fill((TOKENS, WIDTH), 2, 1.0)]


def stream(name, amount, call, *shapes, prepare=None, **more):
    return Case(name, "byte", amount, prepare or partial(inputs, *shapes), call, **more)


CASES = [
    stream("add", 12 * N, lambda x, y: x + y, SQUARE, SQUARE),
    stream("mul", 12 * N, lambda x, y: x * y, SQUARE, SQUARE),
    stream("gelu", 8 * N, lambda x: F.gelu(x), SQUARE),
    stream("exp", 8 * N, lambda x: x.exp(), SQUARE),
    stream("sum", 4 * N, lambda x: x.sum(), SQUARE),
    stream("mean_rows", 4 * N, lambda x: x.mean(1), SQUARE),
    stream("mean_columns", 4 * N, lambda x: x.mean(0), SQUARE),
    stream("softmax", 8 * N, lambda x: x.softmax(1), ROWS),
    stream("layer_norm", 8 * N, lambda x, w, b: F.layer_norm(x, x.shape[1:], w, b), prepare=partial(scaled, ROWS)),
    stream("batch_norm", 12 * torch.Size(IMAGES).numel(),
           lambda x, w, b, mean, var: F.batch_norm(x, mean, var, w, b, training=True), prepare=images),
    stream("cast_bf16", 6 * N, lambda x: x.bfloat16(), SQUARE),
    stream("cast_f32", 6 * N, lambda x: x.float(), prepare=lambda: [fill(SQUARE, 1, 1.0).bfloat16()]),
    stream("transpose", 8 * N, lambda x: x.t().contiguous(), SQUARE),
    stream("cat_rows", 8 * N, lambda x, y: torch.cat([x, y]), (2048, 4096), (2048, 4096)),
    stream("cat_columns", 8 * N, lambda x, y: torch.cat([x, y], 1), (4096, 2048), (4096, 2048)),
    stream("cumsum", 8 * N, lambda x: x.cumsum(1), SQUARE),
    stream("embedding", 2 * GATHERED, lambda token, x, y: F.embedding(token, x), prepare=table),
    stream("embedding_grad", 3 * GATHERED + 4 * VOCABULARY * WIDTH, lambda token, x: F.embedding(token, x),
           prepare=table, grads=(1,)),
]

if __name__ == "__main__":
    serve(CASES)
