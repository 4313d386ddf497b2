#!/usr/bin/env python3
"""The `cairn` command, from outside: what it prints, its JSON, its exit status, and that the demo learns.

usage: tests/tools/test_command.py      (CAIRN_BUILD_DIR: where the command was built; default build/default)
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAIRN = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")) / "cairn"


def cairn(*args, env=None):
    return subprocess.run([str(CAIRN), *args], check=False, capture_output=True, text=True, encoding="utf-8",
                          env={**os.environ, **(env or {})}, timeout=600)


class Command(unittest.TestCase):
    def good(self, *args, env=None):
        done = cairn(*args, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def test_export_as_onnx(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "lenet.onnx")
            self.good("export", "lenet", "--to", "onnx", "--dynamic", "0=batch", "--opset", "18", "-o", path)
            text = self.good("inspect", path)
            self.assertIn("batch", text)
            self.assertIn("18", text)
            self.assertIn("Conv", self.good("check", path))
            beside = os.path.join(folder, "beside.onnx")
            self.good("export", "lenet", "--to", "onnx", "--external", "-o", beside)
            self.assertGreater(os.path.getsize(beside + ".data"), os.path.getsize(beside))
            for wrong in (("--opset", "x"), ("--dynamic", "batch"), ("--constants",)):
                self.assertEqual(cairn("export", "lenet", "--to", "onnx", *wrong, "-o", path).returncode, 2, wrong)
            self.assertEqual(cairn("export", "lenet", "--to", "stablehlo", "--opset", "18", "-o", path).returncode, 2)
            done = cairn("export", "lenet", "--to", "onnx", "--opset", "12", "-o", path)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))

    def test_version(self):
        header = (ROOT / "include" / "cairn" / "base.h").read_text(encoding="utf-8")
        version = re.search(r'CN_VERSION_STRING "(.*)"', header).group(1)
        self.assertEqual(self.good("version"), f"cairn {version}\n")
        self.assertEqual(self.good("--version"), f"cairn {version}\n")

    def test_help_names_every_command(self):
        text = self.good("help")
        for name in ("demo", "devices", "ops", "version"):
            self.assertRegex(text, rf"(?m)^  {name} ")

    def test_wrong_use(self):
        for args in ([], ["nonsense"], ["devices", "--nonsense"], ["ops", "--nonsense"], ["demo", "--epochs", "x"],
                     ["demo", "--epochs"], ["version", "1"]):
            done = cairn(*args)
            self.assertEqual(done.returncode, 2, args)
            self.assertNotEqual(done.stderr, "")
        self.assertEqual(cairn("ops", "no_such_op").returncode, 1)
        done = cairn("demo", "--device", "nowhere")
        self.assertEqual(done.returncode, 1)
        self.assertIn("nowhere", done.stderr)

    def test_graph(self):
        with tempfile.TemporaryDirectory() as folder:
            out = {end: pathlib.Path(folder) / f"net.{end}" for end in ("svg", "dot", "txt")}
            for path in out.values():
                self.assertEqual(self.good("graph", "resnet18", "--input", "3,64,64", "-o", str(path)), "")
            texts = self.drawn(out["svg"])
            self.assertEqual(sum(t.endswith(": conv2d") for t in texts), 20)
            for text in ("resnet18", "ResNet", "layer1 Sequential", "0 BasicBlock", "conv1: conv2d", "bn1: batch_norm",
                         "maxpool: max_pool2d", "add", "fc: linear", "weight [1000, 512], bias [1000]", "input", "output",
                         "[1, 64, 16, 16]", "[1, 3, 64, 64]"):
                self.assertIn(text, texts)
            self.assertNotIn("conv1 Conv2d", texts)  # a module of one op needs no frame
            dot = out["dot"].read_text(encoding="utf-8")
            self.assertEqual(dot.count('label="conv1: conv2d"'), 9)
            self.assertEqual(dot.count("{"), dot.count("}"))
            self.assertIn("= conv2d(%0, ", out["txt"].read_text(encoding="utf-8"))
            self.good("graph", str(out["txt"]), "-o", str(out["svg"]))  # text is a graph, too
            again = self.drawn(out["svg"])
            self.assertIn("conv1: conv2d", again)
            self.assertIn("weight [1000, 512], bias [1000]", again)
            self.good("graph", "resnet18", "--input", "3,64,64", "--depth", "2", "-o", str(out["svg"]))
            texts = self.drawn(out["svg"])
            self.assertEqual(texts.count("0 BasicBlock"), 4)
            self.assertIn("fc: linear", texts)
            self.assertNotIn("bn2: batch_norm", texts)
            flat = self.good("graph", "lenet", "--flat", "-o", "-")
            self.assertIn(" = reshape(", flat)
            self.assertNotIn(" = flatten(", flat[:flat.index("scope")])
            self.assertEqual(cairn("graph", "lenet").returncode, 2)
            self.assertEqual(cairn("graph", "lenet", "-o", "x.png").returncode, 2)
            self.assertEqual(cairn("graph", "lenet", "-o", "x.svg", "--depth", "-1").returncode, 2)
            self.assertEqual(cairn("graph", "no_such_net", "-o", str(out["svg"])).returncode, 1)

    def test_graph_of_a_branch(self):
        """What a node holds is drawn in a frame of its own."""
        branch = "  %0 = input float32 [3]\n  %1 = {0}(%0) : float32 [3]\n  %2 = {1}(%1) : float32 [3]\n  output %2\n"
        text = ("%0 = input bool []\n%1 = input float32 [3]\n%2 = cond(%0, {%1}) : float32 [3] {\n" +
                branch.replace("{0}", "exp").replace("{1}", "neg") + "} {\n" +
                branch.replace("{0}", "sin").replace("{1}", "tanh") + "}\n%3 = abs(%2) : float32 [3]\noutput %3\n")
        with tempfile.TemporaryDirectory() as folder:
            source, svg = pathlib.Path(folder) / "branch.txt", pathlib.Path(folder) / "branch.svg"
            source.write_text(text, encoding="utf-8")
            self.good("graph", str(source), "-o", str(svg))
            texts = self.drawn(svg)
            for word in ("cond", "true", "false", "exp", "neg", "sin", "tanh", "abs"):
                self.assertIn(word, texts)

    def drawn(self, path):
        """All texts of a picture; boxes must lie inside of it."""
        root = xml.etree.ElementTree.parse(path).getroot()
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(root.tag, space + "svg")
        shapes = [r.attrib for r in root.iter(space + "rect") if "class" in r.attrib]
        self.assertGreater(len(shapes), 3)
        for r in shapes:
            self.assertGreaterEqual(int(r["x"]), 0)
            self.assertLessEqual(int(r["x"]) + int(r["width"]), int(root.attrib["width"]))
            self.assertLessEqual(int(r["y"]) + int(r["height"]), int(root.attrib["height"]))
        boxes = [tuple(int(r[k]) for k in ("x", "y", "width", "height")) for r in shapes if r["class"] != "g"]
        for i, (x, y, w, h) in enumerate(boxes):
            for x2, y2, w2, h2 in boxes[:i]:
                self.assertFalse(x < x2 + w2 and x2 < x + w and y < y2 + h2 and y2 < y + h)
        return [t.text for t in root.iter(space + "text")]

    def test_devices(self):
        text = self.good("devices", env={"CAIRN_NUM_THREADS": "1", "CAIRN_ISA": "base"})
        self.assertRegex(text, r"(?m)^cpu +\S")
        self.assertRegex(text, r"(?m)^  threads +1$")
        self.assertRegex(text, r"(?m)^  isa +base$")
        self.assertRegex(text, r"(?m)^  memory +[\d.]+ [MG]B")

    def test_devices_measure(self):
        text = self.good("devices", "--measure")
        self.assertRegex(text, r"measured +\d+ GFLOP/s .*, [\d.]+ GB/s")

    def test_table_of_ops(self):
        text = self.good("ops")
        self.assertRegex(text, r"(?m)^add +pointwise +yes +cpu: vector loops")
        self.assertRegex(text, r"(?m)^reshape +\S+ +yes +")
        self.assertRegex(text, r"(?m)^argmax +structural +no +cpu: ")

    def test_ops_of_a_device(self):
        text = self.good("ops", "--device", "cpu")
        self.assertRegex(text, r"(?m)^add +pointwise +yes +vector loops$")
        self.assertRegex(text, r"(?m)^reshape +composite +yes +by its decomposition$")
        self.assertRegex(text, r"(?m)^select +view +yes +needs none$")
        self.assertNotIn("cpu:", text)
        self.assertRegex(self.good("ops", "mm", "--device", "cpu"), r"(?m)^  kernels   \w")
        self.assertEqual(cairn("ops", "--device", "no_such_device").returncode, 1)

    def test_one_op(self):
        text = self.good("ops", "cn_conv2d")
        self.assertTrue(text.startswith("conv2d(Tensor input, Tensor weight, "))
        self.assertRegex(text, r"(?m)^  types .*float32")
        self.assertIn("cn_add_", self.good("ops", "add"))


class Json(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        done = cairn("ops", "--json")
        cls.status, cls.ops = done.returncode, {op["name"]: op for op in json.loads(done.stdout or "[]")}

    def test_every_op_is_there(self):
        self.assertEqual(self.status, 0)
        names = re.findall(r"(?m)^  CNI_OP_(\w+)", (ROOT / "src" / "ops" / "api.gen.h").read_text(encoding="utf-8"))
        generated = {n.lower() for n in names if not n.startswith("COUNT")}
        self.assertGreater(len(generated), 80)
        self.assertEqual({n.lower() for n in self.ops}, generated)

    def test_parameters_follow_the_signature(self):
        for op in self.ops.values():
            inside = op["signature"][op["signature"].index("(") + 1:op["signature"].index(") ->")]
            for p in op["parameters"]:
                self.assertIn(f"{p['type']} {p['name']}", inside, op["name"])
                self.assertEqual(f" {p['name']}=" in inside, "default" in p, op["name"])
            self.assertGreater(len(op["doc"]), 4)
            self.assertIn(op["kind"], ("composite", "pointwise", "view", "structural"))

    def test_values(self):
        total = self.ops["sum"]
        self.assertEqual([p["name"] for p in total["parameters"]], ["input", "dim", "keepdim", "dtype"])
        self.assertEqual([p.get("default", "none") for p in total["parameters"]], ["none", None, False, None])
        self.assertEqual([p["keyword_only"] for p in total["parameters"]], [False, False, False, True])
        self.assertEqual(total["results"], ["out"])
        self.assertEqual(self.ops["sort"]["results"], ["values", "indices"])
        self.assertEqual(self.ops["cholesky" if "cholesky" in self.ops else "linalg_cholesky"]["namespace"], "linalg")
        self.assertEqual(next(p for p in self.ops["conv2d"]["parameters"] if p["name"] == "stride")["default"], [1, 1])

    def test_dtypes(self):
        self.assertIn("float16", self.ops["add"]["dtypes"])
        self.assertNotIn("float8_e4m3fn", self.ops["add"]["dtypes"])
        self.assertNotIn("float32", self.ops["bitwise_and"]["dtypes"])
        self.assertIn("bool", self.ops["gather"]["dtypes"])

    def test_kernels(self):
        self.assertTrue(self.ops["mm"]["kernels"]["cpu"])
        self.assertEqual(self.ops["permute"]["kernels"]["cpu"], [])
        self.assertFalse(self.ops["argmax"]["gradient"])


class Demo(unittest.TestCase):
    def setUp(self):
        self.out = tempfile.mkdtemp(prefix="cairn-demo-")
        self.addCleanup(shutil.rmtree, self.out, True)

    def test_learns(self):
        done = cairn("demo", "--out", self.out, env={"LC_ALL": "C"})
        self.assertEqual(done.returncode, 0, done.stderr)
        percent = re.search(r"not trained on: ([\d.]+) %", done.stdout)
        self.assertIsNotNone(percent, done.stdout)
        self.assertGreaterEqual(float(percent.group(1)), 97)
        self.assertNotIn("\r", done.stdout)
        self.assertTrue(done.stdout.isascii())
        self.assertEqual(len(re.findall("read as ", done.stdout)), 8)

    def test_same_seed_same_digits(self):
        last = [re.search("It reads .* %", cairn("demo", "--epochs=1", "--seed=3", "--out", self.out).stdout).group(0)
                for _ in range(2)]
        self.assertEqual(last[0], last[1])


if __name__ == "__main__":
    unittest.main()
