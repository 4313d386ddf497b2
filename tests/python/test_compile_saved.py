"""cairn.compile: checkpoints and hooks on what is kept for backward hold in programs, too."""
import unittest
import warnings

import cairn
import cairn.nn.functional as F
from cairn import compiler, nn
from cairn.autograd.graph import save_on_cpu, saved_tensors_hooks
from cairn.utils.checkpoint import checkpoint


class Normed(nn.Module):
    """Its statistics are counted in both runs of a checkpoint."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.3)

    def inside(self, x):
        return self.drop(F.relu(self.norm(self.conv(x))))

    def forward(self, x):
        return checkpoint(self.inside, x, use_reentrant=False)


class Deep(nn.Module):
    def __init__(self, checkpoints):
        super().__init__()
        self.checkpoints = checkpoints
        self.parts = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.2)) for _ in range(3))

    def forward(self, x):
        for part in self.parts:
            x = checkpoint(part, x, use_reentrant=False) if self.checkpoints else part(x)
        return x


def trained(net, way, shape, steps=3):
    """Losses and what the network holds behind some steps: as it is, forward compiled, or the whole step."""
    forward = compiler.compile(net, fullgraph=True) if way == "forward" else net

    def step(x):
        for p in net.parameters():
            p.grad = None
        loss = forward(x).square().mean()
        loss.backward()
        with cairn.no_grad():
            for p in net.parameters():
                p.sub_(p.grad, alpha=0.1)
        return loss
    if way == "step":
        step = compiler.compile(step, fullgraph=True)
    cairn.manual_seed(5)
    losses = [step(cairn.randn(*shape)).item() for _ in range(steps)]
    return losses, {name: t.tolist() for name, t in net.state_dict().items()}


class SavedTest(unittest.TestCase):
    def test_statistics_inside_of_checkpoints(self):
        found = []
        for way in ("eager", "step"):
            cairn.manual_seed(0)
            found.append(trained(Normed(), way, (2, 1, 6, 6)))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0][1]["norm.num_batches_tracked"], 6)

    def test_statistics_that_backward_writes(self):
        """A compiled forward cannot tell whether somebody will go backward: it runs as it is."""
        x = cairn.randn(2, 1, 6, 6)
        with self.assertRaisesRegex(cairn.CaptureError, "compile the whole step"):
            compiler.compile(Normed(), fullgraph=True)(x)
        net = Normed()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fast = compiler.compile(net)
            fast(x)
            self.assertEqual(net.norm.num_batches_tracked.item(), 1)
            fast(x).sum().backward()
        self.assertEqual(net.norm.num_batches_tracked.item(), 3)

    def test_checkpoints_compute_again(self):
        """They are there to save memory: values inside are not kept."""
        for way in ("forward", "step"):
            found = []
            for checkpoints in (False, True):
                cairn.manual_seed(0)
                found.append(trained(Deep(checkpoints), way, (4, 8)))
            self.assertEqual(found[0], found[1])
        x = cairn.randn(4, 8)
        texts = [compiler.explain(compiler.compile(Deep(checkpoints)), x) for checkpoints in (False, True)]
        self.assertEqual([text.count("tanh:") + text.count("tanh(") for text in texts], [3, 6])
        self.assertIn("'recompute'", texts[1])

    def test_hooks(self):
        w = cairn.tensor([0.5, -1.0, 2.0], requires_grad=True)

        def f(x):
            with saved_tensors_hooks(lambda t: t * 2, lambda t: t + 1):
                return (x * w).sin().sum()

        def step(x):
            w.grad = None
            loss = f(x)
            loss.backward()
            return loss
        x = cairn.ones(3)
        step(x)
        want = w.grad.tolist()
        self.assertNotEqual(want, w.detach().cos().tolist())
        compiler.compile(step, fullgraph=True)(x)
        self.assertEqual(w.grad.tolist(), want)
        w.grad = None
        compiler.compile(f, fullgraph=True)(x).backward()
        self.assertEqual(w.grad.tolist(), want)

    def test_hooks_that_read_values(self):
        def f(x):
            with saved_tensors_hooks(lambda t: t.tolist(), cairn.tensor):
                return (x * x).sum()
        x = cairn.ones(3, requires_grad=True)
        with self.assertRaisesRegex(cairn.CaptureError, "cannot read a value"):
            compiler.compile(f, fullgraph=True)(x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiler.compile(f)(x).backward()
        self.assertEqual(x.grad.tolist(), [2, 2, 2])

    def test_save_on_cpu(self):
        found = []
        for way in ("eager", "forward", "step"):
            cairn.manual_seed(0)
            net = Deep(False)
            plain = net.forward

            def forward(x, plain=plain):
                with save_on_cpu():
                    return plain(x)
            net.forward = forward
            found.append(trained(net, way, (4, 8)))
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[0], found[2])


if __name__ == "__main__":
    unittest.main()
