"""PyTorch's side of state.c: Adam over 50 M parameters, and a safetensors file read into parameters.

The file is read by its own library, as load_state_dict wants it: copied into parameters that are there.
"""
import os
import sys
import tempfile
from itertools import repeat

import torch
from torch_side import dialogue, fill, sample

TENSORS, SHAPE = 50, (1000, 1000)


def parameters():
    return [torch.nn.Parameter(fill(SHAPE, 100 + i, 1.0)) for i in range(TENSORS)]


def adam_work(variant):
    state = {}

    def setup():
        params = parameters()
        for i, p in enumerate(params):
            p.grad = fill(SHAPE, 200 + i, 1.0)
        state["all"] = params, torch.optim.Adam(params, lr=1e-3, fused=variant == "fused")

    def run(n):
        for _ in repeat(None, n):
            state["all"][1].step()

    def check():
        run(1)
        return sample(state["all"][0][-1])

    return dialogue.Work("adam_50m", variant, "byte", 7 * 4 * TENSORS * SHAPE[0] * SHAPE[1], setup, run, check)


def load_work():
    from safetensors.torch import load_file, save_file
    state = {}

    def setup():
        net = torch.nn.Module()
        for i, p in enumerate(parameters()):
            net.register_parameter(str(i), p)
        state["folder"] = tempfile.TemporaryDirectory()  # goes with the process
        state["all"] = net, os.path.join(state["folder"].name, "state.safetensors")
        save_file(net.state_dict(), state["all"][1])

    def run(n):
        net, path = state["all"]
        for _ in repeat(None, n):
            net.load_state_dict(load_file(path))

    def check():
        run(1)
        return sample(getattr(state["all"][0], str(TENSORS - 1)))

    return dialogue.Work("safetensors_load", "", "byte", 4 * TENSORS * SHAPE[0] * SHAPE[1], setup, run, check)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    dialogue.serve([adam_work("default"), adam_work("fused"), load_work()])
