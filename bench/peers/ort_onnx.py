"""onnxruntime's side of onnx.c: the models that onnx_models.py left in the folder that BENCH_ONNX names.

Place in the flow: the peer of the group `onnx`, left out where onnxruntime is not installed. Invariant: one session a
row, as ort_infer.py makes it; inputs are handed over without a copy.
"""
import os
import sys
from itertools import repeat
from pathlib import Path

import numpy
import torch
from ort_infer import session
from torch_side import dialogue, sample

FOLDER = Path(os.environ.get("BENCH_ONNX", "build/bench/onnx"))


def work(name, threads, state):
    def setup():
        if state.get("name") == name:
            return
        state.clear()
        made = session(str(FOLDER / f"{name}.onnx"), threads)
        feed = {given.name: numpy.load(FOLDER / f"{name}.{i}.npy") for i, given in enumerate(made.get_inputs())}
        state.update(name=name, session=made, feed=feed)

    def run(n):
        call, feed = state["session"].run, state["feed"]
        for _ in repeat(None, n):
            call(None, feed)

    def check():
        return sample(torch.from_numpy(numpy.asarray(state["session"].run(None, state["feed"])[0])))

    return dialogue.Work(f"onnx_{name}", "", "run", 1, setup, run, check)


if __name__ == "__main__":
    threads, state = int(sys.argv[1]) if len(sys.argv) > 1 else 1, {}
    dialogue.serve([work(path.stem, threads, state) for path in sorted(FOLDER.glob("*.onnx"))])
