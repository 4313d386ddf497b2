#!/usr/bin/env python3
"""An LSTM on one GPU (512 to 1024, two layers, 128 steps, batch 64, float16 autocast, Adam): cairn beside PyTorch, eager
and compiled, each in processes of its own, in turn.

usage: bench/gpu/lstm.py [ROUNDS [WHO...]]
ROUNDS: how often each runs (1). WHO: cairn, cairn-compile, torch (all three). PyTorch's LSTM is one cuDNN call each way,
which torch.compile leaves as it is.
Needs a build with the CUDA plugin on PYTHONPATH (build/*/python), and torch with CUDA. Prints tokens a second (the median
of three runs of five steps), the first step and memory.
"""
import importlib
import statistics
import subprocess
import sys
import time


def train(who):
    name, _, compiled = who.partition("-")
    m = importlib.import_module(name)
    m.manual_seed(1)
    net = m.nn.LSTM(512, 1024, num_layers=2, batch_first=True).to("cuda")
    opt = m.optim.Adam(net.parameters(), **({"fused": True} if name == "torch" else {}))
    x = m.randn(64, 128, 512, device="cuda")

    def step(x):
        with m.autocast("cuda", dtype=m.float16):
            out, _ = net(x)
        loss = out.float().square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss.detach()

    if compiled:
        step = m.compile(step)
    begin = time.perf_counter()
    step(x).item()
    first = time.perf_counter() - begin
    for _ in range(3):
        step(x)
    m.cuda.synchronize()
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(5):
            loss = step(x)
        m.cuda.synchronize()
        took.append((time.perf_counter() - begin) / 5)
    s = statistics.median(took)
    print(f"{who:13s} {64 * 128 / s:10,.0f} tokens/s {s * 1e3:8.2f} ms   first step {first:.1f} s   "
          f"{m.cuda.max_memory_allocated() / 2**30:5.1f} GiB   loss {loss.item():.5f}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        train(sys.argv[2])
    else:
        for _ in range(int(sys.argv[1]) if sys.argv[1:] else 1):
            for framework in sys.argv[2:] or ("cairn", "cairn-compile", "torch"):
                subprocess.run([sys.executable, __file__, "--one", framework], check=False)
