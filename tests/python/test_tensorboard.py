"""cairn.utils.tensorboard: what TensorBoard's own reader finds in our files, and that torch's writer says the same."""
import io
import os
import re
import socket
import tempfile
import unittest

import cairn
from cairn import nn
from cairn.utils.tensorboard import SummaryWriter

try:
    import numpy
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    EventAccumulator = None
try:
    from torch.utils import tensorboard as theirs
except ImportError:
    theirs = None
try:
    import matplotlib
except ImportError:
    matplotlib = None
try:
    from PIL import Image
except ImportError:
    Image = None

needs_tensorboard = unittest.skipUnless(EventAccumulator, "tensorboard is not installed")


def read(folder):
    found = EventAccumulator(folder, size_guidance={k: 0 for k in ("scalars", "histograms", "images", "tensors")})
    found.Reload()
    return found


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name


class TestFolders(Case):
    def test_name(self):
        before = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        with SummaryWriter(comment="_lr1") as writer:
            name = writer.get_logdir()
        self.assertRegex(name, r"^runs/[A-Z][a-z]{2}\d\d_\d\d-\d\d-\d\d_%s_lr1$" % re.escape(socket.gethostname()))
        self.assertTrue(os.path.isdir(name))
        with SummaryWriter("logs/x", filename_suffix=".mine") as writer:
            self.assertEqual((writer.log_dir, writer.get_logdir()), ("logs/x", "logs/x"))
        self.assertTrue(os.listdir("logs/x")[0].endswith(".mine"))
        self.assertIn("tfevents", os.listdir("logs/x")[0])

    def test_faults(self):
        with open(os.path.join(self.folder, "file"), "w"):
            pass
        with self.assertRaises(OSError):
            SummaryWriter(os.path.join(self.folder, "file", "below"))
        writer = SummaryWriter(self.folder)
        with self.assertRaises(ValueError):
            writer.add_image("x", cairn.ones(3, 4), dataformats="CHW")
        with self.assertRaises(TypeError):
            writer.add_hparams([1], {})
        writer.close()
        writer.close()


@needs_tensorboard
class TestReading(Case):
    def write(self, **how):
        return SummaryWriter(self.folder, **how)

    def test_scalars(self):
        with self.write() as writer:
            for i in range(3):
                writer.add_scalar("loss", 0.5 * i, i)
            writer.add_scalar("loss", cairn.tensor([2.5]), global_step=3, walltime=12.5)
            writer.add_scalar("loss", numpy.float32(4), 4)
            writer.add_scalar("no step", 1)
        found = read(self.folder).Scalars("loss")
        self.assertEqual([(e.step, e.value) for e in found], [(0, 0), (1, 0.5), (2, 1), (3, 2.5), (4, 4)])
        self.assertEqual(found[3].wall_time, 12.5)
        self.assertGreater(found[4].wall_time, 1e9)
        self.assertEqual(read(self.folder).Scalars("no step")[0].step, 0)

    def test_flush(self):
        writer = self.write()
        writer.add_scalar("x", 1, 1)
        writer.flush()
        self.assertEqual(len(read(self.folder).Scalars("x")), 1)
        writer.close()
        writer.add_scalar("x", 2, 2)  # begins another file
        writer.close()
        self.assertEqual(len(os.listdir(self.folder)), 2)

    def test_several(self):
        with self.write() as writer:
            writer.add_scalars("run/both", {"a": 1, "b": 2}, 5)
        for name, value in (("a", 1), ("b", 2)):
            event, = read(os.path.join(self.folder, "run_both_" + name)).Scalars("run/both")
            self.assertEqual((event.step, event.value), (5, value))

    def test_purge(self):
        with self.write() as writer:
            for i in range(4):
                writer.add_scalar("x", i, i)
        with self.write(purge_step=2) as writer:
            writer.add_scalar("x", 20, 2)
        self.assertEqual([e.value for e in read(self.folder).Scalars("x")], [0, 1, 20])

    def test_histogram(self):
        values = cairn.randn(1000)
        with self.write() as writer:
            writer.add_histogram("w", values, 1)
            writer.add_histogram("list", [1, 2, 3.0], 1)
        found = read(self.folder).Histograms("w")[0].histogram_value
        self.assertEqual(found.num, 1000)
        self.assertAlmostEqual(found.sum, values.double().sum().item(), 6)
        if theirs:
            with tempfile.TemporaryDirectory() as folder:
                with theirs.SummaryWriter(folder) as writer:
                    writer.add_histogram("w", values.numpy(), 1)
                want = read(folder).Histograms("w")[0].histogram_value
            self.assertEqual(list(found.bucket), list(want.bucket))
            self.assertTrue(numpy.allclose(found.bucket_limit, want.bucket_limit))

    def test_histogram_bins(self):
        values = cairn.tensor([0.0, 0.1, 0.2, 0.4, 0.8, 1.0])
        with self.write() as writer:
            writer.add_histogram("edges", values, 1, bins=[0.0, 0.25, 0.5, 1.0])
            writer.add_histogram("count", values, 1, bins=2)
            writer.add_histogram("fewer", values, 1, bins=[0.0, 0.25, 0.5, 0.75, 1.0], max_bins=2)
            writer.add_histogram("own", values, 1, max_bins=10)
            with self.assertRaises(ValueError):
                writer.add_histogram("falling", values, 1, bins=[1.0, 0.0])
            if numpy:
                writer.add_histogram("auto", values, 1, bins="auto")
        found = read(self.folder)
        self.assertEqual(self.buckets(found, "edges"), ([0.0, 0.25, 0.5, 1.0], [0, 3, 1, 2]))
        self.assertEqual(self.buckets(found, "count"), ([0.0, 0.5, 1.0], [0, 4, 2]))
        self.assertEqual(self.buckets(found, "fewer"), ([0.0, 0.5, 1.0], [0, 4, 2]))
        self.assertLessEqual(len(self.buckets(found, "own")[0]), 11)
        if theirs:
            with tempfile.TemporaryDirectory() as folder:
                with theirs.SummaryWriter(folder) as writer:
                    writer.add_histogram("auto", values.numpy(), 1, bins="auto")
                want = self.buckets(read(folder), "auto")
            got = self.buckets(found, "auto")
            self.assertEqual(got[1], want[1])
            self.assertTrue(numpy.allclose(got[0], want[0]))

    def buckets(self, found, tag):
        value = found.Histograms(tag)[0].histogram_value
        return [*value.bucket_limit], [*value.bucket]

    def test_scalar_types(self):
        exact = 0.1234567890123456
        with self.write() as writer:
            writer.add_scalar("new", exact, 1, new_style=True)
            writer.add_scalar("double", exact, 1, new_style=True, double_precision=True)
        found = read(self.folder)
        self.assertEqual(found.Tensors("double")[0].tensor_proto.double_val[0], exact)
        self.assertAlmostEqual(found.Tensors("new")[0].tensor_proto.float_val[0], exact, 6)

    def test_queue(self):
        writer = SummaryWriter(self.folder, max_queue=3)
        self.addCleanup(writer.close)
        for step in range(2):
            writer.add_scalar("x", step, step)
        self.assertEqual(read(self.folder).Tags()["scalars"], [])
        writer.add_scalar("x", 2, 2)
        self.assertEqual(len(read(self.folder).Scalars("x")), 3)

    def pixels(self, tag):
        event = read(self.folder).Images(tag)[0]
        if Image is None:
            self.skipTest("Pillow is not installed")
        return numpy.array(Image.open(io.BytesIO(event.encoded_image_string)))

    def test_images(self):
        image = (cairn.arange(24).reshape(2, 4, 3) * 10).to(cairn.uint8)  # HWC
        with self.write() as writer:
            writer.add_image("hwc", image, 1, dataformats="HWC")
            writer.add_image("chw", image.permute(2, 0, 1).float() / 255, 1)
            writer.add_image("array", image.numpy(), 1, dataformats="HWC")
            writer.add_image("hw", image[:, :, 0], 1, dataformats="HW")
            writer.add_images("grid", image.permute(2, 0, 1).expand(3, 3, 2, 4), 1)
            writer.add_images("nhwc", image.unsqueeze(0), 1, dataformats="NHWC")
        for tag in ("hwc", "chw", "array", "nhwc"):
            self.assertEqual(self.pixels(tag).tolist(), image.tolist())
        self.assertEqual(self.pixels("hw").tolist(), image[:, :, 0].tolist())
        self.assertEqual(self.pixels("grid").shape, (2, 12, 3))

    @unittest.skipUnless(matplotlib, "matplotlib is not installed")
    def test_figure(self):
        matplotlib.use("Agg")
        from matplotlib import pyplot

        figure = pyplot.figure(figsize=(2, 1), dpi=50)
        with self.write() as writer:
            writer.add_figure("plot", figure, 1)
        self.assertEqual(self.pixels("plot").shape, (50, 100, 3))
        self.assertFalse(pyplot.fignum_exists(figure.number))

    def test_text(self):
        with self.write() as writer:
            writer.add_text("note", "**größe**", 3)
        event, = read(self.folder).Tensors("note/text_summary")
        self.assertEqual((event.step, event.tensor_proto.string_val[0].decode()), (3, "**größe**"))

    def test_graph(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc = nn.Linear(4, 2)

            def forward(self, x):
                return self.fc(x).relu()

        for net in (Net(), nn.Sequential(nn.Linear(4, 3), nn.ReLU())):
            with tempfile.TemporaryDirectory() as folder:
                with SummaryWriter(folder) as writer:
                    writer.add_graph(net, cairn.ones(1, 4))
                nodes = list(read(folder).Graph().node)
                self.assertTrue(any("fc" in n.name or "0" in n.name for n in nodes), [n.name for n in nodes])
                self.assertGreater(len(nodes), 3)
        with self.assertRaises(ValueError):
            self.write().add_graph(net)

    def test_pr_curve(self):
        with self.write() as writer:
            writer.add_pr_curve("pr", cairn.tensor([1, 0, 1, 1]), cairn.tensor([0.9, 0.2, 0.6, 0.4]), 1)
        event, = read(self.folder).Tensors("pr")
        self.assertEqual([d.size for d in event.tensor_proto.tensor_shape.dim], [6, 127])
        with SummaryWriter(os.path.join(self.folder, "five")) as writer:
            writer.add_pr_curve("pr", cairn.tensor([1, 0, 1, 1]), cairn.tensor([0.9, 0.2, 0.6, 0.4]), 1, 5)
        event, = read(os.path.join(self.folder, "five")).Tensors("pr")
        self.assertEqual([d.size for d in event.tensor_proto.tensor_shape.dim], [6, 5])
        self.assertEqual([*event.tensor_proto.float_val][:5], [3, 3, 2, 1, 0])

    def test_hparams(self):
        with self.write() as writer:
            writer.add_hparams({"lr": 0.1, "name": "x", "flag": True, "n": 3}, {"acc": cairn.tensor(0.5)},
                               run_name="one")
        found = read(os.path.join(self.folder, "one"))
        self.assertEqual(found.Scalars("acc")[0].value, 0.5)
        self.assertIn("_hparams_/session_start_info", found.summary_metadata)

    def test_embedding(self):
        with self.write() as writer:
            writer.add_embedding(cairn.eye(3), metadata=["a", "b", "c"], label_img=cairn.rand(3, 1, 2, 2),
                                 global_step=2, tag="t")
            writer.add_embedding(cairn.eye(2), metadata=[("x", 1), ("y", 2)], metadata_header=["name", "n"])
        config = open(os.path.join(self.folder, "projector_config.pbtxt"))
        self.addCleanup(config.close)
        text = config.read()
        for name in ("00002/t/tensors.tsv", "00002/t/metadata.tsv", "00002/t/sprite.png", "00000/default/tensors.tsv"):
            self.assertIn(name, text)
            self.assertTrue(os.path.isfile(os.path.join(self.folder, name)))
        with open(os.path.join(self.folder, "00000/default/metadata.tsv")) as file:
            self.assertEqual(file.read(), "name: x, n: 1\nname: y, n: 2\n")
        with self.assertRaisesRegex(ValueError, "labels"):
            self.write().add_embedding(cairn.eye(2), metadata=["a"])


if __name__ == "__main__":
    unittest.main()
