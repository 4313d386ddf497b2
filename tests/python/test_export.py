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

    def test_sizes_that_data_decides(self):
        class Select(nn.Module):
            def forward(self, x):
                positive = x > 0
                return x[positive] * 2, x.nonzero(), cairn.unique(x.round()), x.masked_select(positive) + x[positive]

        class Branch(nn.Module):
            def forward(self, x):
                return x if x.nonzero().sum() > 0 else -x

        select = Select()
        program = export.export(select, (cairn.randn(4, 5),))
        export.save(program, self.path)
        loaded = export.load(self.path)
        for x in (cairn.randn(4, 5), cairn.zeros(4, 5), cairn.ones(4, 5)):
            for want, have, again in zip(select(x), program(x), loaded(x)):
                self.assertSame(want, have)
                self.assertSame(want, again)
        with self.assertRaises(RuntimeError):
            export.export(Branch(), (cairn.randn(4),))

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


def trained(net, data, steps=10):
    """Trains, and returns what it has then."""
    optimiser = cairn.optim.AdamW(net.parameters(), lr=0.01)
    cairn.manual_seed(5)
    for x, y in data[:steps]:
        optimiser.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimiser.step()
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


class Block(nn.Module):
    """A convolution with a way around it."""

    def __init__(self, channels):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)) + x)


class TrainableTest(unittest.TestCase):
    """Loaded graphs are modules: gradients, optimisers, state_dict, autocast, transforms."""

    def setUp(self):
        cairn.manual_seed(2)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "net.safetensors")

    def loaded(self, net, x):
        jit.save(jit.trace(net, x, check_trace=False), self.path)
        return jit.load(self.path)

    def assertSame(self, a, b):
        self.assertTrue(cairn.equal(a, b), "%s\n%s" % (a, b))

    def test_training(self):
        nets = {"perceptron": (nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.2),
                                             nn.Linear(16, 4)), (8, 6)),
                "convolutions": (nn.Sequential(nn.Conv2d(1, 4, 3), Block(4), nn.MaxPool2d(2), Block(4),
                                               nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4)), (8, 1, 8, 8))}
        for name, (net, shape) in nets.items():
            with self.subTest(name):
                data = [(cairn.randn(*shape), cairn.randint(0, 4, (shape[0],))) for _ in range(10)]
                before = {key: value.clone() for key, value in net.state_dict().items()}
                copy = self.loaded(net, data[0][0])
                net.load_state_dict(before)  # a trace in training mode ran it
                self.assertEqual(*([key for key, _ in m.named_parameters()] for m in (copy, net)))
                copy.load_state_dict(before, strict=False)
                want, have = trained(net, data), trained(copy, data)
                self.assertLessEqual(set(have), set(want))
                self.assertGreater(len(have), 3)
                for key, value in have.items():
                    self.assertSame(value, want[key])
                copy.save(self.path)
                again = jit.load(self.path).state_dict()
                for key, value in have.items():
                    self.assertSame(again[key], value)

    def test_gradients_and_transforms(self):
        net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).eval()
        copy, x = self.loaded(net, cairn.randn(4, 3)), cairn.randn(2, 3, requires_grad=True)
        want, = cairn.autograd.grad(net(x).square().sum(), x)
        self.assertSame(cairn.autograd.grad(copy(x).square().sum(), x)[0], want)
        batch = cairn.randn(5, 4, 3)
        self.assertSame(cairn.func.vmap(copy)(batch), cairn.func.vmap(net)(batch))
        self.assertSame(cairn.func.hessian(lambda v: copy(v).square().sum())(x.detach()),
                        cairn.func.hessian(lambda v: net(v).square().sum())(x.detach()))
        zero = {name: cairn.zeros_like(p) for name, p in copy.named_parameters()}
        self.assertEqual(cairn.func.functional_call(copy, zero, (x,)).abs().sum().item(), 0)
        with cairn.autocast("cpu", dtype=cairn.bfloat16):
            self.assertEqual(copy(x).dtype, cairn.bfloat16)
            self.assertSame(copy(x), net(x))
        with cairn.no_grad():
            self.assertSame(copy(x), net(x))
            self.assertFalse(copy(x).requires_grad)
        compiled = cairn.compile(copy)
        self.assertSame(compiled(x), net(x))
        self.assertEqual(copy.double()(x.double()).dtype, cairn.float64)

    def test_cut_off(self):
        class Cut(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

            def forward(self, x):
                with cairn.no_grad():
                    y = self.a(x)
                return self.b(y) + self.a(x).detach()
        net, x = Cut(), cairn.randn(2, 3)
        copy = export.export(net, (x,)).module()
        copy(x).sum().backward()
        self.assertIsNone(copy.a.weight.grad)
        self.assertIsNotNone(copy.b.weight.grad)

    def test_modes(self):
        net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).eval()
        copy = self.loaded(net, cairn.randn(2, 3))
        self.assertFalse(copy.training)
        copy.eval()
        with self.assertRaisesRegex(RuntimeError, "evaluation mode, and Dropout '1'"):
            copy.train()
        plain = self.loaded(nn.Sequential(nn.Linear(3, 3)), cairn.randn(2, 3))
        plain.eval()
        plain.train()


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
