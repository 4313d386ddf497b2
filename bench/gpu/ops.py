#!/usr/bin/env python3
"""Single ops on one GPU: cairn beside PyTorch in one run, each timed twice in turn.

usage: bench/gpu/ops.py [NAME...]      NAME: only works whose name contains it
Needs a build with the CUDA plugin on PYTHONPATH (build/*/python), and torch with CUDA. Prints a line for each work:
cairn's figure, PyTorch's, the ratio. Figures: GB/s (bytes that must be moved), TFLOP/s, or microseconds a call.
"""
import math
import statistics
import sys
import time

import cairn
import torch

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.benchmark = True


def seconds(step, wait, inner):
    for _ in range(3):
        step()
    wait()
    runs = []
    for _ in range(5):
        time.sleep(0.02)
        begin = time.perf_counter()
        for _ in range(inner):
            step()
        wait()
        runs.append((time.perf_counter() - begin) / inner)
    return statistics.median(runs)


def both(name, make, amount, unit, inner=10):
    """make(module, device): a function of no arguments. amount: bytes or operations of one call; 0: time it."""
    if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
        return
    best = {}
    for _ in range(2):
        for module in (cairn, torch):
            try:
                step = make(module)
                took = seconds(step, module.cuda.synchronize, inner)
            except Exception as error:
                print(f"{name:34s} {module.__name__}: {type(error).__name__}: {str(error)[:160]}", flush=True)
                took = math.inf
            best[module] = min(took, best.get(module, math.inf))
            step = None
    value = {m: (amount / t if amount else t * 1e6) for m, t in best.items()}
    scale = {"GB/s": 1e-9, "TF": 1e-12, "us": 1}[unit]
    ours, theirs = value[cairn] * scale, value[torch] * scale
    ratio = (ours / theirs if amount else theirs / ours) if theirs and ours else 0
    print(f"{name:34s} {ours:10.1f} {theirs:10.1f} {unit:5s} {ratio:6.2f}x", flush=True)


def randn(m, *shape, dtype="bfloat16"):
    return m.randn(*shape, device="cuda", dtype=getattr(m, dtype))


def graph(m, *shape, dtype="bfloat16"):
    x = randn(m, *shape, dtype=dtype)
    x.requires_grad_(True)
    return x


def backward_of(m, fn, *leaves):
    """A step that runs backward of fn(leaves) alone."""
    y = fn(*leaves)
    g = m.ones_like(y)
    return lambda: m.autograd.grad([y], list(leaves), [g], retain_graph=True)


def main():
    F = lambda m: m.nn.functional
    n = 256 << 20

    def unary(fn, dtype="bfloat16", size=n):
        def make(m):
            x = randn(m, size, dtype=dtype)
            return lambda: fn(m, x)
        return make

    both("add bf16 256M", lambda m: (lambda x, y: lambda: x + y)(randn(m, n), randn(m, n)), 6 * n, "GB/s")
    both("gelu bf16 256M", unary(lambda m, x: F(m).gelu(x)), 4 * n, "GB/s")
    both("sum bf16 256M", unary(lambda m, x: x.sum()), 2 * n, "GB/s")
    both("cast f32 to bf16 256M", unary(lambda m, x: x.to(m.bfloat16), "float32"), 6 * n, "GB/s")
    rows, cols = 32768, 4096
    matrix = lambda m: randn(m, rows, cols)
    size = rows * cols * 2
    both("sum of rows 32768x4096", lambda m: (lambda x: lambda: x.sum(1))(matrix(m)), size, "GB/s")
    both("sum of columns", lambda m: (lambda x: lambda: x.sum(0))(matrix(m)), size, "GB/s")
    both("var of rows", lambda m: (lambda x: lambda: x.var(1))(matrix(m)), size, "GB/s")
    both("argmax of rows", lambda m: (lambda x: lambda: x.argmax(1))(matrix(m)), size, "GB/s")
    both("transpose copy", lambda m: (lambda x: lambda: x.t().contiguous())(matrix(m)), 2 * size, "GB/s")
    both("softmax 32768x4096", lambda m: (lambda x: lambda: F(m).softmax(x, -1))(matrix(m)), 2 * size, "GB/s")
    both("softmax 32768x768", lambda m: (lambda x: lambda: F(m).softmax(x, -1))(randn(m, rows, 768)), rows * 768 * 4, "GB/s")
    both("softmax 4096x50304", lambda m: (lambda x: lambda: F(m).softmax(x, -1))(randn(m, 4096, 50304)), 4096 * 50304 * 4, "GB/s")
    both("softmax 32768x4095 (odd)", lambda m: (lambda x: lambda: F(m).softmax(x, -1))(randn(m, rows, 4095)), rows * 4095 * 4, "GB/s")
    both("softmax backward", lambda m: backward_of(m, lambda x: F(m).softmax(x, -1), graph(m, rows, cols)), 3 * size, "GB/s")
    for width in (768, 4096):
        def norm(m, width=width):
            x, w, b = graph(m, rows, width), graph(m, width), graph(m, width)
            return x, (lambda x, w, b: F(m).layer_norm(x, (width,), w, b)), w, b
        def forward(m):
            x, fn, w, b = norm(m)
            with_no = m.no_grad
            def step():
                with with_no():
                    fn(x, w, b)
            return step
        both(f"layer_norm 32768x{width}", forward, rows * width * 4, "GB/s")
        both(f"layer_norm backward x{width}", lambda m: (lambda t: backward_of(m, t[1], t[0], t[2], t[3]))(norm(m)), rows * width * 6, "GB/s")
    classes = 50304

    def loss(m):
        x = graph(m, 8192, classes)
        y = m.randint(0, classes, (8192,), device="cuda")
        return x, y
    both("cross_entropy 8192x50304", lambda m: (lambda t: lambda: F(m).cross_entropy(t[0].detach(), t[1]))(loss(m)), 8192 * classes * 2, "GB/s")
    both("cross_entropy backward", lambda m: (lambda t: backward_of(m, lambda x: F(m).cross_entropy(x, t[1]), t[0]))(loss(m)), 8192 * classes * 4, "GB/s")

    def embedding(m):
        w = graph(m, 50304, 768)
        i = m.randint(0, 50304, (32, 1024), device="cuda")
        return w, i
    both("embedding 32768 of 50304x768", lambda m: (lambda t: lambda: F(m).embedding(t[1], t[0].detach()))(embedding(m)), 32768 * 768 * 4, "GB/s")
    both("embedding backward", lambda m: (lambda t: backward_of(m, lambda w: F(m).embedding(t[1], w), t[0]))(embedding(m)), 32768 * 768 * 2 + 50304 * 768 * 2, "GB/s")
    both("cumsum 1024x65536 f32", lambda m: (lambda x: lambda: x.cumsum(1))(randn(m, 1024, 65536, dtype="float32")), 1024 * 65536 * 8, "GB/s")
    both("sort 16M f32", lambda m: (lambda x: lambda: m.sort(x))(randn(m, 16 << 20, dtype="float32")), 0, "us", 3)
    both("topk 50 of 4096x50304", lambda m: (lambda x: lambda: m.topk(x, 50))(randn(m, 4096, 50304)), 4096 * 50304 * 2, "GB/s", 3)
    both("randn f32 64M", lambda m: lambda: m.randn(64 << 20, device="cuda"), (64 << 20) * 4, "GB/s")
    both("dropout bf16 64M", unary(lambda m, x: F(m).dropout(x, 0.1, True), size=64 << 20), (64 << 20) * 5, "GB/s")
    for k in (4096, 8192):
        both(f"mm {k} bf16", lambda m, k=k: (lambda a, b: lambda: m.mm(a, b))(randn(m, k, k), randn(m, k, k)), 2 * k ** 3, "TF")
    both("mm 4096 f32", lambda m: (lambda a: lambda: m.mm(a, a))(randn(m, 4096, 4096, dtype="float32")), 2 * 4096 ** 3, "TF", 3)
    both("linear 32768x768x3072", lambda m: (lambda x, w, b: lambda: F(m).linear(x, w, b))(randn(m, rows, 768), randn(m, 3072, 768), randn(m, 3072)), 2 * rows * 768 * 3072, "TF")
    for b, h, t, d in ((32, 12, 1024, 64), (4, 16, 4096, 128)):
        flops = 2 * b * h * t * t * d
        def qkv(m):
            return [graph(m, b, h, t, d) for _ in range(3)]
        attend = lambda m: lambda q, k, v: F(m).scaled_dot_product_attention(q, k, v, is_causal=True)
        both(f"attention T{t} D{d}", lambda m: (lambda x: lambda: attend(m)(*x))([z.detach() for z in qkv(m)]), flops, "TF")
        both(f"attention backward T{t} D{d}", lambda m: backward_of(m, attend(m), *qkv(m)), 2.5 * flops, "TF")

    def conv(m):
        x, w = graph(m, 64, 256, 56, 56), graph(m, 256, 256, 3, 3)
        return x, w
    flops = 2 * 64 * 56 * 56 * 256 * 256 * 9
    both("conv 3x3 256 56x56 nchw", lambda m: (lambda t: lambda: F(m).conv2d(t[0].detach(), t[1].detach(), padding=1))(conv(m)), flops, "TF", 5)
    last = lambda m, x: x.detach().to(memory_format=m.channels_last).requires_grad_(True)
    both("conv channels_last", lambda m: (lambda t: lambda: F(m).conv2d(last(m, t[0]), last(m, t[1]), padding=1))(conv(m)), flops, "TF", 5)
    both("conv backward channels_last", lambda m: (lambda t: backward_of(m, lambda x, w: F(m).conv2d(x, w, padding=1), last(m, t[0]), last(m, t[1])))(conv(m)), 2 * flops, "TF", 5)
    both("batch_norm 256x256x56x56", lambda m: (lambda x, w: lambda: F(m).batch_norm(x, None, None, w, w, True))(randn(m, 256, 256, 56, 56), m.ones(256, device="cuda")), 256 * 256 * 56 * 56 * 6, "GB/s")
    both("max_pool 2x2", lambda m: (lambda x: lambda: F(m).max_pool2d(x, 2))(randn(m, 64, 256, 56, 56)), 64 * 256 * 56 * 56 * 2.5, "GB/s")
    both("add of 16", lambda m: (lambda x: lambda: x + x)(randn(m, 16)), 0, "us", 200)


main()
