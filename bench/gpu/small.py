#!/usr/bin/env python3
"""A small network's training step (64-32-10, batch 32), where the host's overhead is all there is: cairn eager, compiled
(one CUDA graph) and PyTorch eager and as a CUDA graph by hand, timed in turn in one process.

usage: bench/gpu/small.py [ROUNDS]
Needs a build with the CUDA plugin on PYTHONPATH (build/*/python), and torch with CUDA. Prints steps a second, the median
of ROUNDS (5), and that losses agree where both frameworks begin with the same weights.
"""
import statistics
import sys
import time

import cairn
import torch


def begin(m, optimiser, start):
    nn = m.nn
    net = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).to("cuda")
    with m.no_grad():
        for p, value in zip(net.parameters(), start):
            p.copy_(m.tensor(value, device="cuda"))
    opt = getattr(m.optim, optimiser)(net.parameters(), lr=0.01, **(
        {"capturable": True} if m is torch and optimiser == "Adam" else {}))

    def step(x, y):
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    return step


def graphed(x, y, start, optimiser):
    """PyTorch's whole step in one CUDA graph, by hand: the least overhead it can have."""
    step = begin(torch, optimiser, start)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            step(x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(x, y)

    def replay(x, y):
        graph.replay()
        return loss

    return replay


def rate(m, step, x, y, inner=300):
    for _ in range(20):
        step(x, y)
    m.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(inner):
        step(x, y)
    m.cuda.synchronize()
    return inner / (time.perf_counter() - start)


def main():
    rounds = int(sys.argv[1]) if sys.argv[1:] else 5
    torch.manual_seed(1)
    first = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    start = [p.tolist() for p in first.parameters()]
    a, b = torch.randn(32, 64).tolist(), torch.randint(0, 10, (32,)).tolist()
    data = {m: (m.tensor(a, device="cuda"), m.tensor(b, device="cuda")) for m in (cairn, torch)}
    for optimiser in ("SGD", "Adam"):
        steps = {
            "cairn": (cairn, begin(cairn, optimiser, start)),
            "cairn-compile": (cairn, cairn.compile(begin(cairn, optimiser, start))),
            "torch": (torch, begin(torch, optimiser, start)),
            "torch-cudagraph": (torch, graphed(*data[torch], start, optimiser)),
        }
        losses = {who: [step(*data[m]).item() for _ in range(10)] for who, (m, step) in steps.items()}
        assert losses["cairn"] == losses["cairn-compile"], losses
        assert max(abs(x - y) for x, y in zip(losses["cairn"], losses["torch"])) < 1e-4, losses
        found = {who: [] for who in steps}
        for _ in range(rounds):
            for who, (m, step) in steps.items():
                found[who].append(rate(m, step, *data[m]))
        for who, all_of in found.items():
            print(f"small step, {optimiser:4s} {who:16s} {statistics.median(all_of):10,.0f} steps/s", flush=True)


if __name__ == "__main__":
    main()
