"""PyTorch's side of order.c: sort and topk."""
from functools import partial

import torch
from torch_side import Case, fill, serve


def look_up(inputs, result):
    return result[0], inputs[0].gather(1, result[1])


def order(name, call, *shape):
    return Case(name, "element", shape[0] * shape[1], lambda: [fill(shape, 1, 1.0)], call, variants=("eager",),
                finish=look_up)


if __name__ == "__main__":
    serve([order("sort_long", torch.sort, 1, 1024 * 1024), order("sort_rows", torch.sort, 1024, 1024),
           order("topk_long", partial(torch.topk, k=100), 1, 4 * 1024 * 1024),
           order("topk_rows", partial(torch.topk, k=10), 4096, 1024)])
