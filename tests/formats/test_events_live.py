#!/usr/bin/env python3
"""Reads a log that the program test_events wrote with TensorBoard's own code: its reader of event files, the plugins of
hyper-parameters and of the projector, `tensorboard --inspect`; histograms and curves are compared with those of PyTorch's
SummaryWriter. Skipped where TensorBoard is not installed.
"""
import io
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

live.need("numpy", "tensorboard")

import numpy as np  # noqa: E402
from tensorboard.backend.event_processing import event_accumulator, plugin_event_multiplexer  # noqa: E402

FOLDER = tempfile.TemporaryDirectory()


def read(folder):
    log = event_accumulator.EventAccumulator(str(folder), size_guidance=event_accumulator.STORE_EVERYTHING_SIZE_GUIDANCE)
    log.Reload()
    return log


class Events(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(FOLDER.name) / "run"
        subprocess.run([BUILD / "tests" / "formats" / "test_events", cls.folder], check=True)
        cls.log = read(cls.folder)

    def test_tags(self):
        tags = self.log.Tags()
        self.assertEqual(set(tags["scalars"]), {"loss", "final/accuracy"})
        self.assertEqual(set(tags["histograms"]), {"weights", "constant", "diverged"})
        self.assertEqual(set(tags["images"]), {"picture", "grid", "grey"})
        self.assertTrue(tags["graph"])
        self.assertTrue({"note", "curve"} <= set(tags["tensors"]))
        self.assertEqual(self.log.file_version, 2.0)

    def test_scalars(self):
        events = self.log.Scalars("loss")
        self.assertEqual([e.step for e in events], list(range(10)))
        for e in events:
            self.assertAlmostEqual(e.value, 1 / (1 + e.step), places=7)

    def test_histograms(self):
        try:
            from torch.utils.tensorboard.summary import histogram
            from torch.utils.tensorboard.writer import SummaryWriter
        except ImportError:
            self.skipTest("PyTorch is not installed")
        writer = SummaryWriter(log_dir=tempfile.mkdtemp(dir=FOLDER.name))
        bins = writer.default_bins
        writer.close()
        spread = (np.arange(1000, dtype=np.float32) / np.float32(100) - np.float32(4.5)).astype(np.float64)
        for tag, values in (("weights", spread), ("constant", np.full(5, 2.5))):
            want = histogram(tag, values, bins).value[0].histo
            have = self.log.Histograms(tag)[0].histogram_value
            self.assertEqual(list(want.bucket_limit), list(have.bucket_limit))
            self.assertEqual(list(want.bucket), list(have.bucket))
            self.assertEqual((want.min, want.max, want.num), (have.min, have.max, have.num))
            self.assertAlmostEqual(want.sum, have.sum, places=6)
            self.assertAlmostEqual(want.sum_squares, have.sum_squares, places=6)
        self.assertEqual(self.log.Histograms("diverged")[0].histogram_value.num, 0)

    def test_images(self):
        try:
            from PIL import Image
        except ImportError:
            self.skipTest("Pillow is not installed")
        ramp = np.arange(60).reshape(3, 4, 5).transpose(1, 2, 0) / 60
        event = self.log.Images("picture")[0]
        self.assertEqual((event.height, event.width, event.step), (4, 5, 1))
        image = np.asarray(Image.open(io.BytesIO(event.encoded_image_string)))
        self.assertEqual(image.shape, (4, 5, 3))
        self.assertLessEqual(np.abs(image - ramp * 255).max(), 0.51)
        grid = np.asarray(Image.open(io.BytesIO(self.log.Images("grid")[0].encoded_image_string)))
        many = (np.arange(420) % 256).astype(np.uint8).reshape(10, 6, 7)
        self.assertEqual(grid.shape, (12, 56))
        for i in range(10):
            y, x = i // 8 * 6, i % 8 * 7
            self.assertTrue((grid[y:y + 6, x:x + 7] == many[i]).all())
        bytes_ = self.log.Images("grey")[0].encoded_image_string
        grey = np.asarray(Image.open(io.BytesIO(bytes_)))
        self.assertTrue((grey == (np.arange(60000) % 7).reshape(300, 200)).all())
        self.assertLess(len(bytes_), 5000)

    def test_text_and_curve(self):
        note = self.log.Tensors("note")[0]
        self.assertEqual(note.tensor_proto.string_val[0], b"some **bold** words")
        self.assertEqual(self.log.SummaryMetadata("note").plugin_data.plugin_name, "text")
        self.assertEqual(self.log.SummaryMetadata("curve").plugin_data.plugin_name, "pr_curves")
        try:
            from torch.utils.tensorboard.summary import compute_curve
        except ImportError:
            self.skipTest("PyTorch is not installed")
        labels = np.arange(50) % 3 == 0
        guesses = (np.arange(50, dtype=np.float32) / np.float32(49)).astype(np.float64)
        want = compute_curve(labels, guesses, 127)
        have = np.array(self.log.Tensors("curve")[0].tensor_proto.float_val).reshape(6, 127)
        np.testing.assert_allclose(have, want, rtol=1e-6)

    def test_graph(self):
        graph = self.log.Graph()
        nodes = {n.name: n for n in graph.node}
        self.assertEqual(len(nodes), len(graph.node))
        self.assertIn("input", nodes)
        self.assertIn("Sequential/Sequential[0]/Conv2d[0]/weight", nodes)
        inside = [n for n in nodes if n.startswith("Sequential/Linear[2]/")]
        self.assertGreaterEqual(len(inside), 3)
        for node in graph.node:
            for name in node.input:
                self.assertIn(name.split(":")[0], nodes)
        shape = nodes["input"].attr["_output_shapes"].list.shape[0]
        self.assertEqual([d.size for d in shape.dim], [2, 1, 8, 8])
        reached, todo = set(), ["output"]
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += [i.split(":")[0] for i in nodes[name].input]
        self.assertIn("input", reached)

    def test_hparams(self):
        from tensorboard.backend.event_processing import data_provider
        from tensorboard.plugins import base_plugin
        from tensorboard.plugins.hparams import backend_context, get_experiment, list_session_groups, api_pb2
        multiplexer = plugin_event_multiplexer.EventMultiplexer()
        multiplexer.AddRunsFromDirectory(FOLDER.name)
        multiplexer.Reload()
        provider = data_provider.MultiplexerDataProvider(multiplexer, FOLDER.name)
        context = backend_context.Context(base_plugin.TBContext(data_provider=provider))
        from tensorboard import context as tb_context
        request = tb_context.RequestContext()
        experiment = get_experiment.Handler(request, context, "", api_pb2.GetExperimentRequest()).run()
        self.assertEqual({i.name for i in experiment.hparam_infos}, {"lr", "batch", "optimiser", "nesterov"})
        self.assertEqual([i.name.tag for i in experiment.metric_infos], ["final/accuracy"])
        wanted = api_pb2.ListSessionGroupsRequest(start_index=0, slice_size=9,
                                                  allowed_statuses=[api_pb2.Status.Value("STATUS_SUCCESS")])
        groups = list_session_groups.Handler(request, context, "", wanted).run().session_groups
        self.assertEqual(len(groups), 1)
        values = groups[0].hparams
        self.assertEqual(values["lr"].number_value, 0.125)
        self.assertEqual(values["batch"].number_value, 64)
        self.assertEqual(values["optimiser"].string_value, "adam")
        self.assertTrue(values["nesterov"].bool_value)
        self.assertAlmostEqual(groups[0].metric_values[0].value, 0.75)

    def test_projector(self):
        from google.protobuf import text_format
        from tensorboard.plugins.projector import projector_config_pb2
        text = (self.folder / "projector_config.pbtxt").read_text(encoding="utf-8")
        config = text_format.Parse(text, projector_config_pb2.ProjectorConfig())
        first, second = config.embeddings
        self.assertEqual((first.tensor_name, second.tensor_name), ("letters/a:00007", "bare:00000"))
        points = np.loadtxt(self.folder / first.tensor_path, delimiter="\t")
        np.testing.assert_array_equal(points, np.arange(15).reshape(5, 3) / 4)
        labels = (self.folder / first.metadata_path).read_text(encoding="utf-8").splitlines()
        self.assertEqual(labels, ["one", "two parts", "three", "four", "five"])
        self.assertEqual(list(first.sprite.single_image_dim), [6, 4])
        self.assertTrue((self.folder / first.sprite.image_path).read_bytes().startswith(b"\x89PNG"))
        self.assertFalse(second.metadata_path)

    def test_inspect(self):
        done = subprocess.run([sys.executable, "-m", "tensorboard.main", "--inspect", "--logdir", self.folder],
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        for word in ("scalars", "histograms", "images", "graph", "tensor"):
            self.assertIn(word, done.stdout)


if __name__ == "__main__":
    unittest.main()
