#!/usr/bin/env python3
"""Low precision beside PyTorch's, on one device: cairn may round as much as PyTorch does, and half as much again.

usage: tests/conformance/low_precision.py [--device cuda] [gradients | curves]      (neither: both)
Needs torch, and the built package on PYTHONPATH (build/*/python); no network. Under a minute on a GPU.

gradients: a small transformer under bfloat16 autocast, once for each form that a mask can have. The error of each
           parameter's gradient, against PyTorch's in float64, is at most 1.5 times that of PyTorch's under autocast,
           or of a rounding to bfloat16 where PyTorch's is less.
curves:    100 steps of AdamW of a small GPT under bfloat16 autocast, eager and compiled. Losses are as far from
           PyTorch's in float32 as PyTorch's own under autocast are, times 1.5 at most.

Prints a line for each case and "N passed, N failed" at the end; exits with 1 where one failed.
"""
import argparse
import sys

import cairn
import torch

MOST, ROUNDING = 1.5, 2.0 ** -9
B, T, H, D, VOCAB = 4, 128, 4, 64, 96
WIDTH = H * D
STEPS = 100


# ---- one network, for both packages ----

def network(m, layers=2, keys=H):
    """A decoder of `layers` whose attention has `keys` heads of keys; forward(ids, mask, options, memory)."""
    nn, F = m.nn, m.nn.functional

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            # no bias of keys: its gradient is zero but for rounding
            self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * keys * D, bias=False)
            self.out, self.up, self.down = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 512), nn.Linear(512, WIDTH)

        def forward(self, x, mask, options, memory):
            h = self.n1(x)
            other = h if memory is None else memory
            q = self.q(h).view(B, -1, H, D).transpose(1, 2)
            k, v = self.kv(other).view(B, -1, 2, keys, D).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=keys != H, **options)
            x = x + self.out(y.transpose(1, 2).reshape(B, -1, WIDTH))
            return x + self.down(F.gelu(self.up(self.n2(x))))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tok, self.pos = nn.Embedding(VOCAB, WIDTH), nn.Embedding(T, WIDTH)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

        def forward(self, ids, mask=None, options=None, memory=None):
            x = self.tok(ids) + self.pos.weight
            for layer in self.layers:
                x = layer(x, mask, options or {}, memory)
            return self.head(self.norm(x)).flatten(0, 1)
    return Net()


def weights(net):
    """Names and values to begin with, the same for all: what a seed draws in PyTorch, in float32."""
    torch.manual_seed(1)
    return {name: torch.randn(tuple(p.shape)) * (0.02 if p.dim() > 1 else 0.1) + (p.dim() == 1 and "weight" in name)
            for name, p in net.named_parameters()}


def load(m, net, values, device, dtype):
    net.to(device, dtype)
    for name, p in net.named_parameters():
        p.data.copy_(given(m, values[name], device, dtype))
    return net


def given(m, value, device, dtype=None):
    """A copy of a tensor of PyTorch on the CPU as one of m on the device; floats of that type."""
    value = value.clone(memory_format=torch.contiguous_format)
    moved = value if m is torch else cairn.from_dlpack(value)
    return moved.to(device, dtype) if dtype is not None and value.is_floating_point() else moved.to(device)


def plain(x):
    """A tensor of either package in float64, PyTorch's, on the CPU."""
    x = x.detach().cpu().double()
    return x if isinstance(x, torch.Tensor) else torch.from_dlpack(x.contiguous())


def autocast(m, device, dtype):
    return m.autocast(device, m.bfloat16, enabled=dtype is None)


# ---- gradients ----

def forms():
    """Name, mask (on the CPU, PyTorch's) or None, options of attention, heads of keys, length of the memory or None."""
    torch.manual_seed(2)
    seen = torch.rand(B, 1, T, T) > 0.2
    lengths = torch.arange(T) < torch.tensor([T, T // 2, 17, T - 1])[:, None]
    yield "no mask", None, {}, H, None
    yield "causal", None, {"is_causal": True}, H, None
    yield "causal, scale", None, {"is_causal": True, "scale": 0.2}, H, None
    yield "causal, grouped queries", None, {"is_causal": True}, 2, None
    yield "bool (T, T)", torch.ones(T, T, dtype=torch.bool).tril(), {}, H, None
    yield "bool (B, 1, 1, T)", lengths[:, None, None, :], {}, H, None
    yield "bool (B, 1, T, T)", seen, {}, H, None
    yield "bool (B, H, T, T), grouped", seen.expand(B, H, T, T), {}, 2, None
    yield "bias (T, T)", torch.randn(T, T), {}, H, None
    yield "bias (1, H, T, T)", torch.randn(1, H, T, T), {}, H, None
    yield "bias (1, H, T, T) that learns", torch.randn(1, H, T, T), {}, H, None
    yield "bias (B, H, T, T)", torch.randn(B, H, T, T), {}, H, None
    infinite = torch.zeros(B, 1, 1, T).masked_fill(~lengths[:, None, None], -torch.inf)
    yield "bias (B, 1, 1, T), infinite", infinite, {}, H, None
    yield "Tq != Tk", None, {}, H, 77
    yield "Tq != Tk, bool (B, 1, 1, Tk)", lengths[:, None, None, :77], {}, H, 77


def gradients_of(m, device, dtype, values, form, ids, labels):
    """The gradients of all parameters by name; dtype None: float32 under autocast."""
    name, mask, options, keys, length = form
    net = load(m, network(m, keys=keys), values, device, dtype or m.float32)
    if mask is not None:
        mask = given(m, mask, device, dtype or m.float32).requires_grad_("learns" in name)
    memory = None
    if length:
        torch.manual_seed(3)
        memory = given(m, torch.randn(B, length, WIDTH), device, dtype or m.float32)
    with autocast(m, device, dtype):
        scores = net(given(m, ids, device), mask, options, memory)
        loss = m.nn.functional.cross_entropy(scores, given(m, labels, device))
    loss.backward()
    leaves = [*net.named_parameters(), *([("mask", mask)] if "learns" in name else [])]
    return {name: plain(p.grad) for name, p in leaves}


def errors(have, want):
    return {name: ((have[name] - w).norm() / w.norm()).item() for name, w in want.items()}


def gradients(device):
    torch.manual_seed(4)
    ids, labels = torch.randint(0, VOCAB, (B, T)), torch.randint(0, VOCAB, (B * T,))
    for form in forms():
        values = weights(network(torch, keys=form[3]))
        want = gradients_of(torch, device, torch.float64, values, form, ids, labels)
        theirs = errors(gradients_of(torch, device, None, values, form, ids, labels), want)
        ours = errors(gradients_of(cairn, device, None, values, form, ids, labels), want)
        ratio = {name: ours[name] / max(theirs[name], ROUNDING) for name in ours}
        worst = max(ratio, key=lambda name: ratio[name] if ratio[name] == ratio[name] else torch.inf)
        yield (f"gradients, {form[0]:30s} worst {ratio[worst]:.2f} of PyTorch's error ({worst}: {ours[worst]:.1e}, "
               f"{theirs[worst]:.1e})", ratio[worst] <= MOST)


# ---- curves ----

def losses_of(m, device, dtype, values, batches, compiled=False):
    net = load(m, network(m), values, device, m.float32)
    opt = m.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)

    def step(ids, labels):
        opt.zero_grad()
        with autocast(m, device, dtype):
            loss = m.nn.functional.cross_entropy(net(ids, None, {"is_causal": True}), labels)
        loss.backward()
        opt.step()
        return loss.detach()
    run = m.compile(step) if compiled else step
    made = [run(given(m, x, device), given(m, y, device)) for x, y in batches]
    return torch.stack([plain(loss) for loss in made])


def text():
    """Batches of a text that can be learned: each letter follows from the two before, but for one in ten."""
    torch.manual_seed(5)
    for _ in range(STEPS):
        ids = torch.randint(0, VOCAB, (B, T + 1))
        chance = torch.rand(B, T + 1) < 0.1
        for t in range(2, T + 1):
            follows = (3 * ids[:, t - 1] + 7 * ids[:, t - 2] + 1) % 12
            ids[:, t] = torch.where(chance[:, t], ids[:, t] % 12, follows)
        yield ids[:, :-1].contiguous(), ids[:, 1:].reshape(-1).contiguous()


def curves(device):
    batches, values = list(text()), weights(network(torch))
    want = losses_of(torch, device, torch.float32, values, batches)
    theirs = (losses_of(torch, device, None, values, batches) - want).abs().mean().item()
    for name, dtype, compiled in (("float32", cairn.float32, False), ("bfloat16", None, False),
                                  ("bfloat16, compiled", None, True)):
        ours = losses_of(cairn, device, dtype, values, batches, compiled)
        off = (ours - want).abs().mean().item()
        yield (f"curves, {name:20s} {off:.1e} from PyTorch's in float32 on average, PyTorch's under autocast "
               f"{theirs:.1e}; from {ours[0]:.3f} to {ours[-5:].mean():.3f}, {want[-5:].mean():.3f}",
               off <= MOST * theirs and ours[-5:].mean() < 0.8 * ours[0])


def main():
    parser = argparse.ArgumentParser(description="Low precision beside PyTorch's.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("parts", nargs="*", choices=("gradients", "curves", []))
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    counts = [0, 0]
    for part in options.parts or ("gradients", "curves"):
        for line, passed in globals()[part](options.device):
            print("ok   " if passed else "FAIL ", line, flush=True)
            counts[not passed] += 1
    print("%d passed, %d failed" % tuple(counts))
    sys.exit(counts[1] > 0)


if __name__ == "__main__":
    main()
