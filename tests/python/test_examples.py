"""Runs every program of examples/python and compares its output with that of the page or program it mirrors. That they
are well typed is test_typing.py's to say.
"""
import os
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples" / "python"
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))


def run(path):
    """Output and exit status of a program, started as its first lines say."""
    done = subprocess.run([sys.executable, path.name], cwd=path.parent, capture_output=True, text=True, check=False,
                          timeout=300)
    return done.stdout + done.stderr, done.returncode


def programs():
    return [p for p in sorted(EXAMPLES.rglob("*.py")) if "__main__" in p.read_text(encoding="utf-8")]


class Programs(unittest.TestCase):
    def test_all_run_and_repeat_themselves(self):
        self.assertGreaterEqual(len(programs()), 6)
        for path in programs():
            with self.subTest(program=path.name):
                text, status = run(path)
                self.assertEqual(status, 0, text)
                self.assertEqual(run(path), (text, 0), "another output the second time")
                self.assertNotIn("Traceback", text)

    def test_outputs(self):
        expected = {
            "tensors.py": ["cairn.Size([2, 3]) cairn.float32 cpu 6", "tensor([4., 6., 8.])", "9.0 1",
                           "RuntimeError: "],
            "autograd.py": ["tensor([2., 4., 6.])", "tensor([5., 7., 9.])", "4.5839 2.0000",
                            "derivative 4 of x^4 at 2: 24", "11.2 16", "True False [0.5, 0.5, 0.5]"],
            "custom_function.py": ["agrees with finite differences", "0.00 + -2.21 * P3(0.00 + 0.26 x)"],
        }
        for name, lines in expected.items():
            text, _ = run(EXAMPLES / name)
            for line in lines:
                with self.subTest(program=name, line=line):
                    self.assertIn(line, text)

    def test_the_networks_agree(self):
        """By hand, by autograd and with an own sigmoid the losses are the same to rounding; and those of C."""
        losses = {}
        for path in sorted((EXAMPLES / "two_layer_net").glob("*.py")):
            if path.name != "problem.py":
                losses[path.name] = [float(x) for x in re.findall(r"loss ([\d.]+)", run(path)[0])]
        in_c = BUILD / "examples" / "two_layer_net" / "autograd"
        if in_c.is_file():
            said = subprocess.run([str(in_c)], capture_output=True, text=True, check=True).stdout
            losses["autograd.c"] = [float(x) for x in re.findall(r"loss ([\d.]+)", said)]
        first = losses["by_hand.py"]
        self.assertEqual(len(first), 5)
        for name, found in losses.items():
            with self.subTest(program=name):
                for x, y in zip(first, found, strict=True):
                    self.assertAlmostEqual(x, y, delta=2e-5)


if __name__ == "__main__":
    unittest.main()
