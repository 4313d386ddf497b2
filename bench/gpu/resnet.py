#!/usr/bin/env python3
"""ResNet-50 on one GPU: cairn beside PyTorch, eager and compiled, each in processes of its own, in turn.

usage: bench/gpu/resnet.py WORK [ROUNDS [WHO...]]
WORK: last-256 or nchw-256 (training by SGD with momentum under bfloat16 autocast, batch 256, channels innermost or not),
infer-1 or infer-64 (float16, no gradients, batch 1 or 64). ROUNDS: how often each runs (1). WHO: cairn, cairn-compile,
torch, torch-compile (mode="reduce-overhead" for inference), torch-autotune (mode="max-autotune"; the first three).
Needs a build with the CUDA plugin on PYTHONPATH (build/*/python), torch with CUDA, and torchvision. Prints images a second
(the median of three runs), the first step and memory.
"""
import importlib
import statistics
import subprocess
import sys
import time

from gpt import MODES


def network(name, m):
    if name == "cairn":
        return m.models.resnet50()
    m.backends.cudnn.benchmark = True
    return importlib.import_module("torchvision").models.resnet50()


def training(name, m, compiled, net, x):
    F = m.nn.functional
    y = m.randint(0, 1000, (x.shape[0],), device="cuda")
    opt = m.optim.SGD(net.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
                      **({"fused": True} if name == "torch" else {}))
    model = m.compile(net, mode=MODES[compiled]) if compiled and name == "torch" else net

    def step(x):
        with m.autocast("cuda", dtype=m.bfloat16):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss.detach()

    return m.compile(step) if compiled and name == "cairn" else step


def inference(name, m, compiled, net, x):
    net.eval()
    mode = {"mode": MODES[compiled] or "reduce-overhead"} if compiled and name == "torch" else {}
    run = m.compile(net, **mode) if compiled else net

    def step(x):
        with m.no_grad():
            return run(x)

    return step


def one(who, work):
    name, _, compiled = who.partition("-")
    kind, _, batch = work.partition("-")
    m = importlib.import_module(name)
    net, x = network(name, m).to("cuda"), m.randn(int(batch), 3, 224, 224, device="cuda")
    if kind != "nchw":
        net, x = net.to(memory_format=m.channels_last), x.to(memory_format=m.channels_last)
    if kind == "infer":
        net, x = net.half(), x.half()
    step = (inference if kind == "infer" else training)(name, m, compiled, net, x)
    begin = time.perf_counter()
    step(x).sum().item()
    first = time.perf_counter() - begin
    for _ in range(4):
        step(x)
    m.cuda.synchronize()
    took, inner = [], 100 if kind == "infer" else 4
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(inner):
            step(x)
        m.cuda.synchronize()
        took.append((time.perf_counter() - begin) / inner)
    s = statistics.median(took)
    print(f"{who:13s} {work:9s} {int(batch) / s:10,.0f} images/s {s * 1e3:8.2f} ms   first {first:.1f} s   "
          f"{m.cuda.max_memory_allocated() / 2**30:5.1f} GiB", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], sys.argv[3])
    else:
        for _ in range(int(sys.argv[2]) if sys.argv[2:] else 1):
            for framework in sys.argv[3:] or ("cairn", "cairn-compile", "torch"):
                subprocess.run([sys.executable, __file__, "--one", framework, sys.argv[1]], check=False)
