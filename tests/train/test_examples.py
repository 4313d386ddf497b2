#!/usr/bin/env python3
"""The training examples with arguments: their options, files and refusals, in small. (Without arguments tools/run-tests
runs every example by itself.)

With CAIRN_LONG=1 also the runs that examples/README.md has figures of, where their data are: t10k-images-idx3-ubyte.gz,
t10k-labels-idx1-ubyte.gz and tinyshakespeare.txt.gz in the folder $CAIRN_DATA or build/data.
"""
import gzip
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))
DATA = pathlib.Path(os.environ.get("CAIRN_DATA", ROOT / "build" / "data"))
LONG = os.environ.get("CAIRN_LONG") == "1"
SKIPPED = 77
TEXT = "".join(f"{i} stones and {i + 1} stones are {2 * i + 1} stones.\n" for i in range(200))


def example(name, *args, status=0):
    """Its output, errors included."""
    done = subprocess.run([BUILD / "examples" / name, *map(str, args)], check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode != status:
        raise AssertionError(f"{name} {args}: exit status {done.returncode}, not {status}\n{done.stdout}")
    return done.stdout


class Examples(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def idx(self, n=240, side=12):
        """Images of ten kinds, each a bright row and a bright column of its own, and their labels."""
        images, labels = bytearray(), bytearray()
        for i in range(n):
            kind = i * 7 % 10
            labels.append(kind)
            for y in range(side):
                for x in range(side):
                    images.append(255 if y == kind + 1 or x == 10 - kind else (x * y + i) % 32)
        paths = self.folder / "images.gz", self.folder / "labels"
        paths[0].write_bytes(gzip.compress(struct.pack(">4I", 0x803, n, side, side) + images))
        paths[1].write_bytes(struct.pack(">2I", 0x801, n) + labels)
        return paths

    def test_mnist_goes_on_from_a_checkpoint(self):
        images, labels = self.idx()
        whole = example("mnist", images, labels, "--train-on", 200, "--epochs", 12)
        self.assertRegex(whole, r"accuracy [\d.]+ % of 40 test images")
        checkpoint, log = self.folder / "last.ckpt", self.folder / "log"
        run = ["mnist", images, labels, "--train-on", 200, "--epochs", 12, "--save", checkpoint, "--log", log]
        first = example(*run)
        self.assertTrue(checkpoint.is_file() and list(log.glob("events.out.tfevents.*")))
        again = example(*run)  # there is nothing left to do
        result = re.compile(r"^accuracy .*", re.M)
        self.assertEqual(result.findall(first), result.findall(whole))
        self.assertEqual(result.findall(again), result.findall(whole))
        self.assertNotIn("epoch 1/", again)

    def test_char_gpt_reads_writes_and_logs(self):
        path, weights, log = self.folder / "text.gz", self.folder / "weights.pt", self.folder / "log"
        path.write_bytes(gzip.compress(TEXT.encode()))
        out = example("char_gpt", path, "--steps", 8, "--layers", 1, "--heads", 2, "--width", 16, "--context", 16,
                      "--batch", 4, "--seed", 3, "--lr", 0.01, "--save", weights, "--log", log)
        self.assertIn(f"{len(TEXT)} characters", out)
        self.assertRegex(out, r"validation loss \d")
        self.assertTrue(weights.is_file() and list(log.glob("events.out.tfevents.*")))

    def test_char_lstm_reads_a_text(self):
        path = self.folder / "text"
        path.write_text(TEXT * 4, encoding="utf-8")
        self.assertRegex(example("char_lstm", path, 2), r"step +2  loss [\d.]+  validation [\d.]+")

    def test_gan_logs_pictures(self):
        log = self.folder / "log"
        subprocess.run([BUILD / "examples" / "gan", "1", log], check=False, stdout=subprocess.DEVNULL)
        self.assertTrue(list(log.glob("events.out.tfevents.*")))

    def test_refusals(self):
        nowhere = self.folder / "nowhere"
        for name, args in (("mnist", [nowhere, nowhere]), ("char_gpt", [nowhere]), ("char_lstm", [nowhere]),
                           ("transfer", ["resnet18", nowhere, nowhere])):
            self.assertIn("No such file", example(name, *args, status=1))
        for name, args in (("mnist", ["one"]), ("mnist", ["--epochs"]), ("char_gpt", ["--heads", 3]),
                           ("char_gpt", ["--what", 3]), ("transfer", ["resnet18"])):
            self.assertIn("usage:", example(name, *args, status=2))
        short = self.folder / "short"
        short.write_text("too short", encoding="utf-8")
        for name in ("char_gpt", "char_lstm"):
            self.assertIn("too short", example(name, short, status=1))

    def data(self, *names):
        if not LONG:
            self.skipTest("takes a minute or more: CAIRN_LONG=1")
        paths = [DATA / name for name in names]
        if not all(path.is_file() for path in paths):
            self.skipTest("data sets are not in CAIRN_DATA")
        return paths

    def test_mnist_itself(self):
        paths = self.data("t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz")
        out = example("mnist", *paths, "--train-on", 9000)
        self.assertGreater(float(re.search(r"accuracy ([\d.]+) % of 1000", out).group(1)), 98)

    def test_shakespeare(self):
        out = example("char_gpt", *self.data("tinyshakespeare.txt.gz"))
        self.assertLess(float(re.search(r"validation loss ([\d.]+)", out).group(1)), 1.8)


if __name__ == "__main__":
    if not os.access(BUILD / "examples" / "mnist", os.X_OK):
        print("skipped: the examples are not built")
        sys.exit(SKIPPED)
    unittest.main()
