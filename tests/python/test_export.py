"""cairn.export and cairn.jit: graphs by themselves, in files, run without the code that made them."""
import os
import subprocess
import sys
import tempfile
import unittest

import cairn
import cairn.nn.functional as F
from cairn import export, jit, nn
from cairn.export import Dim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv1d(2, 4, 3, stride=2), nn.Linear(4, 3)

    def forward(self, x, scale=1.0):
        y = F.relu(self.conv(x)).mean(-1)
        return {"y": self.head(y) * scale, "half": x[:, :, : (x.shape[2] + 1) // 2]}


class ExportTest(unittest.TestCase):
    def setUp(self):
        cairn.manual_seed(1)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "net.safetensors")

    def assertSame(self, a, b):
        self.assertTrue(cairn.equal(a, b), "%s\n%s" % (a, b))

    def test_dynamic_shapes(self):
        net = Net().eval()
        batch, length = export.dims("batch", "length")
        program = export.export(net, (cairn.randn(2, 2, 9),), {"scale": 2.0}, dynamic_shapes=({0: batch, 2: length},))
        for b, t in ((1, 5), (3, 8), (7, 31)):
            x = cairn.randn(b, 2, t)
            want, have = net(x, scale=2.0), program(x)
            self.assertSame(want["y"], have["y"])
            self.assertSame(want["half"], have["half"])
        self.assertEqual(set(program.state_dict), {"conv.weight", "conv.bias", "head.weight", "head.bias"})
        self.assertIn("conv1d", program.graph)
        with self.assertRaises(RuntimeError):
            program(cairn.randn(1, 3, 9))

    def test_ranges_and_static_sizes(self):
        net = nn.Linear(4, 2)
        program = export.export(net, (cairn.randn(3, 4),), dynamic_shapes=({0: Dim("b", min=1, max=8), 1: 4},))
        self.assertEqual(program(cairn.randn(8, 4)).shape, (8, 2))
        with self.assertRaises(RuntimeError):
            program(cairn.randn(9, 4))
        fixed = export.export(net, (cairn.randn(3, 4),), dynamic_shapes=({0: Dim.STATIC},))
        with self.assertRaises(RuntimeError):
            fixed(cairn.randn(4, 4))
        with self.assertRaisesRegex(ValueError, "entries"):
            export.export(net, (cairn.randn(3, 4),), dynamic_shapes=({}, {}))

    def test_files(self):
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 2)).eval()
        program = export.export(net, (cairn.randn(3, 4),), dynamic_shapes=({0: Dim.AUTO},))
        export.save(program, self.path)
        again, x = export.load(self.path), cairn.randn(5, 4)
        self.assertSame(again(x), net(x))
        self.assertSame(again.module()(x), net(x))
        self.assertEqual(set(cairn.load(self.path)) - {"__metadata__"}, set(net.state_dict()))
        code = "import cairn; print(cairn.jit.load(%r)(cairn.ones(2, 4)).tolist())" % self.path
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(said.strip(), str(net(cairn.ones(2, 4)).tolist()))

    def test_what_cannot_be_exported(self):
        class Branches(nn.Module):
            def forward(self, x):
                return x * 2 if x.sum() > 0 else x
        with self.assertRaises(cairn.CaptureError):
            export.export(Branches(), (cairn.ones(2),))
        with self.assertRaisesRegex(TypeError, "module"):
            export.export(lambda x: x, (cairn.ones(2),))


class JitTest(unittest.TestCase):
    def test_trace_of_modules(self):
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        made = jit.trace(net, cairn.randn(3, 4))
        x = cairn.randn(6, 4)
        self.assertTrue(cairn.equal(made(x), net(x)))
        self.assertEqual(set(made.state_dict()), set(net.state_dict()))
        made(x).sum().backward()  # it trains
        self.assertIsNotNone(net[0].weight.grad)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "net.pt")
            jit.save(made, path)
            loaded = jit.load(path)
            self.assertTrue(cairn.equal(loaded(x), net(x)))
            self.assertIn("linear", loaded.graph)

    def test_trace_of_functions(self):
        made = jit.trace(lambda x, y: (x + y, x * 2), (cairn.ones(2), cairn.ones(2)))
        a, b = made(cairn.full((3,), 2.0), cairn.ones(3))
        self.assertEqual((a.tolist(), b.tolist()), ([3, 3, 3], [4, 4, 4]))
        self.assertIn("add", made.graph)
        with self.assertRaises(cairn.CaptureError):
            jit.trace(lambda x: x if x.sum() > 0 else -x, cairn.ones(2))

    def test_trace_is_checked(self):
        calls = []

        def counts(x):
            calls.append(1)
            return x * len(calls)
        with self.assertRaisesRegex(RuntimeError, "another result"):
            jit.trace(counts, cairn.ones(2))

    def test_save_of_others(self):
        with self.assertRaises(NotImplementedError):
            jit.save(nn.Linear(1, 1), "x")


if __name__ == "__main__":
    unittest.main()
