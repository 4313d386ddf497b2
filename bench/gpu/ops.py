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


LEAST = 4e-3  # seconds of a run: what waking the device takes counts for little then


def seconds(step, wait, inner):
    for _ in range(3):
        step()
    wait()
    begin = time.perf_counter()
    step()
    wait()
    inner = max(inner, math.ceil(LEAST / (time.perf_counter() - begin)))
    runs = []
    for _ in range(5):
        time.sleep(0.02)
        begin = time.perf_counter()
        for _ in range(inner):
            step()
        wait()
        runs.append((time.perf_counter() - begin) / inner)
    return statistics.median(runs)


def compiled(make):
    """make(torch), compiled by it; that happens before anything is timed."""
    return lambda m: m.compile(make(m), dynamic=False)


def both(name, make, amount, unit, inner=10, peers=()):
    """make(module): a function of no arguments. amount: bytes or operations of one call; 0: time it. peers: what else
    makes PyTorch's; its figure is the best of them."""
    if sys.argv[1:] and not any(word in name for word in sys.argv[1:]):
        return
    best = {}
    for _ in range(2):
        for module, made in ((cairn, make), (torch, make), *((torch, peer) for peer in peers)):
            try:
                if made is not make:
                    torch._dynamo.reset()  # works share code, of which it compiles a few shapes only
                step = made(module)
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


def F(m):
    return m.nn.functional


def unary(fn, *shape, dtype="bfloat16"):
    def make(m):
        x = randn(m, *shape, dtype=dtype)
        return lambda: fn(m, x)
    return make


def without_gradient(m, fn):
    def step():
        with m.no_grad():
            fn()
    return step


def either(name, make, *rest):
    """both(), where PyTorch may compile it."""
    both(name, make, *rest, peers=(compiled(make),))


def memory_bound():
    n, rows, cols = 256 << 20, 32768, 4096
    size = rows * cols * 2
    both("add bf16 256M", lambda m: (lambda x, y: lambda: x + y)(randn(m, n), randn(m, n)), 6 * n, "GB/s")
    both("gelu bf16 256M", unary(lambda m, x: F(m).gelu(x), n), 4 * n, "GB/s")
    for dtype, width in (("bfloat16", 2), ("float32", 4)):
        def chain(m, dtype=dtype):
            x = randn(m, n, dtype=dtype)
            run = m.compile(lambda x: F(m).gelu(1.5 * x + 0.25) * m.sigmoid(x))
            return lambda: run(x)
        both(f"gelu(a x + b) sigmoid(x), compiled, {dtype} 256M", chain, 2 * width * n, "GB/s")
    either("sum bf16 256M", unary(lambda m, x: x.sum(), n), 2 * n, "GB/s")
    both("cast f32 to bf16 256M", unary(lambda m, x: x.to(m.bfloat16), n, dtype="float32"), 6 * n, "GB/s")
    either("sum of rows 32768x4096", unary(lambda m, x: x.sum(1), rows, cols), size, "GB/s")
    either("sum of columns", unary(lambda m, x: x.sum(0), rows, cols), size, "GB/s")
    either("sum of 2304 columns", unary(lambda m, x: x.sum(0), rows, 2304), rows * 2304 * 2, "GB/s")
    either("var of rows", unary(lambda m, x: x.var(1), rows, cols), size, "GB/s")
    either("argmax of rows", unary(lambda m, x: x.argmax(1), rows, cols), size, "GB/s")
    either("transpose copy", unary(lambda m, x: x.t().contiguous(), rows, cols), 2 * size, "GB/s")
    for r, c in ((rows, cols), (rows, 768), (4096, 50304), (rows, 4095)):
        both(f"softmax {r}x{c}", unary(lambda m, x: F(m).softmax(x, -1), r, c), r * c * 4, "GB/s")
    both("softmax backward", lambda m: backward_of(m, lambda x: F(m).softmax(x, -1), graph(m, rows, cols)),
         3 * size, "GB/s")
    both("cumsum 1024x65536 f32", unary(lambda m, x: x.cumsum(1), 1024, 65536, dtype="float32"), 1 << 29, "GB/s")
    both("sort 16M f32", unary(lambda m, x: m.sort(x), 16 << 20, dtype="float32"), 0, "us", 3)
    both("topk 50 of 4096x50304", unary(lambda m, x: m.topk(x, 50), 4096, 50304), 4096 * 50304 * 2, "GB/s", 3)
    both("randn f32 64M", lambda m: lambda: m.randn(64 << 20, device="cuda"), (64 << 20) * 4, "GB/s")
    both("dropout bf16 64M", unary(lambda m, x: F(m).dropout(x, 0.1, True), 64 << 20), (64 << 20) * 5, "GB/s")
    both("max_pool 2x2", unary(lambda m, x: F(m).max_pool2d(x, 2), 64, 256, 56, 56), 64 * 256 * 56 * 56 * 2.5, "GB/s")

    def image(m):
        return randn(m, 256, 64, 112, 112).to(memory_format=m.channels_last).requires_grad_(True)
    size = 256 * 64 * 112 * 112 * 2  # the results have a quarter of it, the indices that are kept as many bytes as it
    both("max_pool 3x3/2 channels_last", lambda m: (lambda x: lambda: F(m).max_pool2d(x, 3, 2, 1))(image(m)),
         2.25 * size, "GB/s")
    both("max_pool backward channels_last", lambda m: backward_of(m, lambda x: F(m).max_pool2d(x, 3, 2, 1), image(m)),
         2.25 * size, "GB/s")


def rows_of(n):
    """Rows of n elements, 128 million of them: of a part of a warp, a warp or a block, odd ones and long ones."""
    r = (1 << 27) // n

    def norm(m, kind):
        if kind == "layer_norm":
            return lambda x, w, b: F(m).layer_norm(x, (n,), w, b)
        return lambda x, w: F(m).rms_norm(x, (n,), w)

    def loss(m):
        y = m.randint(0, n, (r,), device="cuda")
        return lambda x: F(m).cross_entropy(x, y)
    for kind in ("softmax", "log_softmax"):
        def apply(m, x, kind=kind):
            return getattr(F(m), kind)(x, -1)
        both(f"{kind} of {n}", unary(apply, r, n), 4 * r * n, "GB/s")
        both(f"{kind} backward of {n}", lambda m: backward_of(m, lambda x: apply(m, x), graph(m, r, n)), 6 * r * n,
             "GB/s")
    for kind, weights in (("layer_norm", 2), ("rms_norm", 1)):
        def leaves(m, weights=weights):
            return [graph(m, r, n)] + [graph(m, n) for _ in range(weights)]
        both(f"{kind} of {n}",
             lambda m: (lambda f, t: without_gradient(m, lambda: f(*t)))(norm(m, kind), leaves(m)), 4 * r * n, "GB/s")
        both(f"{kind} backward of {n}", lambda m: backward_of(m, norm(m, kind), *leaves(m)), 6 * r * n, "GB/s")
    both(f"cross_entropy of {n}", lambda m: (lambda f, x: lambda: f(x))(loss(m), randn(m, r, n)), r * (2 * n + 8),
         "GB/s")
    both(f"cross_entropy backward of {n}", lambda m: backward_of(m, loss(m), graph(m, r, n)), r * (4 * n + 12), "GB/s")


def group_norms():
    for b, c, side in ((128, 64, 128), (256, 256, 45)):
        def leaves(m):
            return graph(m, b, c, side, side), graph(m, c), graph(m, c)

        def norm(m):
            return lambda x, w, bias: F(m).group_norm(x, 32, w, bias)
        size = b * c * side * side
        both(f"group_norm {c}x{side}x{side}", lambda m: (lambda t: without_gradient(m, lambda: norm(m)(*t)))(leaves(m)),
             4 * size, "GB/s")
        both(f"group_norm backward {c}x{side}x{side}", lambda m: backward_of(m, norm(m), *leaves(m)), 6 * size, "GB/s")


def layers():
    rows, classes = 32768, 50304
    for width in (768, 4096):
        def leaves(m):
            return graph(m, rows, width), graph(m, width), graph(m, width)

        def norm(m):
            return lambda x, w, b: F(m).layer_norm(x, (width,), w, b)
        both(f"layer_norm 32768x{width}", lambda m: (lambda t: without_gradient(m, lambda: norm(m)(*t)))(leaves(m)),
             rows * width * 4, "GB/s")
        both(f"layer_norm backward x{width}", lambda m: backward_of(m, norm(m), *leaves(m)), rows * width * 6, "GB/s")

    def loss(m):
        y = m.randint(0, classes, (8192,), device="cuda")
        return lambda x: F(m).cross_entropy(x, y)
    both("cross_entropy 8192x50304", lambda m: (lambda f, x: lambda: f(x))(loss(m), randn(m, 8192, classes)),
         8192 * classes * 2, "GB/s")
    both("cross_entropy backward", lambda m: backward_of(m, loss(m), graph(m, 8192, classes)), 8192 * classes * 4,
         "GB/s")

    def lookup(m):
        i = m.randint(0, classes, (32, 1024), device="cuda")
        return lambda w: F(m).embedding(i, w)
    both("embedding 32768 of 50304x768", lambda m: (lambda f, w: lambda: f(w))(lookup(m), randn(m, classes, 768)),
         rows * 768 * 4, "GB/s")
    both("embedding backward", lambda m: backward_of(m, lookup(m), graph(m, classes, 768)), (rows + classes) * 768 * 2,
         "GB/s", peers=(lambda m: backward_of(m, m.compile(lookup(m), dynamic=False), graph(m, classes, 768)),))
    for width in (767, 50, 8):
        def select(m, width=width):
            w, i = randn(m, classes, width), m.randint(0, classes, (rows,), device="cuda")
            return lambda: w.index_select(0, i)
        both(f"index_select of {width}", select, rows * width * 4, "GB/s")

    def add_rows(m):
        w, i = randn(m, classes, 768, dtype="float32"), m.randint(0, classes, (rows,), device="cuda")
        more = randn(m, rows, 768, dtype="float32")
        return lambda: w.index_add_(0, i, more)
    both("index_add_ of 768 f32", add_rows, rows * 768 * 12, "GB/s")

    def batch_norm(m):
        x, w = randn(m, 256, 256, 56, 56), m.ones(256, device="cuda")
        return lambda: F(m).batch_norm(x, None, None, w, w, True)
    both("batch_norm 256x256x56x56", batch_norm, 256 * 256 * 56 * 56 * 6, "GB/s")


def updates():
    """A step of AdamW on GPT-2's 124M parameters in float32: each is read with its gradient and two states, three are
    written."""
    w = 768
    layer = [(w,), (w,), (3 * w, w), (3 * w,), (w, w), (w,), (w,), (w,), (4 * w, w), (4 * w,), (w, 4 * w), (w,)]
    shapes = [(50257, w), (1024, w), *layer * 12, (w,), (w,)]

    def optimiser(m, **options):
        params = [randn(m, *shape, dtype="float32").requires_grad_(True) for shape in shapes]
        for p in params:
            p.grad = m.full_like(p, 1e-3)
        return m.optim.AdamW(params, lr=1e-4, **options)

    def by_itself(m):
        return optimiser(m).step

    def fused(m):
        return optimiser(m, fused=True).step

    def as_compiled(m):
        return m.compile(optimiser(m).step)
    both("AdamW of 124M parameters", by_itself, 28 * sum(math.prod(s) for s in shapes), "GB/s",
         peers=(fused, as_compiled))


def attentions():
    """Forms of attention, in microseconds: masks, their gradients, dropout, heads that share keys, one query."""
    def form(name, shape, keys=None, mask=None, leaf=False, backward=True, **options):
        b, h, t, d = shape
        kh, s = keys or (h, t)

        def leaves(m):
            return [graph(m, b, h, t, d), graph(m, b, kh, s, d), graph(m, b, kh, s, d)]

        def attend(m, given):
            return lambda q, k, v, *rest: F(m).scaled_dot_product_attention(
                q, k, v, attn_mask=rest[0] if rest else given, enable_gqa=kh != h, **options)

        def forward(m):
            step, x = attend(m, mask(m) if mask else None), leaves(m)
            return without_gradient(m, lambda: step(*x))

        def gradient(m):
            given = mask(m) if mask else None
            more = [given.requires_grad_(True)] if leaf else []
            return backward_of(m, attend(m, given), *leaves(m), *more)
        both(f"attention, {name}", forward, 0, "us")
        if backward:
            both(f"attention, {name}, backward", gradient, 0, "us")
    shape = (8, 16, 1024, 64)
    form("bool (B,1,1,T)", shape, mask=lambda m: m.rand(8, 1, 1, 1024, device="cuda") > 0.2)
    form("bias (1,H,T,T)", shape, mask=lambda m: randn(m, 1, 16, 1024, 1024))
    form("bias (1,H,T,T) that learns", shape, mask=lambda m: randn(m, 1, 16, 1024, 1024), leaf=True)
    form("dropout, causal", shape, is_causal=True, dropout_p=0.1)
    form("32 heads of 8, causal", (4, 32, 2048, 128), keys=(8, 2048), is_causal=True)
    form("512 of 4096", (4, 16, 512, 128), keys=(16, 4096))
    for batch in (1, 16, 64):
        form(f"one query of 4096, 32 heads of 8, batch {batch}", (batch, 32, 1, 128), keys=(8, 4096), backward=False)


def products():
    for k in (4096, 8192):
        both(f"mm {k} bf16", unary(lambda m, x: m.mm(x, x), k, k), 2 * k ** 3, "TF")
    both("mm 4096 f32", unary(lambda m, x: m.mm(x, x), 4096, 4096, dtype="float32"), 2 * 4096 ** 3, "TF", 3)

    def of_8_bits(m):
        x = randn(m, 8192, 8192).to(m.float8_e4m3fn)
        one = m.ones([], device="cuda")
        return lambda: m._scaled_mm(x, x.t(), one, one, out_dtype=m.bfloat16, use_fast_accum=True)

    both("scaled_mm 8192 fp8", of_8_bits, 2 * 8192 ** 3, "TF")

    for groups, rows in ((16, 8192), (64, 512)):
        def experts(m):
            x, w = randn(m, rows, 2048), randn(m, groups, 2048, 4096)
            ends = m.arange(1, groups + 1, dtype=m.int32, device="cuda") * (rows // groups) - 3
            return lambda: m._grouped_mm(x, w, offs=ends)
        both(f"grouped_mm of {rows} rows by {groups} of 2048x4096", experts, 2 * rows * 2048 * 4096, "TF")

    def linear(m):
        x, w, b = randn(m, 32768, 768), randn(m, 3072, 768), randn(m, 3072)
        return lambda: F(m).linear(x, w, b)
    both("linear 32768x768x3072", linear, 2 * 32768 * 768 * 3072, "TF")
    for b, h, t, d in ((32, 12, 1024, 64), (4, 16, 4096, 128)):
        def heads(m):
            return [graph(m, b, h, t, d) for _ in range(3)]
        flops = 2 * b * h * t * t * d
        for dropout, what in ((0.0, ""), (0.1, " dropout")):
            def attend(m):
                return lambda q, k, v: F(m).scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
            both(f"attention{what} T{t} D{d}",
                 lambda m: (lambda x: without_gradient(m, lambda: attend(m)(*x)))(heads(m)), flops, "TF")
            both(f"attention{what} backward T{t} D{d}", lambda m: backward_of(m, attend(m), *heads(m)), 2.5 * flops,
                 "TF")
    attentions()
    flops = 2 * 64 * 56 * 56 * 256 * 256 * 9

    def image(m, last):
        made = [randn(m, 64, 256, 56, 56), randn(m, 256, 256, 3, 3)]
        if last:
            made = [x.to(memory_format=m.channels_last) for x in made]
        return [x.requires_grad_(True) for x in made]

    def conv(m):
        return lambda x, w: F(m).conv2d(x, w, padding=1)
    for last in (False, True):
        name = "channels_last" if last else "nchw"
        both(f"conv 3x3 256 {name}", lambda m: (lambda t: without_gradient(m, lambda: conv(m)(*t)))(image(m, last)),
             flops, "TF", 5)
        both(f"conv backward {name}", lambda m: backward_of(m, conv(m), *image(m, last)), 2 * flops, "TF", 5)
    flops = 2 * 256 * 112 * 112 * 64 * 3 * 7 * 7

    def first(m):
        x, w = (randn(m, *shape).to(memory_format=m.channels_last) for shape in ((256, 3, 224, 224), (64, 3, 7, 7)))
        return x, w.requires_grad_(True)

    def first_layer(m, x):
        return lambda w: F(m).conv2d(x, w, stride=2, padding=3)
    both("conv 7x7/2 of 3 channels",
         lambda m: (lambda x, w: without_gradient(m, lambda: first_layer(m, x)(w)))(*first(m)), flops, "TF")
    both("its filter's gradient", lambda m: (lambda x, w: backward_of(m, first_layer(m, x), w))(*first(m)), flops, "TF")

    def last_layer(m):
        x, w, b = randn(m, 1, 2048), randn(m, 1000, 2048), randn(m, 1000)
        return without_gradient(m, lambda: F(m).linear(x, w, b))
    both("linear 1x2048x1000", last_layer, 0, "us", 100)


def depthwise():
    """Convolutions whose filters see one channel, fp16: each image that is read or written counted once."""
    for n, c, size, k, stride in ((128, 32, 112, 3, 1), (128, 96, 112, 3, 2), (128, 384, 14, 3, 1), (128, 960, 7, 3, 1),
                                  (1, 384, 14, 3, 1), (128, 97, 56, 3, 1), (128, 240, 28, 5, 1), (128, 144, 56, 5, 2),
                                  (64, 96, 56, 7, 1)):
        for last in (True, False):
            def image(m):
                x = randn(m, n, c, size, size, dtype="float16")
                made = [x.to(memory_format=m.channels_last) if last else x, randn(m, c, 1, k, k, dtype="float16")]
                return [t.requires_grad_(True) for t in made]

            def conv(m):
                return lambda x, w, b=None: F(m).conv2d(x, w, b, stride=stride, padding=k // 2, groups=c)

            def forward(m, bias):
                x, w = image(m)
                b = randn(m, c, dtype="float16") if bias else None
                return without_gradient(m, lambda: conv(m)(x, w, b))

            def backward(m, which):
                leaves = image(m)
                y = conv(m)(*leaves)
                g = m.ones_like(y)
                return lambda: m.autograd.grad([y], [leaves[which]], [g], retain_graph=True)

            moved = 2 * n * c * (size * size + math.ceil(size / stride) ** 2)
            name = f"depthwise {k}x{k}/{stride} {n}x{c}x{size} {'last' if last else 'nchw'}"
            both(name, lambda m: forward(m, False), moved, "GB/s")
            both(f"{name} bias", lambda m: forward(m, True), moved, "GB/s")
            both(f"{name} dx", lambda m: backward(m, 0), moved, "GB/s")
            both(f"{name} dw", lambda m: backward(m, 1), moved, "GB/s")


def recurrent():
    """One layer of as many inputs as units, 128 steps: forward, and forward with backward, in microseconds."""
    def layer(kind, units, batch, dtype):
        def made(m):
            net = getattr(m.nn, kind)(units, units).to("cuda", getattr(m, dtype))
            return net, graph(m, 128, batch, units, dtype=dtype)

        def forward(m):
            net, x = made(m)
            return without_gradient(m, lambda: net(x))

        def train(m):
            net, x = made(m)
            leaves = [x, *net.parameters()]

            def step():
                y = net(x)[0]
                m.autograd.grad([y], leaves, [m.ones_like(y)])
            return step
        name = f"{kind} of {units}, batch {batch}, {dtype}"
        both(name, forward, 0, "us")
        both(f"{name}, with backward", train, 0, "us")
    for kind in ("LSTM", "GRU"):
        layer(kind, 1024, 64, "float16")
        layer(kind, 256, 16, "float16")
        layer(kind, 256, 16, "float32")
        layer(kind, 128, 32, "float32")
    layer("LSTM", 129, 32, "float32")
    layer("LSTM", 64, 1, "float32")
    layer("RNN", 256, 32, "float16")


def sequences():
    """A permutation, and the loss of unaligned sequences, in microseconds."""
    both("randperm of 1M", lambda m: lambda: m.randperm(1 << 20, device="cuda"), 0, "us")

    def ctc(m):
        x = graph(m, 300, 16, 500, dtype="float32")
        y = m.randint(1, 500, (16, 60), device="cuda")
        times, lengths = (m.full((16,), n, dtype=m.int64, device="cuda") for n in (300, 60))

        def step():
            loss = F(m).ctc_loss(F(m).log_softmax(x, -1), y, times, lengths)
            m.autograd.grad([loss], [x])
        return step
    both("ctc_loss, with gradient", ctc, 0, "us")


def decompositions():
    def matrices(m, count, n):
        return randn(m, count, n, n, dtype="float32") + 2 * math.sqrt(n) * m.eye(n, device="cuda")

    def symmetric(m, count, n):
        x = matrices(m, count, n)
        return x @ x.transpose(-2, -1)

    def of(fn, make, count, n):
        return lambda m: (lambda x: lambda: fn(m, x))(make(m, count, n))
    for count, n in ((4096, 8), (256, 32), (1, 1024)):
        both(f"solve {count} of {n}x{n} f32", of(lambda m, x: m.linalg.solve(x, x), matrices, count, n), 0, "us", 3)
        both(f"cholesky {count} of {n}x{n} f32", of(lambda m, x: m.linalg.cholesky(x), symmetric, count, n), 0, "us", 3)
        both(f"qr {count} of {n}x{n} f32", of(lambda m, x: m.linalg.qr(x), matrices, count, n), 0, "us", 3)
    for count, n in ((4096, 8), (256, 32), (1, 512)):
        both(f"eigh {count} of {n}x{n} f32", of(lambda m, x: m.linalg.eigh(x), symmetric, count, n), 0, "us", 1)
        both(f"svd {count} of {n}x{n} f32", of(lambda m, x: m.linalg.svd(x), matrices, count, n), 0, "us", 1)


memory_bound()
for length in (64, 768, 1000, 1021, 1024, 4093, 4096, 8192, 50257, 50304):
    rows_of(length)
group_norms()
layers()
updates()
products()
depthwise()
recurrent()
sequences()
decompositions()
both("add of 16", unary(lambda m, x: x + x, 16), 0, "us", 200)
