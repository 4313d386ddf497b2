#!/usr/bin/env python3
"""What the `cairn` command says of hardware: systolic arrays against products and counts made here.

usage: tests/tools/test_hardware.py      (CAIRN_BUILD_DIR: where the command was built; default build/default)
"""
import json
import math
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAIRN = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")).resolve() / "cairn"
sys.path.insert(0, str(ROOT / "tests" / "python"))

from onnx_files import load_npy, save_npy  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


class Case(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def cairn(self, *args):
        return subprocess.run([str(CAIRN), *map(str, args)], check=False, capture_output=True, text=True,
                              encoding="utf-8", cwd=ROOT, timeout=600)

    def good(self, *args):
        done = self.cairn(*args)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def json(self, *args):
        return json.loads(self.good(*args, "--json"))

    def picture(self, path):
        """A drawing's elements by tag; all of it lies inside, and its texts."""
        root = xml.etree.ElementTree.parse(path).getroot()
        self.assertEqual(root.tag, SVG + "svg")
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        for r in root.iter(SVG + "rect"):
            if "x" in r.attrib:
                self.assertGreaterEqual(float(r.attrib["x"]), 0)
                self.assertLessEqual(float(r.attrib["x"]) + float(r.attrib["width"]), width + 0.1)
                self.assertLessEqual(float(r.attrib["y"]) + float(r.attrib["height"]), height + 0.1)
        return root, [t.text for t in root.iter(SVG + "text")]


def f32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


class Array(Case):
    """A simulated array gives the product, in as many cycles as a formula says that is written down here again."""

    @staticmethod
    def cycles(m, k, n, rows, cols, stay, single, fetch):
        across = math.ceil(n / cols)
        down = math.ceil((k if stay else m) / rows)
        if stay:
            load, run = rows, m + rows + cols - 2
            pace = max(load + run if single else max(m, rows), fetch)
            return fetch + load + (down * across - 1) * pace + run
        run = k + 2 * rows + cols - 2  # a column's weights come once, and serve the tiles in it
        pace = run if single else max(k, rows)
        return fetch + (across - 1) * max(down * pace, fetch) + (down - 1) * pace + run

    def test_cycles_and_numbers_at_random(self):
        draw = random.Random(7)
        for _ in range(60):
            m, k, n, rows, cols = (draw.randint(1, 19) for _ in range(5))
            stay, single, bf16 = (draw.random() < 0.5 for _ in range(3))
            bandwidth = draw.choice([0, 0, 1, 3])
            args = ["systolic", "--product", f"{m},{k},{n}", "--rows", rows, "--cols", cols, "--clock", 1000,
                    "--bandwidth", bandwidth, "--dataflow", "weights" if stay else "outputs", "--type",
                    "bf16" if bf16 else "int8"] + (["--single"] if single else [])
            found = self.json(*args)
            held = (rows if stay else k) * cols * (2 if bf16 else 1)
            fetch = math.ceil(held / bandwidth) if bandwidth else 0
            with self.subTest(args=args):
                self.assertEqual(found["simulated_cycles"], self.cycles(m, k, n, rows, cols, stay, single, fetch))
                self.assertEqual(found["cycles"], found["simulated_cycles"])
                self.assertTrue(found["is_the_product"])
                self.assertAlmostEqual(found["utilisation"], m * k * n / (found["cycles"] * rows * cols), places=12)

    def test_whole_numbers_are_exact(self):
        draw = random.Random(3)
        m, k, n = 11, 21, 9
        a = [draw.randint(-128, 127) for _ in range(m * k)]
        b = [draw.randint(-128, 127) for _ in range(k * n)]
        want = [sum(a[i * k + q] * b[q * n + j] for q in range(k)) for i in range(m) for j in range(n)]
        save_npy(self.folder / "a.npy", "f", (m, k), a)
        save_npy(self.folder / "b.npy", "f", (k, n), b)
        for flow in ("weights", "outputs"):
            found = self.json("systolic", "--a", self.folder / "a.npy", "--b", self.folder / "b.npy", "--rows", 4,
                              "--cols", 5, "--dataflow", flow, "--result", self.folder / "c.npy")
            self.assertEqual(list(load_npy(self.folder / "c.npy")[-1]), want)
            self.assertEqual(found["error"], 0)

    def test_bf16_adds_in_the_order_of_the_cells(self):
        draw = random.Random(5)
        m, k, n, rows = 5, 23, 4, 6
        values = [f32(draw.randint(128, 255) * 2.0 ** draw.randint(-12, 3) * draw.choice([-1, 1]))
                  for _ in range(m * k + k * n)]
        a, b = values[:m * k], values[m * k:]
        save_npy(self.folder / "a.npy", "f", (m, k), a)
        save_npy(self.folder / "b.npy", "f", (k, n), b)
        for flow, part in (("weights", rows), ("outputs", k)):
            self.good("systolic", "--a", self.folder / "a.npy", "--b", self.folder / "b.npy", "--rows", rows,
                      "--cols", 3, "--type", "bf16", "--dataflow", flow, "--result", self.folder / "c.npy")
            for at, got in enumerate(load_npy(self.folder / "c.npy")[-1]):
                i, j = divmod(at, n)
                total = 0.0
                for first in range(0, k, part):
                    inner = 0.0
                    for q in range(first, min(first + part, k)):
                        inner = f32(inner + a[i * k + q] * b[q * n + j])
                    total = f32(total + inner)
                self.assertEqual(got, total, (flow, i, j))

    def test_picture_of_data_on_its_way(self):
        out = self.folder / "flow.svg"
        text = self.good("systolic", "--product", "3,4,4", "--rows", 4, "--cols", 4, "--bandwidth", 0, "-o", out)
        self.assertIn("13 simulated, 13 by the closed form", text)
        root, texts = self.picture(out)
        self.assertEqual([t for t in texts if t.startswith("cycle")], [f"cycle {i}" for i in range(13)])
        cells = [r for r in root.iter(SVG + "rect") if r.attrib.get("class") in ("i", "w0", "w1")]
        self.assertEqual(len(cells), 13 * 16)
        self.assertEqual(sum(r.attrib["class"] != "i" for r in cells), 3 * 16)  # each cell works once for each row
        self.good("systolic", "--product", "3,4,4", "--rows", 4, "--cols", 4, "--bandwidth", 0, "--animated", "-o", out)
        self.assertEqual(len(list(self.picture(out)[0].iter(SVG + "animate"))), 13)

    def test_networks(self):
        found = self.json("systolic", "resnet18", "--batch", 2)
        layers = {layer["layer"]: layer for layer in found["layers"]}
        self.assertEqual(len(found["layers"]), 21)
        conv = layers["layer1.0.conv1"]
        self.assertEqual((conv["m"], conv["k"], conv["n"]), (2 * 56 * 56, 64 * 9, 64))
        self.assertEqual(layers["fc"]["bound"], "memory")
        self.assertEqual(conv["bound"], "compute")
        self.assertEqual(found["operations_not_mapped"], 0)
        self.assertEqual(found["multiply_adds"], sum(x["multiply_adds"] for x in found["layers"]))
        depthwise = [x for x in self.json("systolic", "mobilenet_v2")["layers"] if x["count"] > 1]
        self.assertEqual(len(depthwise), 17)
        self.assertTrue(all(x["k"] == 9 and x["n"] == 1 and x["utilisation"] < 0.001 for x in depthwise))
        attention = [x for x in self.json("systolic", "vit_b_32")["layers"]
                     if x["op"] == "scaled_dot_product_attention"]
        self.assertEqual([(x["count"], x["m"], x["k"], x["n"]) for x in attention[:2]],
                         [(12, 50, 64, 50), (12, 50, 50, 64)])
        out = self.folder / "layers.svg"
        self.good("systolic", "resnet18", "-o", out)
        root, texts = self.picture(out)
        self.assertEqual(len(list(root.iter(SVG + "title"))), 22)
        self.assertIn("bound by compute", texts)

    def test_the_six_networks_of_the_first_tpu(self):
        """Counts of the paper's table 1; what bounds them, of its table 3 and of its roofline."""
        # layers, millions of weights, multiply-adds for each, batch, tera-operations a second that the paper measured
        paper = {"mlp0": (5, 20, 200, 200, 12.3), "mlp1": (4, 5, 168, 168, 9.7), "lstm0": (24, 52, 64, 64, 3.7),
                 "lstm1": (37, 34, 96, 96, 2.8), "cnn0": (16, 8, 2888, 8, 86.0), "cnn1": (76, 100, 1750, 32, 14.1)}
        found = {}
        for name, (count, weights, reuse, batch, _) in paper.items():
            net = found[name] = self.json("systolic", f"examples/tpu/{name}.cfg", "--batch", batch)
            held = sum(x["k"] * x["n"] for x in net["layers"])
            self.assertEqual(len(net["layers"]), count)
            self.assertLess(abs(held / 1e6 / weights - 1), 0.02, name)
            self.assertLess(abs(net["multiply_adds"] / held / reuse - 1), 0.1, name)
        for name in ("mlp0", "mlp1", "lstm0", "lstm1"):
            self.assertTrue(all(x["bound"] == "memory" for x in found[name]["layers"]), name)
        self.assertTrue(all(x["bound"] == "compute" for x in found["cnn0"]["layers"]))
        rates = {name: 2e-12 * net["multiply_adds"] / net["seconds"] for name, net in found.items()}
        for name in ("mlp0", "mlp1", "lstm0", "cnn0"):
            self.assertLess(abs(rates[name] / paper[name][-1] - 1), 0.15, name)
        self.assertEqual(sorted(rates, key=rates.get), ["lstm0", "lstm1", "mlp1", "mlp0", "cnn1", "cnn0"])

    def test_wrong_use(self):
        for args in ([], ["lenet", "--rows", "0"], ["lenet", "--type", "fp4"], ["lenet", "--dataflow", "x"],
                     ["--product", "3,4"], ["lenet", "--product", "1,2,3"], ["--a", "a.npy"], ["lenet", "--animated"],
                     ["lenet", "--clock", "0"], ["lenet", "--batch", "0"]):
            done = self.cairn("systolic", *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn("usage: cairn systolic", done.stderr)
        save_npy(self.folder / "a.npy", "f", (2, 2), [1, 2, 3, 4.5])
        done = self.cairn("systolic", "--a", self.folder / "a.npy", "--b", self.folder / "a.npy")
        self.assertEqual(done.returncode, 1)
        self.assertIn("4.5 is no int8", done.stderr)
        self.assertIn("no_such_net", self.cairn("systolic", "no_such_net").stderr)


if __name__ == "__main__":
    unittest.main()
