#!/usr/bin/env python3
"""Real models beside onnxruntime: each is loaded and run from Python, as it is and compiled, and by `cairn run`.

usage: tests/onnx/models.py FOLDER [NAME...]     (FOLDER: what bench/peers/onnx_models.py made)

Needs onnxruntime. An output is right where |a - b| <= 1e-4 * max |b| + 1e-6, with the same type and sizes: sums are
taken in another order, over thousands of terms. Prints a line a model; the exit status is 1 where one is wrong.
"""
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import cairn
import numpy
import onnxruntime

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")) / "cairn"
RELATIVE, ABSOLUTE = 1e-4, 1e-6


def inputs_of(path, session):
    return {given.name: numpy.load(path.parent / f"{path.stem}.{i}.npy") for i, given in enumerate(session.get_inputs())}


def apart(got, want):
    """By how many times of what is allowed the worst element is wrong."""
    worst = 0.0
    for a, b in zip(got, want, strict=True):
        a, b = numpy.asarray(a), numpy.asarray(b)
        if a.dtype != b.dtype or a.shape != b.shape:
            return float("inf")
        if b.size:
            a, b = a.astype("f8"), b.astype("f8")
            worst = max(worst, float(numpy.max(numpy.abs(a - b)) / (RELATIVE * numpy.max(numpy.abs(b)) + ABSOLUTE)))
    return worst


def arrays(values):
    return [value.numpy() for value in (values if isinstance(values, (list, tuple)) else [values])]


def compiled(model, tensors):
    fast = cairn.compile(lambda *values: model(*values))  # where a value decides, it runs as it is
    fast(*tensors)
    return arrays(fast(*tensors))


def by_command(path, feed, outputs):
    with tempfile.TemporaryDirectory() as folder:
        words = []
        for i, (name, value) in enumerate(feed.items()):
            numpy.save(f"{folder}/{i}.npy", value)
            words += ["--input", f"{name}={folder}/{i}.npy"]
        done = subprocess.run([str(COMMAND), "run", str(path), *words, "--output-dir", f"{folder}/out"],
                              check=False, capture_output=True, text=True)
        if done.returncode or done.stderr:
            raise RuntimeError(done.stderr.strip())
        kept = "._-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        files = ["".join(c if c in kept else "_" for c in name) for name in outputs]
        return [numpy.load(f"{folder}/out/{name}.npy") for name in files]


def check(path):
    """What is wrong with a model, by way of running it."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    feed = inputs_of(path, session)
    want = session.run(None, feed)
    model = cairn.onnx.load(path)
    tensors = [cairn.from_numpy(feed[name]) for name in model.input_names]
    ways = {"eager": lambda: arrays(model(*tensors)), "compiled": lambda: compiled(model, tensors),
            "cairn run": lambda: by_command(path, feed, model.output_names)}
    found = {}
    for way, run in ways.items():
        try:
            with cairn.inference_mode():
                found[way] = apart(run(), want)
        except Exception as error:
            found[way] = str(error).replace("\n", " ")[:300]
    return found


def main():
    folder, wrong = Path(sys.argv[1]), 0
    warnings.simplefilter("ignore")
    for path in sorted(folder.glob("*.onnx")):
        if sys.argv[2:] and path.stem not in sys.argv[2:]:
            continue
        try:
            found = check(path)
        except Exception as error:
            found = {"load": str(error).replace("\n", " ")[:300]}
        bad = any(isinstance(value, str) or not value <= 1 for value in found.values())
        wrong += bad
        print(f"{path.stem:22}{'WRONG ' if bad else 'right '}", ", ".join(
            f"{way}: {value}" if isinstance(value, str) else f"{way} {value:.2g}" for way, value in found.items()),
            flush=True)
    print(f"{wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
