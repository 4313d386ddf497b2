"""The PJRT backend from Python, with XLA's compiler for CPUs behind the plugin for tests (as in test_sharding):
compiled steps that hold branches and loops, and steps under autocast, are one program, and give what the CPU gives."""
import ctypes
import importlib.util
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("CAIRN_BUILD_DIR", os.path.join(HERE, "..", "..", "build", "default")))
PLUGIN = os.path.join(BUILD, "tests", "pjrt", "libfake_pjrt.so")
HAS_JAX = importlib.util.find_spec("jax") is not None
HAS_PLUGIN = os.path.exists(PLUGIN) and os.path.exists(os.path.join(BUILD, "libcairn_pjrt.so"))
CACHE = tempfile.TemporaryDirectory()
os.environ.update({"CAIRN_PJRT": PLUGIN, "CAIRN_PLUGIN_PATH": BUILD, "CAIRN_CACHE": CACHE.name,
                   "PJRT_TEST_SERVER": os.path.join(HERE, "..", "pjrt", "plugin", "server.py"),
                   "PJRT_TEST_PYTHON": sys.executable, "TF_CPP_MIN_LOG_LEVEL": "3"})

import cairn  # noqa: E402 (the plugin is looked for when a device is)
import cairn.nn.functional as F  # noqa: E402
from cairn import func, nn  # noqa: E402

DEVICES = ("cpu", "pjrt")


class Counts(ctypes.Structure):
    """fake_counts of tests/pjrt/plugin/plugin.h."""
    _fields_ = [(name, ctypes.c_size_t) for name in
                ("buffers", "most_buffers", "events", "executables", "errors", "elsewhere", "several", "compiled",
                 "loaded", "executed", "given", "kept", "uploads", "downloads")]


def count():
    counts = Counts()
    ctypes.CDLL(PLUGIN).fake_get_counts(ctypes.byref(counts))
    return counts


@unittest.skipUnless(HAS_PLUGIN, "the PJRT backend or its plugin for tests was not built")
@unittest.skipUnless(HAS_JAX, "jax is not installed: build/test-env/bin/pip install jax")
class WholeTest(unittest.TestCase):
    def one_program(self, fn, *inputs, tolerance=1e-5):
        """A compiled function on the device is one run a call, and gives what it gives on the CPU."""
        want = cairn.compile(fn)(*inputs)
        fast, there = cairn.compile(fn), [x.to("pjrt") for x in inputs]
        fast(*there)
        before = count()
        have = fast(*there)
        for a, b in zip(have, want):
            self.assertTrue(cairn.allclose(a.cpu(), b, rtol=tolerance, atol=tolerance))
        after = count()
        self.assertEqual(after.executed - before.executed, 1)
        self.assertEqual(after.compiled, before.compiled)

    def test_branches(self):
        def fn(x):
            y = cairn.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
            return y, y.square().sum()
        x = cairn.rand(4, 3)
        self.one_program(fn, x)
        self.one_program(fn, -x)

    def test_loops(self):
        def fn(x):
            n, y = func.while_loop(lambda n, y: y.norm() < 50, lambda n, y: (n + 1, y * 1.5),
                                   (cairn.zeros_like(x[0, 0]), x))
            last, rows = func.scan(lambda c, row: (c + row, c * row), cairn.zeros_like(x[0]), x)
            return n, y, last, rows, func.map(lambda row: row.softmax(0), x)
        self.one_program(fn, cairn.rand(4, 3))

    def test_random_numbers_in_a_branch(self):
        def fn(x):
            return (cairn.cond(x.sum() > 0, lambda a: F.dropout(a, 0.5), lambda a: a, (x,)) + cairn.rand_like(x),)
        x = cairn.rand(8, 8)
        results = []
        for device in DEVICES:
            cairn.manual_seed(7)
            results.append(cairn.compile(fn)(x.to(device))[0].cpu())
        self.assertTrue(cairn.allclose(*results, rtol=1e-6))

    def steps(self, device, make_loss, count_of=6):
        cairn.manual_seed(3)
        net = nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 5))
        x, target = cairn.randn(16, 12).to(device), cairn.randint(0, 5, (16,)).to(device)
        net.to(device)
        optimiser = cairn.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

        @cairn.compile
        def step(x, target):
            loss = make_loss(net, x, target)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            return loss.detach()
        losses = [step(x, target).item() for _ in range(count_of)]
        before = count()
        losses.append(step(x, target).item())
        return losses, count(), before

    def test_training_step_with_a_branch(self):
        def loss(net, x, target):
            scores = net(x)
            scores = cairn.cond(scores.abs().max() > 1, lambda s: s / 2, lambda s: s, (scores,))
            return F.cross_entropy(scores, target)
        want = self.steps("cpu", loss)[0]
        have, after, before = self.steps("pjrt", loss)
        self.assertEqual(after.executed - before.executed, 1)
        for a, b in zip(have, want):
            self.assertAlmostEqual(a, b, delta=2e-4)

    def test_autocast(self):
        """Sums of bfloat16 products are rounded to eight bits, now one way, now the other: within 2 % of the CPU's
        losses, which are autocast, too. Weights stay float32, and are given away with each step."""
        def loss(net, x, target):
            with cairn.autocast(x.device.type, dtype=cairn.bfloat16):
                return F.cross_entropy(net(x), target)
        want = self.steps("cpu", loss)[0]
        have, after, before = self.steps("pjrt", loss)
        self.assertEqual(after.executed - before.executed, 1)
        self.assertEqual(after.given - before.given, 16)  # six parameters, momenta, four casts that autocast keeps
        self.assertEqual(after.kept, before.kept)
        self.assertLess(want[-1], want[0])
        for a, b in zip(have, want):
            self.assertAlmostEqual(a, b, delta=0.02 * b)
        exact = self.steps("cpu", lambda net, x, target: F.cross_entropy(net(x), target))[0]
        self.assertNotEqual(have, exact)


if __name__ == "__main__":
    unittest.main()
