"""PyTorch's side of lstm.c: an LSTM over a sequence, through the function that torch.nn.LSTM calls."""
from functools import partial

import torch
from torch_side import Case, fill, serve

# steps, batch, inputs, hidden
SHAPES = {"lstm": (64, 32, 128, 256), "lstm_small": (32, 8, 32, 64)}


def prepare(steps, batch, inputs, hidden):
    gates, small = 4 * hidden, 0.0625
    return [fill((steps, batch, inputs), 1, 1.0), fill((gates, inputs), 2, small), fill((gates, hidden), 3, small),
            fill((gates,), 4, small), fill((gates,), 5, small), fill((steps, batch, hidden), 6, 1.0)]


def lstm(x, *params, start, train):
    return torch.lstm(x, start, params[:4], True, 1, 0.0, train, False, False)[0]


def cases():
    for name, shape in SHAPES.items():
        steps, batch, inputs, hidden = shape
        flops = 8 * steps * batch * hidden * (inputs + hidden)
        start = [torch.zeros(1, batch, hidden) for _ in range(2)]
        make = partial(prepare, *shape)
        yield Case(name, "flop", flops, make, partial(lstm, start=start, train=False), variants=("eager",))
        yield Case(name + "_grad", "flop", 3 * flops, make, partial(lstm, start=start, train=True), (0, 1, 2, 3, 4),
                   ("eager",))


if __name__ == "__main__":
    serve(list(cases()))
