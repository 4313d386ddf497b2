"""PyTorch's side of train.c: training steps and inference of whole networks, as its users write them.

Parameters start with the numbers of bench_fill, the i-th of a network with seed 100 + i. Variants: the optimiser's
default and fused update; for the residual network both layouts of images.
"""
import sys
from functools import partial
from itertools import repeat

import torch
import torch.nn.functional as F
from torch import nn
from torch_side import dialogue, fill, sample

VOCAB, DIM, DEPTH, HEADS, SEQ = 512, 256, 4, 4, 128


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(64 * 12 * 12, 128), nn.ReLU(), nn.Linear(128, 10))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(128, 256, batch_first=True), nn.Linear(256, 128)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).flatten(0, 1)


class Layer(nn.Module):
    """A pre-norm transformer layer; with a cache it takes one token at position `at`."""

    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, cache=None, at=0):
        b, t, c = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, HEADS, c // HEADS).permute(2, 0, 3, 1, 4)
        if cache is not None:
            cache[0][:, :, at:at + t], cache[1][:, :, at:at + t] = k, v
            k, v = cache[0][:, :, :at + t], cache[1][:, :, :at + t]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=cache is None)
        x = x + self.proj(y.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.pos = nn.Embedding(VOCAB, DIM), nn.Embedding(SEQ, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(DEPTH))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, ids, caches=None, at=0):
        x = self.tok(ids) + self.pos.weight[at:at + ids.shape[1]]
        for i, layer in enumerate(self.layers):
            x = layer(x, caches[i] if caches else None, at)
        return self.head(self.norm(x)).flatten(0, 1)


class Block(nn.Module):
    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out)
        self.conv2, self.bn2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.down = None
        if stride != 1 or channels != out:
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + (x if self.down is None else self.down(x)), inplace=True)


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(True), nn.MaxPool2d(3, 2, 1)]
    for channels, out, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        layers += [Block(channels, out, stride), Block(out, out, 1)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def filled(net):
    """The same numbers as fill_parameters of train.c."""
    for i, (name, p) in enumerate(net.named_parameters()):
        fan = p.numel() // p.shape[0] if p.dim() > 1 else 100
        values = fill(p.shape, 100 + i, fan ** -0.5)
        p.data.copy_(values + 1 if p.dim() == 1 and name.endswith(".weight") else values)
    return net


def labels(n, classes):
    return (torch.arange(n) * 7 + 3) % classes


def images(batch):
    return fill((batch, 3, 224, 224), 1, 1.7)


adam, adamw = partial(torch.optim.Adam, lr=1e-3), partial(torch.optim.AdamW, lr=3e-4)
sgd = partial(torch.optim.SGD, lr=0.01, momentum=0.9)
UPDATES = {"default": {}, "fused": dict(fused=True)}
LAYOUTS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
# name: (network, inputs, labels, optimiser, what a step amounts to, its unit)
STEPS = {
    "mlp_step": (mlp, lambda: fill((128, 784), 1, 1.7), (128, 10), adam, 1, "step"),
    "lenet_step": (lenet, lambda: fill((64, 1, 28, 28), 1, 1.7), (64, 10), adam, 1, "step"),
    "lstm_step": (Tagger, lambda: fill((32, 64, 128), 1, 1.7), (32 * 64, 128), adam, 32 * 64, "token"),
    "gpt_step": (GPT, lambda: labels(8 * SEQ, VOCAB).view(8, SEQ), (8 * SEQ, VOCAB), adamw, 8 * SEQ, "token"),
    "resnet18_train": (resnet18, partial(images, 8), (8, 1000), sgd, 8, "image"),
}


def step_work(name, variant, half=False):
    build, inputs, target, optimiser, amount, unit = STEPS[name]
    state = {}

    def setup():
        layout = LAYOUTS.get(variant, torch.contiguous_format)
        net = filled(build()).to(memory_format=layout)
        x = inputs()
        x = x.to(memory_format=layout) if x.dim() == 4 else x
        state["all"] = net, optimiser(net.parameters(), **UPDATES.get(variant, {})), x, labels(*target)

    def step():
        net, opt, x, y = state["all"]
        opt.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = F.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        return loss

    def run(n):
        for _ in repeat(None, n):
            step()

    def check():
        return [float(step()) for _ in range(3)][-1]

    return dialogue.Work(name.replace("_step", "_bf16_step") if half else name, variant, unit, amount, setup, run, check)


def infer_work(batch, variant, half=False):
    state = {}

    def setup():
        how = dict(memory_format=LAYOUTS[variant], dtype=torch.bfloat16 if half else torch.float32)
        state["all"] = filled(resnet18()).eval().to(**how), images(batch).to(**how)

    def run(n):
        net, x = state["all"]
        with torch.inference_mode():
            for _ in repeat(None, n):
                net(x)

    def check():
        net, x = state["all"]
        with torch.inference_mode():
            return sample(net(x))

    return dialogue.Work(f"resnet18_{'bf16_' if half else ''}infer_b{batch}", variant, "image", batch, setup, run, check)


def generate_work():
    state = {}

    def setup():
        state["net"] = filled(GPT()).eval()

    def generate():
        net, shape = state["net"], (1, HEADS, SEQ, DIM // HEADS)
        caches = [(torch.empty(shape), torch.empty(shape)) for _ in net.layers]
        ids, out = torch.zeros(1, 1, dtype=torch.long), []
        for t in range(SEQ):
            ids = net(ids, caches, t).argmax(-1, keepdim=True)
            out.append(ids)
        return torch.cat(out)

    def run(n):
        with torch.inference_mode():
            for _ in repeat(None, n):
                generate()

    def check():
        with torch.inference_mode():
            return sample(generate())

    return dialogue.Work("gpt_generate", "eager", "token", SEQ, setup, run, check)


def works():
    for name in STEPS:
        variants = LAYOUTS if name == "resnet18_train" else UPDATES
        yield from (step_work(name, v) for v in variants)
    yield from (step_work("gpt_step", v, half=True) for v in UPDATES)
    yield from (infer_work(batch, v, half) for half in (False, True) for batch in (1, 8) for v in LAYOUTS)
    yield generate_work()


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    dialogue.serve(list(works()))
