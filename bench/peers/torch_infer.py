"""PyTorch's side of infer.c: inference by whole networks (networks.py), as it is and by torch.compile.

Variants: for images both layouts. A compiled one is made in its check, before anything is timed, and frozen: weights
are constants, which may be packed; BENCH_NO_COMPILE leaves those out.
"""
import os
import sys
from itertools import repeat

import torch
from networks import INFER, LAYOUTS, filled
from torch_side import dialogue, sample


def work(name, layout="contiguous", compiled=False, half=False):
    build, inputs, amount, unit = INFER[name]
    state = {}

    def setup():
        how = {"dtype": torch.bfloat16} if half else {}
        net, x = filled(build()).eval().to(memory_format=LAYOUTS[layout], **how), inputs()
        x = x.to(memory_format=LAYOUTS[layout], **how) if x.dim() == 4 else x
        torch.compiler.reset()
        state["all"] = torch.compile(net, dynamic=False) if compiled else net, x

    def run(n):
        net, x = state["all"]
        with torch.no_grad():
            for _ in repeat(None, n):
                net(x)

    def check():
        net, x = state["all"]
        with torch.no_grad():
            return sample(net(x))

    variant = layout if not compiled else "compile" if layout == "contiguous" else "compile_channels_last"
    return dialogue.Work(name.replace("_infer", "_bf16_infer") if half else name, variant, unit, amount, setup, run,
                         check)


def works():
    ways = (False,) if os.environ.get("BENCH_NO_COMPILE") else (False, True)
    for name, (*_, unit) in INFER.items():
        layouts = LAYOUTS if unit == "image" else ("contiguous",)
        yield from (work(name, layout, compiled) for compiled in ways for layout in layouts)
    yield from (work(f"resnet18_infer_b{batch}", layout, half=True) for batch in (1, 8) for layout in LAYOUTS)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    import torch._inductor.config
    torch._inductor.config.freezing = True
    dialogue.serve(list(works()))
