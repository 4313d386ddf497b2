#!/usr/bin/env python3
"""Runs the tests that compare the training stack in Python with PyTorch (and what others wrote), and writes a page
about them: a line for each test file, and one for each layer, loss, optimiser and schedule.

usage: build/peers/bin/python tests/conformance/training.py [--report docs/CONFORMANCE_TRAINING.md]
       tests/conformance/training.py --count FILE      one test file; prints what it counted as JSON

Exits with 1 when one of them fails.
"""
import argparse
import collections
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))
# Test file in tests/python: what it compares, and with what.
TESTS = {
    "test_nn_layers.py": ("every layer and loss: results, gradients of inputs and parameters, buffers, both modes, "
                          "repr, names and order of the state, attributes, signatures", "torch.nn, same state"),
    "test_nn_module.py": ("what programs do with modules: parts, hooks, copies, pickles, state, modes",
                          "torch's rules"),
    "test_nn_parts.py": ("initialisers, packed sequences, clipping, parametrizations, containers", "torch.nn"),
    "test_sequences.py": ("what programs do with recurrent layers, packed sequences and attention", "torch.nn"),
    "test_prune.py": ("pruning", "torch.nn.utils.prune"),
    "test_advanced.py": ("hooks, saved values, schedules and optimisers by inheritance, checkpoints", "torch's rules"),
    "test_func.py": ("functions of functions: gradients, Jacobians, vmap, functional calls", "torch.func"),
    "test_optim.py": ("every optimiser, 20 steps in float32 and float64, groups, state both ways", "torch.optim"),
    "test_lr_scheduler.py": ("every schedule, 30 steps, with groups, state both ways", "torch.optim.lr_scheduler"),
    "test_curves.py": ("30 steps of training of an MLP, a CNN, an LSTM and a GPT: losses, parameters", "torch"),
    "test_amp.py": ("autocast, loss scaling", "torch.amp"),
    "test_loader.py": ("data sets, samplers, loaders, collation, resume", "torch.utils.data"),
    "test_datasets.py": ("files of known data sets", "torchvision.datasets"),
    "test_transforms.py": ("images at work", "torchvision.transforms"),
    "test_transforms_augment.py": ("the AutoAugment family and v2", "torchvision.transforms"),
    "test_vision_utils.py": ("grids, drawings, boxes", "torchvision.utils, torchvision.ops"),
    "test_tokenizers.py": ("bytes, characters, GPT-2's and BERT's tokens", "tokenizers"),
    "test_files.py": ("files that both read and write, checkpoints", "torch.save, torch.load, safetensors"),
    "test_tensorboard.py": ("logs", "TensorBoard's own reader"),
    "test_metrics.py": ("metrics", "scikit-learn"),
    "test_zoo.py": ("networks with the same weights, generation, embeddings", "torchvision, transformers"),
    "test_distributions.py": ("every distribution: densities, moments, draws, gradients", "torch.distributions"),
    "test_distribution_parts.py": ("transforms, constraints, divergences", "torch.distributions"),
    "test_namespace.py": ("devices, settings, names of modules", "torch's names"),
    "test_legacy.py": ("older names, storages, classes derived from Tensor", "torch's rules"),
    "test_programs.py": ("whole programs as their users write them, line by line of what they print", "torch"),
    "test_model.py": ("cairn.Model: compile, fit, evaluate, predict, callbacks", "Keras's rules"),
    "test_keras.py": ("cairn.keras: layers, losses, metrics, rates", "numbers of Keras 3.15"),
    "test_keras_layers.py": ("cairn.keras.layers: every layer and option", "numbers of Keras 3.15"),
    "test_keras_training.py": ("training: losses, optimisers, metrics, own steps", "numbers of Keras 3.15"),
    "test_keras_data.py": ("data sets of directories, texts and series, augmentation", "numbers of Keras 3.15"),
    "test_keras_files.py": ("files of models and weights, both ways", "files of Keras 3.15"),
    "test_keras_programs.py": ("programs of Keras's tutorials: they run and learn", ""),
}
# Test files whose sub-tests are cases of a class: what the classes are, and the class of a sub-test (or None).
CLASSES = {
    "test_nn_layers.py": ("Layers and losses", lambda test: (re.match(r"(\w+)\(", test._message) or [None] * 2)[1]),
    "test_optim.py": ("Optimisers", lambda test: test.params.get("optimiser")),
    "test_lr_scheduler.py": ("Schedules", lambda test: test.params.get("schedule")),
}


class Recorder(unittest.TestResult):
    """Counts tests, and the sub-tests of each class."""

    def __init__(self, subject):
        super().__init__()
        self.subject = subject
        self.classes = collections.defaultdict(lambda: [0, 0])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if cls := self.subject(subtest):
            self.classes[cls][err is not None] += 1


def count(name):
    """Runs a test file in this process: {"tests": [passed, failed, skipped], "classes": {class: [passed, failed]}}."""
    path = ROOT / "tests/python" / name
    sys.path[:0] = [str(path.parent), str(BUILD / "python")]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = Recorder(CLASSES[name][1] if name in CLASSES else lambda test: None)
    unittest.defaultTestLoader.loadTestsFromModule(module).run(result)
    bad = len({test.id().split(" ")[0] for test, _ in result.failures + result.errors})
    skipped = len(result.skipped)
    return {"tests": [result.testsRun - bad - skipped, bad, skipped], "classes": dict(result.classes)}


def run(name):
    """As count(), in a process of its own."""
    environment = dict(os.environ, PYTHONPATH=str(BUILD / "python"), CAIRN_BUILD_DIR=str(BUILD))
    command = [str(ROOT / "tests/conformance" / name)] if name == "test_programs.py" else [__file__, "--count", name]
    done = subprocess.run([sys.executable, "-B", *command], capture_output=True, text=True, check=False, cwd=ROOT,
                          env=environment)
    if own := re.search(r"(\d+) passed, (\d+) failed, (\d+) skipped", done.stdout):
        return {"tests": [int(n) for n in own.groups()], "classes": {}}
    try:
        return json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        print(done.stderr)
        return {"tests": [0, 1, 0], "classes": {}}


def page(results):
    lines = [
        "# Conformance of the training stack in Python", "",
        "Generated by `build/peers/bin/python tests/conformance/training.py --report docs/CONFORMANCE_TRAINING.md`; do "
        "not edit. The ops below are judged in [CONFORMANCE.md](CONFORMANCE.md).", "",
        "| test | what | against | passed | failed | skipped |", "|---|---|---|---|---|---|"]
    for name, result in results.items():
        what, against = TESTS[name]
        lines.append(f"| `{name}` | {what} | {against} | {' | '.join(map(str, result['tests']))} |")
    for name, (title, _) in CLASSES.items():
        classes = results[name]["classes"]
        cases = sum(map(sum, classes.values()))
        lines += ["", f"## {title}: {len(classes)} classes, {cases} cases", "",
                  f"By `tests/python/{name}`: {TESTS[name][0]}.", "",
                  "| class | passed | failed |", "|---|---|---|"]
        lines += [f"| `{cls}` | {good} | {bad} |" for cls, (good, bad) in sorted(classes.items())]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="Compares the training stack with PyTorch.")
    parser.add_argument("--report", type=pathlib.Path)
    parser.add_argument("--count", metavar="FILE")
    options = parser.parse_args()
    if options.count:
        print("\n" + json.dumps(count(options.count)))
        return 0
    results = {}
    for name in TESTS:
        results[name] = run(name)
        print("%-26s %d passed, %d failed, %d skipped" % (name, *results[name]["tests"]), flush=True)
    if options.report:
        options.report.write_text(page(results), encoding="utf-8")
    return int(any(result["tests"][1] for result in results.values()))


if __name__ == "__main__":
    sys.exit(main())
