"""cairn.compile: functions with sizes that depend on data: one program for all of them."""
import unittest

import cairn
import cairn.nn.functional as F
from cairn import compiler, nn


class CountedTest(unittest.TestCase):
    """Sizes that depend on data."""

    def assertEqualTensors(self, have, want):
        self.assertEqual(have.shape, want.shape)
        self.assertEqual(have.dtype, want.dtype)
        self.assertTrue(bool((have == want).all()))

    @staticmethod
    def sparse(seed):
        cairn.manual_seed(seed)
        return cairn.randn(5, 4) * (cairn.rand(5, 4) > seed / 6)

    def test_values(self):
        def chosen(x):
            at = x.nonzero()
            n = at.shape[0]
            return (x[x > 0] * 2, cairn.ones(2 * n + 1, 3), at.sum() / (n + 1), cairn.unique(x.round()),
                    cairn.repeat_interleave(x[0], (x[1] > 0).long()), cairn.bincount(x.abs().flatten().long()),
                    F.one_hot(x.abs().long()))
        fast = compiler.compile(chosen, fullgraph=True)
        for seed in range(7):
            x = self.sparse(seed)
            for have, want in zip(fast(x), chosen(x)):
                self.assertEqualTensors(have, want)
        stats = compiler.stats(fast)
        self.assertEqual((stats["executables"], stats["runs"], stats["recompiles"]), (1, 7, 0))
        self.assertIn("size u0", compiler.explain(fast, self.sparse(0)))

    def train(self, compiled):
        cairn.manual_seed(1)
        net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))
        optimiser = cairn.optim.AdamW(net.parameters(), lr=0.01)

        def step(x):
            optimiser.zero_grad()
            rows = x[x.sum(1) > 0]
            y = net(rows)
            loss = (y * y).sum() / (1 + rows.shape[0]) + y[y > 0].sum()
            loss.backward()
            optimiser.step()
            return loss
        run = compiler.compile(step, fullgraph=True) if compiled else step
        losses = []
        for seed in range(12):
            x = self.sparse(seed % 6)
            cairn.manual_seed(seed)
            losses.append(float(run(x)))
        return losses, [p.tolist() for p in net.parameters()]

    def test_whole_steps(self):
        self.assertEqual(self.train(True), self.train(False))

    def test_gradients(self):
        net = nn.Linear(4, 3)

        def forward(x):
            y = net(x)
            return y[y > 0] ** 2, y.sum()
        fast = compiler.compile(forward, fullgraph=True)
        for seed in range(6):
            grads = []
            for fn in (fast, forward):
                net.zero_grad()
                x = self.sparse(seed).requires_grad_()
                some, total = fn(x)
                (some.sum() if seed % 2 else some.sum() + total).backward()
                grads.append((x.grad.tolist(), net.weight.grad.tolist()))
            self.assertEqual(*grads)
        self.assertEqual(compiler.stats(fast)["executables"], 1)

    def test_sizes_that_python_reads(self):
        def count(x):
            return x * 2, x.nonzero().shape[0]

        def branches(x):
            n = x.nonzero().shape[0]
            if n == 0:
                raise ValueError("there are none")
            return x * n if n > 5 else x + n
        cases = [cairn.cat([cairn.ones(n), cairn.zeros(8 - n)]) for n in (8, 7, 3, 6)]
        counts = compiler.compile(count)
        for x in cases:
            self.assertEqual(counts(x)[1], count(x)[1])
        self.assertEqual(compiler.stats(counts)["eager_calls"], 4)
        with self.assertRaisesRegex(cairn.CaptureError, "besides tensors"):
            compiler.compile(count, fullgraph=True)(cases[0])
        fast = compiler.compile(branches)
        for x in cases:
            self.assertEqualTensors(fast(x), branches(x))
        self.assertEqual(compiler.stats(fast)["eager_calls"], 1)  # of three
        with self.assertRaisesRegex(ValueError, "there are none"):
            fast(cairn.zeros(8))
        self.assertEqualTensors(fast(cases[0]), branches(cases[0]))

    def test_functions_that_fail_at_other_sizes(self):
        def pairs(x):
            return x.nonzero().flatten().reshape(-1, 2).sum(0)
        fast = compiler.compile(pairs)
        self.assertEqual(fast(cairn.ones(8)).tolist(), pairs(cairn.ones(8)).tolist())
        self.assertEqual(compiler.stats(fast)["eager_calls"], 1)

    def test_interrupted(self):
        calls = []

        def stops(x):
            calls.append(1)
            if len(calls) == 5:
                raise KeyboardInterrupt
            return x[x > 0]
        fast = compiler.compile(stops)
        with self.assertRaises(KeyboardInterrupt):
            fast(cairn.ones(3))
        self.assertEqual(len(calls), 5)
        self.assertEqual(fast(cairn.ones(3)).tolist(), [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
