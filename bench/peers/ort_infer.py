"""onnxruntime's side of infer.c: the networks of networks.py, exported by torch.onnx with the same weights.

Place in the flow: a peer of the group `infer`, left out where onnxruntime or its exporter is not installed. Invariant:
one session a row, all graph optimisations on, as many threads as the row says; the input is handed over without a copy.
"""
import io
import sys
import warnings
from itertools import repeat

import onnxruntime
import torch
from networks import INFER, Alone, filled
from torch_side import dialogue, sample


def export(net, x):
    """The network as the bytes of a model."""
    to = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(Alone(net), (x,), to, dynamo=False, opset_version=17)
    return to.getvalue()


def session(model, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def work(name, threads, all_state):
    build, inputs, amount, unit = INFER[name]

    def setup():
        if all_state.get("name") == name:
            return
        all_state.clear()
        net, x = filled(build()).eval(), inputs()
        with torch.no_grad():
            made = session(export(net, x), threads)
        all_state.update(name=name, session=made, feed={made.get_inputs()[0].name: x.numpy()})

    def run(n):
        call, feed = all_state["session"].run, all_state["feed"]
        for _ in repeat(None, n):
            call(None, feed)

    def check():
        return sample(torch.from_numpy(all_state["session"].run(None, all_state["feed"])[0]))

    return dialogue.Work(name, "", unit, amount, setup, run, check)


if __name__ == "__main__":
    threads, state = int(sys.argv[1]) if len(sys.argv) > 1 else 1, {}
    torch.backends.mha.set_fastpath_enabled(False)  # its op has no form in ONNX
    dialogue.serve([work(name, threads, state) for name in INFER])
