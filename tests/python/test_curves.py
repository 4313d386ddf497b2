#!/usr/bin/env python3
"""A multilayer perceptron, a convolutional network, an LSTM and a small GPT, written for PyTorch
(tests/train/curves.py) and run with cairn in its place: 30 steps of training have PyTorch's losses and end with its
parameters.

What PyTorch computed is in tests/train/golden/curves.safetensors, so the test needs no torch."""
import pathlib
import runpy
import unittest

import cairn

TESTS = pathlib.Path(__file__).resolve().parents[1]

# Of a loss, and of the norm of a parameter.
BOUND = 1e-5


class Curves(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cairn.as_torch()
        cls.have = runpy.run_path(str(TESTS / "train/curves.py"))["curves"]()
        cls.want = cairn.load(str(TESTS / "train/golden/curves.safetensors"))

    def test_names(self):
        self.assertEqual(sorted(self.have), sorted(self.want))

    def test_losses(self):
        for name in ("mlp", "cnn", "lstm", "gpt"):
            with self.subTest(name):
                have, want = (tree[name + "/losses"].tolist() for tree in (self.have, self.want))
                self.assertEqual(len(have), 30)
                self.assertLess(have[-1], have[0])
                for a, b in zip(have, want):
                    self.assertLessEqual(abs(a - b), BOUND * abs(b))

    def test_parameters(self):
        for name, want in self.want.items():
            if not name.endswith("/losses"):
                with self.subTest(name):
                    off = (self.have[name] - want).norm().item()
                    self.assertLessEqual(off, BOUND * want.norm().item())


if __name__ == "__main__":
    unittest.main()
