"""PyTorch's side of train.c: training steps of whole networks (networks.py), as its users write them.

Variants: the optimiser's default and fused update; for the residual network both layouts of images.
"""
import sys
from functools import partial
from itertools import repeat

import torch
import torch.nn.functional as F
from networks import (DEPTH, DIM, GPT, HEADS, LAYOUTS, SEQ, VOCAB, Tagger, filled, images, labels, lenet, mlp,
                      resnet18)
from torch_side import dialogue, fill, sample

adam, adamw = partial(torch.optim.Adam, lr=1e-3), partial(torch.optim.AdamW, lr=3e-4)
sgd = partial(torch.optim.SGD, lr=0.01, momentum=0.9)
UPDATES = {"default": {}, "fused": dict(fused=True)}
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
    yield generate_work()


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    dialogue.serve(list(works()))
