#!/usr/bin/env python3
"""GPT-2 124M on one GPU: cairn beside PyTorch, eager and compiled, each in processes of its own, in turn.

usage: bench/gpu/gpt.py [BATCH [ROUNDS [WHO...]]]
BATCH: sequences of 1024 tokens in a batch (32); ROUNDS: how often each runs (2); WHO: cairn, cairn-compile, torch,
torch-compile, torch-autotune (the first three). cairn-compile is the whole step as one graph, torch-compile what its users
do: the network compiled, the rest as it is; torch-autotune the same with mode="max-autotune", which takes minutes.
Needs a build with the CUDA plugin on PYTHONPATH (build/*/python), and torch with CUDA. The model and its step are those
of PyTorch's users: bfloat16 autocast, float32 weights, AdamW (PyTorch's fused one). Prints tokens a second,
milliseconds a step (the median of three runs of five), how long the host takes to queue a step, memory and the first step.
"""
import importlib
import statistics
import subprocess
import sys
import time

MODES = {"compile": None, "autotune": "max-autotune"}  # of torch.compile; resnet.py has them, too


def train(who, batch):
    name, _, compiled = who.partition("-")
    m = importlib.import_module(name)
    nn, F = m.nn, m.nn.functional

    class Block(nn.Module):
        def __init__(self, dim, heads):
            super().__init__()
            self.heads = heads
            self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
            self.fc, self.out = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.qkv(self.ln1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
            return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self, vocab=50304, context=1024, dim=768, heads=12, layers=12):
            super().__init__()
            self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
            self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(layers)])
            self.ln = nn.LayerNorm(dim)
            self.head = nn.Linear(dim, vocab, bias=False)
            self.head.weight = self.wte.weight

        def forward(self, x, y):
            h = self.wte(x) + self.wpe.weight[: x.shape[1]]
            for b in self.blocks:
                h = b(h)
            logits = self.head(self.ln(h))
            return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.view(-1))

    m.manual_seed(1)
    net = GPT().to("cuda")
    for p in net.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)
    opt = m.optim.AdamW(net.parameters(), lr=3e-4, **({"fused": True} if name == "torch" else {}))
    x, y = (m.randint(0, 50257, (batch, 1024), device="cuda") for _ in range(2))

    model = m.compile(net, mode=MODES[compiled]) if compiled and name == "torch" else net

    def step(x, y):
        with m.autocast("cuda", dtype=m.bfloat16):
            loss = model(x, y)
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss.detach()

    if compiled and name == "cairn":
        step = m.compile(step)

    begin = time.perf_counter()
    step(x, y).item()
    first = time.perf_counter() - begin
    for _ in range(3):
        step(x, y)
    m.cuda.synchronize()
    begin = time.perf_counter()
    step(x, y)
    host = time.perf_counter() - begin
    m.cuda.synchronize()
    took = []
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(5):
            loss = step(x, y)
        m.cuda.synchronize()
        took.append((time.perf_counter() - begin) / 5)
    s = statistics.median(took)
    print(f"{who:13s} {batch * 1024 / s:10,.0f} tokens/s {s * 1e3:8.2f} ms   host {host * 1e3:6.2f} ms   "
          f"{m.cuda.max_memory_allocated() / 2**30:5.1f} GiB   first step {first:.1f} s   loss {loss.item():.4f}",
          flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        train(sys.argv[2], int(sys.argv[3]))
    else:
        size, rounds = (sys.argv[1:3] + ["32", "2"][len(sys.argv[1:3]):])[:2]
        for _ in range(int(rounds)):
            for framework in sys.argv[3:] or ("cairn", "cairn-compile", "torch"):
                subprocess.run([sys.executable, __file__, "--one", framework, size], check=False)
