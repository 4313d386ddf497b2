"""PyTorch's side of the rows about large ops: cases become works, one per variant; side.h in Python.

Place in the flow: bench/run starts `python torch_FAMILY.py THREADS`, which hands its cases to serve(). Invariant: the
inputs are those of side.h, `call` changes none of them, and variants share them. A compiled variant compiles in its
check, before anything is timed; BENCH_NO_COMPILE leaves those out.
"""
import os
import sys
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))
import serve as dialogue  # noqa: E402

WEYL, FACTOR, STEP = 0x9E3779B97F4A7C15, 6364136223846793005, 1442695040888963407


class Case(NamedTuple):
    name: str
    unit: str
    amount: float
    prepare: Callable[[], list]  # the inputs of call
    call: Callable  # -> a tensor or several
    grads: tuple = ()  # inputs to take gradients of; the last input is then the gradient of the result, not call's
    variants: tuple = ("eager", "compile")
    finish: Callable = lambda inputs, result: result  # what the check does to the result before it counts


def signed(x: int) -> int:
    return (x + 2**63) % 2**64 - 2**63


def fill(shape, seed: int, scale: float) -> torch.Tensor:
    """The numbers of bench_fill in serve.h, by doubling: n more states are n steps on from the first n."""
    n = torch.Size(shape).numel()
    first = (((seed * WEYL + 1) % 2**64) * FACTOR + STEP) % 2**64
    x, a, c = torch.tensor([signed(first)]), FACTOR, STEP
    while x.numel() < n:
        x = torch.cat([x, x * signed(a) + signed(c)])
        a, c = a * a % 2**64, (a * c + c) % 2**64
    return ((x[:n] >> 32).float() / 2147483648.0 * scale).reshape(shape)


def sample(result) -> float:
    """The sum of about a thousand elements of each tensor, evenly spread in row-major order."""
    tensors = [result] if isinstance(result, torch.Tensor) else result
    flat = [t.detach().contiguous().float().flatten() for t in tensors]
    return sum(t[::t.numel() // 1009 + 1].double().sum().item() for t in flat)


def channels_last(t):
    return t.to(memory_format=torch.channels_last) if isinstance(t, torch.Tensor) and t.dim() == 4 else t


def work(case: Case, variant: str, state: dict) -> dialogue.Work:
    """`state` is shared by all works of the process: the inputs of the row that is measured now."""

    def setup():
        if state.get("name") != case.name:
            state.clear()
            torch.compiler.reset()
            state["name"], state["inputs"] = case.name, case.prepare()
            for i in case.grads:
                state["inputs"][i].requires_grad_()
        inputs = [channels_last(t) for t in state["inputs"]] if variant == "channels_last" else state["inputs"]
        call = torch.compile(case.call, dynamic=False) if variant == "compile" else case.call
        if not case.grads:
            state[variant] = lambda: call(*inputs)
        else:
            leaves = [inputs[i] for i in case.grads]
            state[variant] = lambda: torch.autograd.grad(call(*inputs[:-1]), leaves, inputs[-1])

    def run(n):
        call = state[variant]
        with torch.set_grad_enabled(bool(case.grads)):
            for _ in repeat(None, n):
                call()

    def check():
        with torch.set_grad_enabled(bool(case.grads)):
            return sample(case.finish(state["inputs"], state[variant]()))

    return dialogue.Work(case.name, variant, case.unit, case.amount, setup, run, check)


def serve(cases: list[Case]) -> None:
    """The whole of main."""
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    state, left_out = {}, {"compile"} if os.environ.get("BENCH_NO_COMPILE") else set()
    dialogue.serve([work(c, v, state) for c in cases for v in c.variants if v not in left_out])
