#!/usr/bin/env python3
"""What the `cairn` command says of hardware, against products, sums and counts that are made here once more: systolic
arrays, processors and the roofline model, Tensor Cores; pictures are those of the documentation.

usage: tests/tools/test_hardware.py      (CAIRN_BUILD_DIR: where the command was built; default build/default)
"""
import json
import math
import os
import pathlib
import random
import re
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


class Processors(Case):
    """The table of processors, and what the roofline model makes of it."""

    @classmethod
    def setUpClass(cls):
        done = subprocess.run([str(CAIRN), "devices", "--compare", "--facts", "--json"], check=True,
                              capture_output=True, text=True, encoding="utf-8")
        cls.rows = {row["name"]: row for row in json.loads(done.stdout)["processors"]}

    def test_rows_are_complete(self):
        self.assertGreaterEqual(len(self.rows), 40)
        for name, row in self.rows.items():
            with self.subTest(name=name):
                self.assertIn(row["kind"], ("CPU", "GPU", "TPU"))
                self.assertTrue(2010 <= row["year"] <= 2026)
                self.assertGreater(row["bytes_per_second"], 0)
                self.assertTrue(row["memory"] and row["source"])
                self.assertTrue(any(row["peaks"].values()))
                for key in ("nanometres", "units", "hertz", "memory_bytes", "watts", "launch_dollars"):
                    self.assertTrue(row[key] is None or row[key] > 0, key)  # unknown is said, not 0
        for name in ("A100", "H200", "B200", "GB300", "MI300X", "TPU v1", "TPU v6e", "TPU v7", "EPYC 9654"):
            self.assertIn(name, self.rows)

    def test_peaks_follow_from_units_and_clocks(self):
        checked = 0
        for name, row in self.rows.items():
            each, peak = row["operations_of_a_unit_in_a_clock"], row["peaks"][row["counted_type"]]
            if not each or not row["units"] or not row["hertz"]:
                continue
            checked += 1
            self.assertLess(abs(row["units"] * row["hertz"] * each / peak - 1), 0.05, name)
        self.assertGreaterEqual(checked, 33)

    def test_peaks_of_types_stand_in_order(self):
        """A narrower type is never slower, but for int8 and float64 where a generation gave them up."""
        for name, row in self.rows.items():
            for slow, fast in (("fp64", "fp32"), ("fp32", "tf32"), ("tf32", "16 bits"), ("fp32", "16 bits"),
                               ("16 bits", "fp8"), ("fp8", "fp4")):
                if row["peaks"][slow] and row["peaks"][fast]:
                    self.assertLessEqual(row["peaks"][slow], row["peaks"][fast] * 1.01, (name, slow, fast))

    def test_arithmetic_of_the_model(self):
        """A network of one product, by hand."""
        net = self.folder / "one.cfg"
        net.write_text("[net]\ninput = 4096\n[Linear] out_features = 4096 bias = false\n", encoding="utf-8")
        for batch in (1, 2048):
            found = self.json("devices", "--compare", net, "--facts", "--only", "H100,7742,TPU v1", "--batch", batch,
                              "--launch", 10, "--price", 3.6)
            flops, weights = 2 * batch * 4096 * 4096, 4096 * 4096
            self.assertEqual((found["work"]["flops"], found["work"]["ops"]), (flops, 1))
            self.assertEqual(found["work"]["bytes_of_weights"], 4 * weights)
            self.assertEqual([row["name"] for row in found["processors"]], ["EPYC 7742", "H100", "TPU v1"])
            for row, kind, item, joules in zip(found["processors"], ("fp32", "16 bits", "int8"), (4, 2, 1),
                                               (1.69e-12, 0.59e-12, 0.3e-12)):
                e = row["estimate"]
                values = item * (weights + 2 * batch * 4096)
                move, compute = values / row["bytes_per_second"], flops / row["peaks"][kind]
                self.assertEqual(e["type"], kind)
                self.assertAlmostEqual(e["bytes"] / values, 1)
                self.assertAlmostEqual(e["seconds"] / (max(move, compute) + 10e-6), 1)
                self.assertAlmostEqual(e["seconds_memory_bound"], move if move > compute else 0)
                self.assertAlmostEqual(e["dollars"] / (e["seconds"] * 3.6 / 3600), 1)
                self.assertAlmostEqual(e["joules_of_design_power"] / (row["watts"] * e["seconds"]), 1)
                byte = {"DDR4": 1300e-12 / 8, "HBM3": 350e-12 / 8, "DDR3": 1300e-12 / 8}[row["memory"]]
                self.assertAlmostEqual(e["joules_of_switching"] / (flops * joules / 2 + values * byte), 1)
        bound = {row["name"]: row["estimate"]["seconds_memory_bound"] > 0 for row in found["processors"]}
        self.assertEqual(bound, {"EPYC 7742": False, "H100": False, "TPU v1": True})

    def test_training_costs_three_times_as_much(self):
        infer, train = (self.json("devices", "--compare", "resnet18", "--facts", "--only", "A100", *more)
                        for more in ([], ["--train"]))
        self.assertLess(abs(train["work"]["flops_in_products"] / infer["work"]["flops_in_products"] - 3), 0.1)
        self.assertGreater(train["processors"][0]["estimate"]["seconds"],
                           2 * infer["processors"][0]["estimate"]["seconds"])

    def test_what_does_not_fit_is_said(self):
        text = self.good("devices", "--compare", "lenet", "--facts", "--type", "fp8", "--only", "V100,H100")
        self.assertRegex(text, r"(?m)^V100 .*does not compute in this type$")
        self.assertRegex(text, r"(?m)^H100 +fp8 +[\d.]+ us ")
        self.assertNotIn("this machine", text)

    def test_table(self):
        text = self.good("devices", "--compare", "--facts")
        self.assertRegex(text, r"(?m)^A100 +GPU +2020 +7 +108 +1\.41 HBM2E +80 +2039 +400 +- +19\.5 +19\.5 +156 +312 ")
        self.assertRegex(text, r"(?m)^TPU v7 +TPU +2025 +- +- +- ")

    def test_this_machine(self):
        """What is measured is there and adds up; how much it is, is nobody's business here."""
        here = self.json("devices", "--compare", "lenet", "--run", "--threads", 1, "--only", "A100")["this_machine"]
        for key in ("product_flops_per_second", "seconds_of_an_op", "expected_seconds", "measured_seconds"):
            self.assertGreater(here[key], 0, key)
        self.assertEqual(here["levels"][-1]["level"], "memory")
        self.assertTrue(all(level["copied_bytes_per_second"] > 0 for level in here["levels"]))
        self.assertEqual({probe["kind"] for probe in here["probes"]},
                         {"window", "strided", "point", "grouped", "product", "attention"})

    def test_wrong_use(self):
        for args in (["lenet"], ["--only", "h100"], ["--compare", "--measure"], ["--compare", "--batch", "2"],
                     ["--compare", "lenet", "--type", "fp5"], ["--compare", "lenet", "--price", "-1"],
                     ["--compare", "lenet", "--facts", "--run"], ["--run"]):
            self.assertEqual(self.cairn("devices", *args).returncode, 2, args)
        done = self.cairn("devices", "--compare", "--facts", "--only", "no such chip")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no processor 'no such chip'", done.stderr)


class Roofline(Case):
    """Layers under the roofs. Times are not looked at; counters of energy are files made here."""

    def test_picture_and_numbers(self):
        out = self.folder / "r.svg"
        found = self.json("roofline", "lenet", "-o", out, "--runs", 3, "--powercap", self.folder)
        self.assertEqual(found["network"], "lenet")
        self.assertEqual({row["op"] for row in found["layers"]} & {"conv2d", "linear"}, {"conv2d", "linear"})
        root, texts = self.picture(out)
        drawn = [t.text for t in root.iter(SVG + "title")][1:]
        self.assertEqual(sum(": conv2d, " in t for t in drawn), 2)
        self.assertTrue(any("float32 product" in t for t in texts))
        self.assertEqual(found["joules"], {})
        text = self.good("roofline", "lenet", "-o", out, "--runs", 3, "--powercap", self.folder / "nowhere")
        if "GPU" not in text:
            self.assertIn("shows no counters", text)

    def test_energy(self):
        for name, label in (("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core"), ("intel-rapl:1", "package-1")):
            (self.folder / name).mkdir()
            (self.folder / name / "name").write_text(label + "\n", encoding="utf-8")
            (self.folder / name / "max_energy_range_uj").write_text("262143328850\n", encoding="utf-8")
            if label != "package-1":  # one that may not be read
                (self.folder / name / "energy_uj").write_text("1234567\n", encoding="utf-8")
        found = self.json("roofline", "lenet", "-o", self.folder / "r.svg", "--runs", 3, "--powercap", self.folder)
        self.assertEqual({k: v for k, v in found["joules"].items() if not k.startswith("GPU")}, {"package-0": 0})

    def test_wrong_use(self):
        for args in ([], ["lenet"], ["lenet", "-o", "r.svg", "--runs", "x"], ["lenet", "-o", "r.svg", "--batch", "0"]):
            self.assertEqual(self.cairn("roofline", *args).returncode, 2, args)
        self.assertEqual(self.cairn("roofline", "no_such_net", "-o", self.folder / "r.svg").returncode, 1)


def rounded(x, bits):
    """To so many significant bits, ties to even."""
    if not x:
        return x
    unit = 2.0 ** (math.frexp(x)[1] - bits)
    return round(x / unit) * unit


class TensorCore(Case):
    def test_fragments(self):
        found = self.json("tensorcore", "100,50,30", "--on", "A100")
        self.assertEqual(found["fragments"], 7 * 4 * 4)
        self.assertAlmostEqual(found["wanted_part"], 100 * 50 * 30 / (112 * 64 * 32))
        self.assertEqual((found["tiles"], found["waves"], found["bytes_of_a_load"]), (1, 1, 4))
        self.assertAlmostEqual(found["busy_part"], 1 / 108)
        found = self.json("tensorcore", "8192,64,4096", "--fragment", "wgmma.m64n128k16", "--on", "H100")
        self.assertEqual((found["wanted_part"], found["tiles"], found["waves"]), (1, 2048, 16))
        self.assertAlmostEqual(found["busy_part"], 2048 / (16 * 132))
        for n, size in ((64, 16), (68, 8), (66, 4), (65, 2)):
            self.assertEqual(self.json("tensorcore", f"16,{n},64")["bytes_of_a_load"], size)

    def test_errors_are_those_of_the_sums(self):
        """Every kind of sum once more, here, on a product of the user's."""
        draw = random.Random(11)
        m, k, n = 4, 40, 3
        a = [f32(draw.uniform(-2, 2)) for _ in range(m * k)]
        b = [f32(draw.uniform(-2, 2)) for _ in range(k * n)]
        save_npy(self.folder / "a.npy", "f", (m, k), a)
        save_npy(self.folder / "b.npy", "f", (k, n), b)
        found = self.json("tensorcore", "--a", self.folder / "a.npy", "--b", self.folder / "b.npy", "--type", "bf16")
        x, y = [rounded(v, 8) for v in a], [rounded(v, 8) for v in b]
        exact = [sum(x[i * k + q] * y[q * n + j] for q in range(k)) for i in range(m) for j in range(n)]
        given = [sum(a[i * k + q] * b[q * n + j] for q in range(k)) for i in range(m) for j in range(n)]
        scale = max(map(abs, exact))
        for row, (bits, each) in zip(found["sums"], ((24, 16), (24, 1), (11, 16), (8, 16))):
            off, whole = [], []
            for at in range(m * n):
                i, j = divmod(at, n)
                total = 0.0
                for first in range(0, k, each):
                    part = sum(x[i * k + q] * y[q * n + j] for q in range(first, min(first + each, k)))
                    total = rounded(total + part, bits)
                off.append(abs(total - exact[at]) / scale)
                whole.append(abs(total - given[at]) / scale)
            # the differences are of float64's own last bits, where the sums are of float32
            self.assertAlmostEqual(row["largest"], max(off), delta=1e-12, msg=row["sum"])
            self.assertAlmostEqual(row["mean"], sum(off) / len(off), delta=1e-12, msg=row["sum"])
            self.assertAlmostEqual(row["largest_with_factors"], max(whole), delta=1e-12, msg=row["sum"])
            self.assertFalse(row["overflow"])

    def test_what_is_too_large_for_float16(self):
        save_npy(self.folder / "a.npy", "f", (1, 32), [60000.0] * 32)
        save_npy(self.folder / "b.npy", "f", (32, 1), [2.0] * 32)
        found = self.json("tensorcore", "--a", self.folder / "a.npy", "--b", self.folder / "b.npy", "--type", "f16")
        self.assertEqual([row["overflow"] for row in found["sums"]], [False, False, True, False])

    def test_picture(self):
        out = self.folder / "t.svg"
        text = self.good("tensorcore", "100,50,30", "-o", out)
        self.assertIn("65.4 % of what they compute is wanted", text)
        root, texts = self.picture(out)
        boxes = {r.attrib["class"]: r.attrib for r in root.iter(SVG + "rect") if "class" in r.attrib}
        used, lost = (float(boxes[c]["width"]) * float(boxes[c]["height"]) for c in ("used", "lost"))
        self.assertAlmostEqual(used / lost, 100 * 30 / (112 * 32), delta=0.01)
        self.assertTrue(any(t.startswith("7 \u00d7 4 fragments, 4 deep") for t in texts))
        self.assertTrue(any("4 bytes at a time, not 16" in t for t in texts))

    def test_measure(self):
        done = self.cairn("tensorcore", "64,64,64", "--measure", "--json")
        self.assertEqual(done.returncode, 0)
        if json.loads(done.stdout)["measured"]:
            self.assertTrue(all(row["seconds"] > 0 for row in json.loads(done.stdout)["measured"]))
        else:
            self.assertIn("no CUDA device here", done.stderr)

    def test_wrong_use(self):
        for args in ([], ["3,4"], ["3,4,5", "--type", "f64"], ["3,4,5", "--fragment", "mfma"], ["--a", "a.npy"],
                     ["3,4,5", "--on", "no such chip"], ["3,4,5", "--a", "a.npy", "--b", "b.npy"]):
            done = self.cairn("tensorcore", *args)
            self.assertEqual(done.returncode, 2, args)
            self.assertIn("usage: cairn tensorcore", done.stderr)


class Documentation(Case):
    def test_pictures_and_tables_are_those_of_the_command(self):
        done = subprocess.run([sys.executable, str(ROOT / "tools" / "docs" / "hardware.py"), "--check"], check=False,
                              capture_output=True, text=True, encoding="utf-8",
                              env={**os.environ, "CAIRN_BUILD_DIR": str(CAIRN.parent)})
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)

    def test_pictures_are_whole(self):
        for path in (ROOT / "docs" / "images").glob("*.svg"):
            if path.name.startswith(("systolic", "tensorcore", "roofline")):
                self.assertGreater(len(self.picture(path)[1]), 3)
                self.assertLess(path.stat().st_size, 65536)

    def test_commands_of_the_page_are_there(self):
        page = (ROOT / "docs" / "HARDWARE.md").read_text(encoding="utf-8")
        help_text = self.good("help")
        named = set(re.findall(r"`cairn (\w+)", page)) | set(re.findall(r"(?m)^    cairn (\w+)", page))
        self.assertEqual(named, {"devices", "roofline", "systolic", "tensorcore"})
        for name in named:
            self.assertRegex(help_text, rf"(?m)^  {name} ")
            options = self.good("help", name)
            for words in re.findall(rf"cairn {name}( [^`\n]*)", page):
                for option in re.findall(r"--[a-z]+", words):
                    self.assertIn(option, options, words)


if __name__ == "__main__":
    unittest.main()
