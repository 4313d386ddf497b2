#!/usr/bin/env python3
"""A run of examples/char_gpt.c beside PyTorch: the same start, the same batches, the same 50 steps; losses agree to 1e-4.
Skipped where PyTorch is not installed.

    test_char_gpt_live.py [TEXT [STEPS]]        with a text, at the example's full size: prints both curves
"""
import math
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))

sys.path.append(str(ROOT / "tests"))
import live  # noqa: E402

live.need("numpy", "torch", "safetensors")

import numpy  # noqa: E402
import torch  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_2 = nn.LayerNorm(width)
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, time, width = x.shape
        qkv = self.qkv(self.norm_1(x)).view(batch, time, 3, self.heads, width // self.heads)
        y = F.scaled_dot_product_attention(*qkv.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.net(self.norm_2(x))


class GPT(nn.Module):
    def __init__(self, weights, heads):
        super().__init__()
        (vocab, width), context = weights["characters.weight"].shape, len(weights["places.weight"])
        layers = 1 + max(int(name.split(".")[1]) for name in weights if name.startswith("blocks."))
        self.characters = nn.Embedding(vocab, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        self.load_state_dict(weights)

    def forward(self, tokens):
        x = self.characters(tokens) + self.places.weight[:tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def losses_of(weights, run):
    """The loss of each step, one after the other."""
    net, steps = GPT(weights, int(run["heads"][0])), len(run["x"])
    groups = [{"params": [p for p in net.parameters() if p.ndim == 2], "weight_decay": 0.1},
              {"params": [p for p in net.parameters() if p.ndim != 2], "weight_decay": 0.0}]
    opt = torch.optim.AdamW(groups, lr=float(run["lr"][0]), betas=(0.9, 0.99))
    warm = steps // 20

    def factor(step):
        if step < warm:
            return (step + 1) / warm
        return 0.1 + 0.9 * (1 + math.cos(math.pi * min(1, (step - warm) / (steps - warm)))) / 2

    schedule = torch.optim.lr_scheduler.LambdaLR(opt, factor)
    for x, y in zip(torch.from_numpy(run["x"]), torch.from_numpy(run["y"])):
        loss = F.cross_entropy(net(x).flatten(0, 1), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
        schedule.step()
        yield loss.item()


def main():
    program = BUILD / "tests" / "train" / "test_char_gpt"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([program, folder, *sys.argv[1:]], check=True)
        with numpy.load(pathlib.Path(folder) / "run.npz") as file:
            run = dict(file)
        weights = load_file(pathlib.Path(folder) / "start.safetensors")
    worst = 0.0
    for step, loss in enumerate(losses_of(weights, run)):
        ours = float(run["losses"][step])
        if step < 50:
            worst = max(worst, abs(ours - loss) / loss)
        if step % max(1, len(run["x"]) // 10) == 0:
            print(f"step {step:5d}  cairn {ours:.4f}  torch {loss:.4f}", flush=True)
    print(f"losses of the first {min(50, len(run['x']))} steps differ by {worst:.2g} at most")
    return 0 if worst < 1e-4 else 1


if __name__ == "__main__":
    sys.exit(main())
