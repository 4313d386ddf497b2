#!/usr/bin/env python3
"""`cairn run`, `check`, `inspect`, `time` and `diff` on small ONNX models, from outside.

usage: tests/tools/test_onnx_commands.py      (CAIRN_BUILD_DIR: where the command was built; default build/default)
"""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAIRN = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default")) / "cairn"
sys.path.insert(0, str(ROOT / "tests" / "python"))

from onnx_files import FLOAT, INT64, STRING, info, load_npy, model, node, save_npy, sequence, weight  # noqa: E402

# two inputs, one with a '=' in its name; an output whose name is no name of a file
LINEAR = model(node("MatMul", "x=1 w", "xw"), node("Add", "xw b", "out/y:0"), node("Shape", "xw", "size"),
               weight("w", [1, 2, 3, 4], 2, 2), info(11, "x=1", FLOAT, ("N", 2)),
               info(11, "b", FLOAT, (2,)), info(12, "out/y:0", FLOAT, ("N", 2)), info(12, "size", INT64, (2,)))
# its sizes are known when it runs
OPEN = model(node("Add", "x b", "y"), info(11, "x", FLOAT, ("N",)), info(11, "b", FLOAT, ("M",)),
             info(12, "y", FLOAT, ("K",)))
IMAGE = model(node("Identity", "picture", "y"), info(11, "picture", FLOAT, ("N", 3, 2, 2)),
              info(12, "y", FLOAT, ("N", 3, 2, 2)))
UNKNOWN = model(node("Relu", "x", "a"), node("NoSuchThing", "a", "b"), node("NoSuchThing", "b", "c"),
                node("NorThis", "c", "y"), info(11, "x", FLOAT, (3,)), info(12, "y", FLOAT, (3,)))
SEQUENCE = model(node("SplitToSequence", "x", "y"), info(11, "x", FLOAT, (2, 2)), sequence(12, "y", FLOAT))


def png(width, height, rgb):
    """A picture of one colour."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(rgb) * width) * height
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


class Commands(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)

    def file(self, name, data):
        (self.folder / name).write_bytes(data)
        return str(self.folder / name)

    def array(self, name, code, shape, values):
        save_npy(self.folder / name, code, shape, values)
        return str(self.folder / name)

    def cairn(self, *args):
        return subprocess.run([str(CAIRN), *args], check=False, capture_output=True, text=True, encoding="utf-8",
                              timeout=600)

    def good(self, *args, status=0):
        done = self.cairn(*args)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr, "")
        return done.stdout

    def bad(self, *args, status=1):
        done = self.cairn(*args)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stderr

    def linear(self):
        return (self.file("m.onnx", LINEAR), self.array("x.npy", "f", (3, 2), [1, 0, 0, 1, 1, 1]),
                self.array("b.npy", "f", (2,), [10, 20]))

    def test_run(self):
        path, x, b = self.linear()
        for way in ((), ("--eager",), ("--threads", "1"), ("--device=cpu",)):
            out = self.folder / "out" / str(len(way))
            self.assertEqual(self.good("run", path, "--input", f"x=1={x}", f"--input=b={b}", "--output-dir", str(out), *way),
                             "")
            self.assertEqual(sorted(os.listdir(out)), ["out_y_0.npy", "size.npy"])
            self.assertEqual(load_npy(out / "out_y_0.npy"), ((3, 2), [11, 22, 13, 24, 14, 26]))
            self.assertEqual(load_npy(out / "size.npy"), ((2,), [3, 2]))
        self.assertIn("26", self.good("run", path, "--input", f"x=1={x}", "--input", f"b={b}"))

    def test_run_says_what_is_wrong(self):
        path, x, b = self.linear()
        self.assertIn("'x=1' (float32 [N, 2]), 'b' (float32 [2])", self.bad("run", path))
        self.assertIn("no input 'z'; it has 'x=1', 'b'", self.bad("run", path, "--input", f"z={x}"))
        self.assertIn("given twice", self.bad("run", path, "--input", f"b={b}", "--input", f"b={b}"))
        self.assertIn("no file", self.bad("run", path, "--input", "b=nothing.npy"))
        whole = self.array("w.npy", "q", (2,), [1, 2])
        self.assertIn("must be of float32", self.bad("run", path, "--input", f"x=1={x}", "--input", f"b={whole}"))
        wrong = self.array("v.npy", "f", (3,), [1, 2, 3])
        self.assertIn("dimension 0 of input 'b' must be 2",
                      self.bad("run", path, "--input", f"x=1={x}", "--input", f"b={wrong}"))
        self.assertIn("(Add, opset 17)", self.bad("run", self.file("o.onnx", OPEN), "--input", f"x={b}", "--input",
                                                  f"b={wrong}"))
        self.assertIn("NoSuchThing", self.bad("run", self.file("u.onnx", UNKNOWN), "--input", wrong))
        self.assertNotEqual(self.bad("run", self.file("n.onnx", b"\xff\xff\xff")), "")
        self.assertIn("no_such.onnx", self.bad("run", "no_such.onnx"))
        self.assertNotEqual(self.bad("run", path, "--device", "nowhere"), "")
        self.assertNotEqual(self.bad("run", status=2), "")
        self.assertNotEqual(self.bad("run", path, "--nonsense", status=2), "")
        two = model(node("Relu", "x", "a/b"), node("Relu", "x", "a:b"), info(11, "x", FLOAT), info(12, "a/b", FLOAT),
                    info(12, "a:b", FLOAT))
        self.assertIn("a_b.npy", self.bad("run", self.file("two.onnx", two), "--input", wrong, "--output-dir",
                                          str(self.folder)))

    def test_run_on_an_image(self):
        path, picture = self.file("m.onnx", IMAGE), self.file("p.png", png(4, 6, (255, 0, 51)))
        self.good("run", path, "--input", picture, "--output-dir", str(self.folder))
        shape, values = load_npy(self.folder / "y.npy")
        self.assertEqual(shape, (1, 3, 2, 2))
        for got, want in zip(values, [1] * 4 + [0] * 4 + [0.2] * 4):
            self.assertAlmostEqual(got, want, places=6)
        self.good("run", path, "--input", f"picture={picture}", "--mean", "0.5", "--std", "0.5,0.25,0.1",
                  "--output-dir", str(self.folder))
        for got, want in zip(load_npy(self.folder / "y.npy")[1], [1] * 4 + [-2] * 4 + [-3] * 4):
            self.assertAlmostEqual(got, want, places=5)
        self.assertIn("no image", self.bad("run", self.file("l.onnx", LINEAR), "--input", f"b={picture}"))
        self.assertIn("--mean", self.bad("run", path, "--input", picture, "--mean", "1,2"))

    def test_run_with_sequences_and_texts(self):
        x = self.array("x.npy", "f", (2, 2), [1, 2, 3, 4])
        self.good("run", self.file("s.onnx", SEQUENCE), "--input", x, "--output-dir", str(self.folder / "out"))
        self.assertEqual(load_npy(self.folder / "out" / "y.1.npy"), ((1, 2), [3, 4]))
        texts = model(node("Identity", "x", "y"), info(11, "x", STRING, ("N",)), info(12, "y", STRING, ("N",)))
        lines = self.file("in.txt", "one\nand two\n".encode())
        self.good("run", self.file("t.onnx", texts), "--input", f"x={lines}", "--output-dir", str(self.folder))
        self.assertEqual((self.folder / "y.txt").read_text(encoding="utf-8"), "one\nand two\n")

    def test_check(self):
        path = self.linear()[0]
        text = self.good("check", path)
        self.assertIn("opset 17", text)
        self.assertRegex(text, r"(?m)^MatMul +1  matmul\(%0, %1\)$")
        self.assertIn("cairn has all of its operators", text)
        text = self.good("check", path, "--run", "--size", "N=5")
        self.assertRegex(text, r"(?m)^eager +runs: ")
        self.assertRegex(text, r"(?m)^compiled +runs: ")
        text = self.good("check", self.file("u.onnx", UNKNOWN), status=1)
        self.assertRegex(text, r"(?m)^Relu +1  relu\(%0\)$")
        self.assertIn("node 'b' (NoSuchThing, opset 17) and 1 others: cairn does not have the operator", text)
        self.assertIn("node 'y' (NorThis, opset 17): cairn does not have the operator", text)
        self.assertIn("cannot run 3 of its nodes", text)

    def test_inspect(self):
        text = self.good("inspect", self.linear()[0], "--weights", "--nodes")
        for pattern in (r"opset +17", r"inputs +x=1 +float32 \[N, 2\]", r" +b +float32 \[2\]",
                        r"outputs +out/y:0 +float32 \[N, 2\]", r"weights +1, 4 elements, 0\.00 MB",
                        r" +w +float32 \[2, 2\]", r"nodes +3", r" +MatMul  xw"):
            self.assertRegex(text, f"(?m)^{pattern}$")
        self.assertIn("NoSuchThing  b: cairn does not have the operator",
                      self.good("inspect", self.file("u.onnx", UNKNOWN), "--nodes"))

    def test_time(self):
        text = self.good("time", self.linear()[0], "--runs", "2", "--size", "N=3", "--threads", "1")
        self.assertRegex(text, r"(?m)^eager .* ms, .*; 2 runs$")
        self.assertRegex(text, r"(?m)^compiled .* ms, .*; 2 runs$")
        self.assertRegex(text, r"(?m)^MatMul +1 +\d+\.\d+ +\d+\.\d%$")
        text = self.good("time", self.linear()[0], "--runs", "1", "--nodes", "--input", "x=1=7,2")
        self.assertRegex(text, r"(?m)^MatMul xw +1 ")

    def test_diff(self):
        path = self.linear()[0]
        other = self.file("o.onnx", LINEAR.replace(struct.pack("<4f", 1, 2, 3, 4), struct.pack("<4f", 1, 2, 3, 4.5)))
        self.assertRegex(self.good("diff", path, path), r"(?m)^out/y:0 +same: apart by 0 at most")
        text = self.good("diff", path, other, "--size", "N=4", status=1)
        self.assertRegex(text, r"(?m)^out/y:0 +differs: ")
        self.assertRegex(text, r"(?m)^size +same: ")
        self.good("diff", path, other, "--atol", "10")
        self.assertIn("no input for", self.bad("diff", self.file("u.onnx", IMAGE), path))


if __name__ == "__main__":
    unittest.main()
