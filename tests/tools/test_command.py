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
