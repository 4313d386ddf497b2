#!/usr/bin/env python3
"""Makes tests/train/golden/curves.safetensors: PyTorch's losses of 30 training steps of four small networks, and their
parameters afterwards, for test_curves.c and, with cairn in torch's place, tests/python/test_curves.py.

Parameters begin with the numbers of fill() below, the i-th of a network with seed 100 + i, so that they need not be
stored; inputs and labels likewise. Run with a Python that has torch and safetensors.
"""
import pathlib
import struct

import torch
import torch.nn.functional as F
from torch import nn

STEPS, HEADS, SEQ, VOCAB, DIM = 30, 2, 12, 40, 16


def fill(shape, seed, scale):
    """n numbers evenly spread over (-scale, scale); test_curves.c has the same."""
    x, out = (seed * 0x9E3779B97F4A7C15 + 1) % 2**64, []
    for _ in range(torch.Size(shape).numel()):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        signed = (x >> 32) - (2**32 if x >> 63 else 0)
        out.append(struct.unpack("f", struct.pack("f", signed / 2147483648.0))[0])
    return (torch.tensor(out, dtype=torch.float32) * scale).reshape(shape)


def labels(n, classes):
    return (torch.arange(n) * 7 + 3) % classes


def mlp():
    return nn.Sequential(nn.Linear(20, 32), nn.ReLU(), nn.Dropout(0.0), nn.Linear(32, 7))


def cnn():
    return nn.Sequential(nn.Conv2d(1, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(6, 8, 3, stride=2), nn.GELU(), nn.Flatten(), nn.Linear(8, 5))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(6, 12, 2, batch_first=True, bidirectional=True), nn.Linear(24, 9)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).flatten(0, 1)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        # Keys have no bias: its gradient is zero but for rounding, which Adam would make steps of.
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(SEQ, DIM)
        self.layers = nn.Sequential(Layer(), Layer())
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids):
        x = self.tok(ids) + self.pos.weight
        return self.head(self.norm(self.layers(x))).flatten(0, 1)


RUNS = {
    "mlp": (mlp, fill((16, 20), 1, 1.7), labels(16, 7),
            lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=1e-3)),
    "cnn": (cnn, fill((10, 1, 8, 8), 1, 1.7), labels(10, 5), lambda p: torch.optim.Adam(p, lr=3e-3)),
    "lstm": (Tagger, fill((4, 5, 6), 1, 1.7), labels(20, 9), lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5)),
    "gpt": (GPT, labels(3 * SEQ, VOCAB).view(3, SEQ), labels(3 * SEQ, VOCAB).roll(-1),
            lambda p: torch.optim.AdamW(p, lr=3e-3)),
}


def curves():
    """Losses and last parameters of all runs, by name."""
    out = {}
    for name, (build, x, y, optimiser) in RUNS.items():
        net = build()
        for i, (key, p) in enumerate(net.named_parameters()):
            fan = p.numel() // p.shape[0] if p.dim() > 1 else 100
            values = fill(p.shape, 100 + i, fan ** -0.5)
            p.data.copy_(values + 1 if p.dim() == 1 and key.endswith(".weight") else values)
        opt, losses = optimiser(net.parameters()), []
        for _ in range(STEPS):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            losses.append(loss.item())
        out[f"{name}/losses"] = torch.tensor(losses)
        out |= {f"{name}/{key}": p.detach().contiguous() for key, p in net.named_parameters()}
    return out


def main():
    from safetensors.torch import save_file
    torch.set_num_threads(1)
    save_file(curves(), str(pathlib.Path(__file__).parent / "golden/curves.safetensors"))


if __name__ == "__main__":
    main()
