"""cairn.onnx: a sample of ONNX's own cases, and random calls with onnxruntime's results, as tests/onnx/sample.py kept
them."""

import pathlib
import unittest

import onnx_cases

FILE = pathlib.Path(__file__).resolve().parents[1] / "onnx" / "cases.gz"
CASES = list(onnx_cases.read(FILE))


class Kept(unittest.TestCase):
    def run_those(self, kind, fewest):
        ran = 0
        for name, limits, model, inputs, outputs in CASES:
            if not name.startswith(kind):
                continue
            ran += 1
            with self.subTest(name):
                self.assertIsNone(onnx_cases.wrong(limits, model, inputs, outputs))
        self.assertGreaterEqual(ran, fewest)

    def test_cases_of_onnx(self):
        self.run_those("test_", 200)

    def test_random_calls_beside_onnxruntime(self):
        self.run_those("call_", 300)


if __name__ == "__main__":
    unittest.main()
