#!/usr/bin/env python3
"""Reads the logs of a fit that was stopped in the middle and went on (written by the program test_callbacks) with Python's
own csv, with pandas and safetensors where they are there, and with TensorBoard's reader. Skipped where TensorBoard is
not installed.
"""
import csv
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CAIRN_BUILD_DIR", ROOT / "build" / "default"))

sys.path.append(str(ROOT / "tests"))
import live  # noqa: E402

live.need("tensorboard")

from tensorboard.backend.event_processing import event_accumulator  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()


class Logs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(FOLDER.name) / "run"
        subprocess.run([BUILD / "tests" / "train" / "test_callbacks", cls.folder], check=True)
        with open(cls.folder / "fit.csv", newline="", encoding="utf-8") as f:
            cls.rows = list(csv.DictReader(f))
        size = event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE
        cls.log = event_accumulator.EventAccumulator(str(cls.folder), size_guidance=size)
        cls.log.Reload()

    def test_csv(self):
        self.assertEqual([r["epoch"] for r in self.rows], ["1", "2", "3", "4"])
        self.assertEqual(list(self.rows[0]), ["epoch", "loss", "accuracy", "lr", "val_loss", "val_accuracy"])
        for row in self.rows:
            self.assertTrue(0 < float(row["loss"]) < 5)
            self.assertEqual(float(row["lr"]), 0.003)

    def test_pandas(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed")
        table = pandas.read_csv(self.folder / "fit.csv")
        self.assertEqual(list(table["epoch"]), [1, 2, 3, 4])
        self.assertTrue((table["loss"] > 0).all())

    def test_checkpoint(self):
        try:
            from safetensors import safe_open
        except ImportError:
            self.skipTest("safetensors is not installed")
        with safe_open(self.folder / "run.safetensors", "numpy") as f:
            self.assertEqual(f.get_tensor("net.0.weight").shape, (6, 1, 3, 3))
            self.assertEqual(f.get_tensor("optim.state.0.exp_avg").shape, (6, 1, 3, 3))
            run = json.loads(f.metadata()["cairn.run"])
            self.assertEqual((run["epoch"], run["step"]), (4, 28))
            self.assertEqual(run["net"]["0.weight"], {"$tensor": "net.0.weight"})

    def test_events(self):
        tags = self.log.Tags()
        wanted = {"batch/loss", "loss/train", "loss/validation", "accuracy/train", "accuracy/validation", "lr"}
        self.assertEqual(set(tags["scalars"]), wanted)
        self.assertIn("weights/0.weight", tags["histograms"])
        self.assertTrue(tags["graph"])
        steps = [e.step for e in self.log.Scalars("batch/loss")]
        self.assertEqual(steps, list(range(1, 29)))  # each once, though two processes wrote them
        for tag, column in (("loss/train", "loss"), ("loss/validation", "val_loss"), ("accuracy/train", "accuracy")):
            events = self.log.Scalars(tag)
            self.assertEqual([e.step for e in events], [7, 14, 21, 28])
            for event, row in zip(events, self.rows):
                self.assertAlmostEqual(event.value, float(row[column]), places=5)


if __name__ == "__main__":
    unittest.main()
