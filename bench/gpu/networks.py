#!/usr/bin/env python3
"""Networks of many kinds on one GPU, cairn beside PyTorch: what they compute, and how fast they train and infer.

usage: bench/gpu/networks.py [NAME...]        (NAME: a part of a row's name; none: all of them)
Each side runs in a process of its own, on the same weights and inputs, which both make of names alone. A row: the loss
and the gradients' norm of one step in float32, which must agree; training under bfloat16 autocast (SGD with momentum),
eager, and as one graph (cairn.compile; PyTorch: torch.cuda.CUDAGraph by hand); inference in float16, likewise. Numbers
are samples a second of cairn, and behind each its ratio to PyTorch.
Needs a build with the CUDA plugin on PYTHONPATH (build/*/python), torch with CUDA, and torchvision.
"""
import importlib
import json
import subprocess
import sys
import time
import zlib

import numpy as np


def vision(name, batch, side, **settings):
    def make(m):
        models = m.models if m.__name__ == "cairn" else importlib.import_module("torchvision").models
        return getattr(models, name)(**settings).to("cuda", memory_format=m.channels_last)

    return make, (batch, 3, side, side), 1000


def encoder(batch, length, dim, heads, layers, vocab=1000):
    """A transformer's encoder as PyTorch has it, over tokens."""
    def make(m):
        nn = m.nn

        class Encoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(vocab, dim)
                layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.1, batch_first=True)
                self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
                self.head = nn.Linear(dim, vocab)

            def forward(self, x):
                return self.head(self.layers(self.embed(x)).mean(1))

        return Encoder().to("cuda")

    return make, (batch, length), vocab


def recurrent(kind, batch, length, dim, vocab=1000):
    def make(m):
        nn = m.nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(vocab, dim)
                self.cells = getattr(nn, kind)(dim, dim, num_layers=2, bidirectional=True, batch_first=True)
                self.head = nn.Linear(2 * dim, vocab)

            def forward(self, x):
                return self.head(self.cells(self.embed(x))[0].amax(1))

        return Net().to("cuda")

    return make, (batch, length), vocab


def sound(batch, length):
    """Convolutions in one dimension, with dilation, groups and a transposed one."""
    def make(m):
        nn = m.nn
        parts = [nn.Conv1d(1, 64, 80, 4), nn.BatchNorm1d(64), nn.ReLU()]
        for dilation in (1, 2, 4, 8):
            parts += [nn.Conv1d(64, 64, 3, padding=dilation, dilation=dilation), nn.GroupNorm(8, 64), nn.GELU(),
                      nn.Conv1d(64, 64, 5, padding=2, groups=64), nn.Conv1d(64, 64, 1), nn.BatchNorm1d(64), nn.ReLU()]
        parts += [nn.ConvTranspose1d(64, 32, 4, 2), nn.ELU(), nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(256, 35)]
        return nn.Sequential(*parts).to("cuda")

    return make, (batch, 1, length), 35


def generator(batch):
    """A discriminator over a generator's picture, as of a GAN."""
    def make(m):
        nn = m.nn
        parts = [nn.Unflatten(1, (100, 1, 1)), nn.ConvTranspose2d(100, 512, 4, bias=False), nn.BatchNorm2d(512), nn.ReLU()]
        for width in (256, 128, 64):
            parts += [nn.ConvTranspose2d(2 * width, width, 4, 2, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        parts += [nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh(), nn.Conv2d(3, 64, 4, 2, 1), nn.LeakyReLU(0.2)]
        for width in (128, 256):
            parts += [nn.Conv2d(width // 2, width, 4, 2, 1), nn.InstanceNorm2d(width, affine=True), nn.LeakyReLU(0.2)]
        return nn.Sequential(*parts, nn.Flatten(), nn.Linear(256 * 64, 10)).to("cuda")

    return make, (batch, 100), 10


def volume(batch, side):
    def make(m):
        nn = m.nn
        return nn.Sequential(
            nn.Conv3d(1, 32, 3, padding=1), nn.BatchNorm3d(32), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(32, 64, 3, padding=1), nn.BatchNorm3d(64), nn.ReLU(), nn.MaxPool3d(2),
            nn.Conv3d(64, 128, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(128, 10)).to("cuda")

    return make, (batch, 1, side, side, side), 10


def dense(batch, widths, act="GELU"):
    def make(m):
        nn = m.nn
        parts = []
        for a, b in zip(widths, widths[1:]):
            parts += [nn.Linear(a, b), nn.LayerNorm(b), getattr(nn, act)(), nn.Dropout(0.1)]
        return nn.Sequential(*parts[:-3]).to("cuda")

    return make, (batch, widths[0]), widths[-1]


ROWS = {
    "resnet18 b128": vision("resnet18", 128, 224),
    "resnet18 b7 x217": vision("resnet18", 7, 217),
    "resnext50 b64": vision("resnext50_32x4d", 64, 224),
    "vgg16_bn b64": vision("vgg16_bn", 64, 224),
    "mobilenet_v2 b128": vision("mobilenet_v2", 128, 224),
    "mobilenet_v3_large b128": vision("mobilenet_v3_large", 128, 224),
    "efficientnet_b0 b128": vision("efficientnet_b0", 128, 224),
    "densenet121 b64": vision("densenet121", 64, 224),
    "squeezenet1_1 b128": vision("squeezenet1_1", 128, 224),
    "convnext_tiny b64": vision("convnext_tiny", 64, 224),
    "vit_b_16 b64": vision("vit_b_16", 64, 224),
    "encoder 512x8 b64 x128": encoder(64, 128, 512, 8, 6),
    "encoder 251x1 b13 x101": encoder(13, 101, 251, 1, 4),
    "LSTM 512 b64 x100": recurrent("LSTM", 64, 100, 512),
    "GRU 200 b32 x75": recurrent("GRU", 32, 75, 200),
    "conv1d b128 x16000": sound(128, 16000),
    "gan b128": generator(128),
    "conv3d b16 x48": volume(16, 48),
    "mlp 1024..10 b4096": dense(4096, (1024, 2048, 2048, 10)),
    "mlp 997..11 b1021": dense(1021, (997, 1531, 509, 11), "SiLU"),
}


def same_weights(m, net):
    """Weights that depend on names and shapes alone."""
    with m.no_grad():
        for name, p in net.named_parameters():
            rng = np.random.default_rng(zlib.crc32(name.encode()))
            fan = max(1, int(np.prod(p.shape[1:])))
            w = rng.standard_normal(tuple(p.shape), np.float32) * (1.4 / fan ** 0.5 if p.dim() > 1 else 0.1)
            if p.dim() == 1 and name.endswith("weight"):
                w += 1
            p.copy_(m.from_numpy(w))
    return net


def data(m, shape, classes, dtype=None):
    rng = np.random.default_rng(1)
    if len(shape) == 2 and classes == 1000:  # tokens
        x = m.from_numpy(rng.integers(0, classes, shape)).to("cuda")
    else:
        x = m.from_numpy(rng.standard_normal(shape, np.float32)).to("cuda")
        x = x.to(dtype) if dtype is not None else x
    return (x.to(memory_format=m.channels_last) if len(shape) == 4 else x,
            m.from_numpy(rng.integers(0, classes, shape[0])).to("cuda"))


def numbers(m, row):
    """Loss and gradients' norm of a step in float32, without dropout."""
    make, shape, classes = row
    shape = (min(shape[0], 8), *shape[1:])
    net = same_weights(m, make(m))
    for part in net.modules():
        if type(part).__name__ in ("Dropout", "StochasticDepth", "MultiheadAttention"):
            part.p = part.dropout = 0.0
    x, y = data(m, shape, classes)
    loss = m.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    norms = [p.grad.double().square().sum() for p in net.parameters() if p.grad is not None]
    return loss.item(), sum(n.item() for n in norms) ** 0.5


def timed(m, step):
    for _ in range(4):
        step()
    m.cuda.synchronize()
    begin = time.perf_counter()
    step()
    m.cuda.synchronize()
    n = max(3, min(200, int(0.15 / (time.perf_counter() - begin))))
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(n):
            step()
        m.cuda.synchronize()
        took.append((time.perf_counter() - begin) / n)
    return sorted(took)[1]


def graphed(m, step, x):
    """step(x) as one graph."""
    if m.__name__ == "cairn":
        run = m.compile(step)
        return lambda: run(x)
    side = m.cuda.Stream()
    with m.cuda.stream(side):
        for _ in range(4):
            step(x)
    m.cuda.synchronize()
    graph = m.cuda.CUDAGraph()
    with m.cuda.graph(graph):
        step(x)
    return graph.replay


def training(m, row, how):
    make, shape, classes = row
    net = same_weights(m, make(m))
    x, y = data(m, shape, classes)
    opt = m.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9, **({"fused": True} if m.__name__ == "torch" else {}))

    def step(x):
        opt.zero_grad(set_to_none=True)
        with m.autocast("cuda", dtype=m.bfloat16):
            loss = m.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return shape[0] / timed(m, graphed(m, step, x) if how == "graph" else lambda: step(x))


def inference(m, row, how):
    make, shape, classes = row
    net = same_weights(m, make(m)).half().eval()
    x, _ = data(m, shape, classes, m.float16)

    def step(x):
        with m.no_grad():
            return net(x)

    return shape[0] / timed(m, graphed(m, step, x) if how == "graph" else lambda: step(x))


WORKS = {"check": lambda m, row: numbers(m, row),
         "train": lambda m, row: training(m, row, "eager"), "train, graph": lambda m, row: training(m, row, "graph"),
         "infer": lambda m, row: inference(m, row, "eager"), "infer, graph": lambda m, row: inference(m, row, "graph")}


def side(framework, names):
    m = importlib.import_module(framework)
    m.backends.cudnn.allow_tf32 = False
    if framework == "torch":
        m.backends.cudnn.benchmark = True
    for name in names:
        for work, run in WORKS.items():
            begin = time.perf_counter()
            try:
                result = run(m, ROWS[name])
            except Exception as e:  # a row that fails is a result, too
                result = "%s: %s" % (type(e).__name__, str(e)[:300])
            print(json.dumps([name, work, result, round(time.perf_counter() - begin, 1)]), flush=True)


def collect(framework, names):
    found = {}
    child = subprocess.Popen([sys.executable, __file__, "--side", framework, *names], stdout=subprocess.PIPE, text=True)
    for line in child.stdout:
        name, work, result, seconds = json.loads(line)
        found[name, work] = result
        if seconds > 8:
            print("   %s, %s: %s took %.1f s" % (name, work, framework, seconds), flush=True)
    if child.wait():
        print("   %s ended with %d" % (framework, child.returncode), flush=True)
    return found


def show(name, ours, theirs):
    text = "%-24s" % name
    for work in WORKS:
        a, b = ours.get((name, work), "not run"), theirs.get((name, work), "not run")
        if isinstance(a, str) or isinstance(b, str):
            text += "\n   %s: cairn %s | torch %s\n" % (work, a, b)
        elif work == "check":
            off = max(abs(p - q) / max(abs(q), 1e-6) for p, q in zip(a, b))
            text += "%s %.0e" % ("  ok" if off < 1e-3 else " OFF", off)
        else:
            text += "  %s %8.0f (%.2f)" % (work, a, a / b)
    print(text, flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        side(sys.argv[2], sys.argv[3:] or ROWS)
    else:
        chosen = [name for name in ROWS if not sys.argv[1:] or any(part in name for part in sys.argv[1:])]
        ours, theirs = collect("cairn", chosen), collect("torch", chosen)
        for name in chosen:
            show(name, ours, theirs)
