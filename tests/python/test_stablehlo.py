"""cairn.stablehlo: the text, its arguments, and what XLA's compiler makes of it.

What needs jax (`pip install jax` into build/test-env) is left out where that is missing: op samples and whole training
steps are compiled and run on the CPU by jaxlib, forward and gradient, and compared with cairn's own results. Of the
samples every twelfth is run; CAIRN_STABLEHLO_ALL=1 runs them all, which takes minutes."""
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import unittest
import zlib

import cairn
import cairn.nn.functional as F
from cairn import nn
from cairn.export import traced

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "stablehlo"))
BUILD = os.environ.get("CAIRN_BUILD_DIR", os.path.join(HERE, "..", "..", "build", "default"))
DRIVER = os.path.join(BUILD, "tests", "ops", "test_ops")
HAS_JAX = importlib.util.find_spec("jax") is not None
NEEDS_JAX = "jax is not installed: build/test-env/bin/pip install jax"


def arguments(text):
    """Of main: the type of each, and which result may take its memory."""
    head = text[text.index("@main(") + 6:text.index(") -> ")]
    return [(t, int(alias) if alias else None) for t, alias in
            re.findall(r"%\d+: (tensor<[^ ]*>)(?: \{tf\.aliasing_output = (\d+) : i32\})?", head)]


class TextTest(unittest.TestCase):
    def test_parameters_come_first_in_the_order_of_the_state_dict(self):
        net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2)).eval()
        text = cairn.stablehlo.export(net, cairn.zeros(4, 3))
        types = [t for t, _ in arguments(text)]
        self.assertEqual(types, ["tensor<5x3xf32>", "tensor<5xf32>", "tensor<5xf32>", "tensor<5xf32>",
                                 "tensor<5xf32>", "tensor<5xf32>", "tensor<i64>", "tensor<2x5xf32>", "tensor<2xf32>",
                                 "tensor<4x3xf32>"])

    def test_what_a_module_computes_once_is_a_constant(self):
        """Tables that are no buffers, as llama's angles, cannot be given by whoever runs the text."""
        class Table(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight, self.kept = nn.Parameter(cairn.ones(4)), [cairn.full((4,), 2.0)]

            def forward(self, x):
                return x * self.kept[0] + self.weight
        text = cairn.stablehlo.export(Table(), cairn.zeros(4))
        self.assertEqual([t for t, _ in arguments(text)], ["tensor<4xf32>"] * 2)
        self.assertIn("dense<", text)

    def test_parameters_as_constants(self):
        text = cairn.stablehlo.export(nn.Linear(3, 2), cairn.zeros(4, 3), parameters="constants")
        self.assertEqual([t for t, _ in arguments(text)], ["tensor<4x3xf32>"])
        self.assertIn('dense<"0x', text)

    def test_what_a_step_writes_is_given_away(self):
        weight = cairn.ones(3)

        def step(x):
            weight.add_(x)
            return weight.sum()
        plain, donated = (cairn.stablehlo.export(step, cairn.ones(3), donate=d) for d in (False, True))
        self.assertEqual([a for _, a in arguments(plain)], [None, None])
        self.assertEqual([a for _, a in arguments(donated)], [1, None])

    def test_random_numbers_come_last(self):
        text = cairn.stablehlo.export(lambda x: x + cairn.rand(2), cairn.zeros(2))
        self.assertEqual([t for t, _ in arguments(text)], ["tensor<2xf32>", "tensor<ui64>", "tensor<ui64>"])

    def test_precision_is_what_was_promised(self):
        def text():
            return cairn.stablehlo.export(lambda a: a @ a, cairn.zeros(2, 2))
        self.assertIn("precision HIGHEST", text())
        cairn.set_float32_matmul_precision("high")
        self.addCleanup(cairn.set_float32_matmul_precision, "highest")
        self.assertIn("precision HIGH>", text())

    def test_autocast_is_in_the_text(self):
        with cairn.autocast("cpu", dtype=cairn.bfloat16):
            text = cairn.stablehlo.export(lambda a: a @ a, cairn.zeros(2, 2))
        self.assertRegex(text, r"dot_general.*tensor<2x2xbf16>")

    def test_what_cannot_be_written_says_why(self):
        with self.assertRaisesRegex(RuntimeError, "nonzero: the sizes of its results depend on data"):
            cairn.stablehlo.export(lambda x: x.nonzero(), cairn.ones(3))
        with self.assertRaisesRegex(ValueError, "parameters must be"):
            cairn.stablehlo.export(nn.Linear(1, 1), cairn.ones(1), parameters="none")

    def test_the_page_lists_what_is_refused(self):
        page = os.path.join(HERE, "..", "..", "docs", "STABLEHLO.md")
        with open(page, encoding="utf-8") as file:
            listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", file.read(), re.M))
        self.assertEqual(listed, cairn.stablehlo.refused())


@unittest.skipUnless(HAS_JAX, NEEDS_JAX)
class SamplesTest(unittest.TestCase):
    """tests/ops/*.samples by the driver "stablehlo" of test_ops."""

    def test_samples(self):
        import cases
        if not os.path.exists(DRIVER):
            self.skipTest("test_ops is not built")
        every = bool(os.environ.get("CAIRN_STABLEHLO_ALL"))
        runner = cases.Runner()
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([DRIVER, "stablehlo"], env=dict(os.environ, CAIRN_STABLEHLO_OUT=folder), check=True,
                           stdout=subprocess.DEVNULL)
            taken = []
            for name in sorted(os.listdir(folder)):
                taken += [c for c in cases.read(os.path.join(folder, name))
                          if every or zlib.crc32(c.sample.encode()) % 12 == 0]
        self.assertGreater(len(taken), 300)
        wrong = cases.check(runner, taken)
        self.assertFalse(wrong, "\n".join(f"{sample}: {why}" for sample, why in wrong[:40]))


@unittest.skipUnless(HAS_JAX, NEEDS_JAX)
class NumbersTest(unittest.TestCase):
    """Functions whose steps are loops, over all of their methods and edges, against the CPU's."""

    def same(self, fn, *arrays, rtol):
        import cases
        import numpy as np
        given = [cairn.tensor(a) for a in arrays]
        have = cases.Runner().run(cairn.stablehlo.export(fn, *given), list(arrays))[0]
        np.testing.assert_allclose(have, fn(*given).numpy(), rtol=rtol, atol=1e-300)

    def test_incomplete_gamma(self):
        import numpy as np
        inf, nan = np.inf, np.nan
        a = [0, 1e-10, 1e-3, .3, .5, .7, 1, 1.3, 2, 5, 9.9, 10, 30, 199, 201, 500, 1e4, 1e6, 1e10, inf, nan, -1.]
        x = [0, 1e-12, 1e-4, .2, .5, .9, 1, 1.05, 1.3, 2, 7, 10, 29, 31, 180, 201, 250, 510, 700, 800, 9.9e3, 1.1e4,
             1.0001e6, 1e10, inf, nan, -2.]
        first, second = (np.ascontiguousarray(v) for v in np.meshgrid(np.array(a), np.array(x)))
        for fn in (cairn.igamma, cairn.igammac):
            with self.subTest(fn.__name__):
                self.same(fn, first, second, rtol=1e-12)

    def test_eigenvalues_of_any_matrix(self):
        """A V = V W with columns of norm 1; the order is any."""
        import cases
        import numpy as np
        random, runner = np.random.default_rng(0), cases.Runner()
        turn = np.array([[[0, 1, 0], [0, 0, 1], [1, 0, 0.]]])
        for a in (random.standard_normal((3, 5, 5)), random.standard_normal((1, 1)), turn, np.zeros((4, 4)),
                  np.eye(4) * 3, np.array([[1, 1], [0, 1.]]), np.triu(random.standard_normal((5, 5))),
                  random.standard_normal((6, 6)) + 1j * random.standard_normal((6, 6)),
                  random.standard_normal((12, 12)) * 1e120, np.zeros((2, 0, 0))):
            w, v = runner.run(cairn.stablehlo.export(cairn.linalg.eig, cairn.tensor(a)), [a])
            alone = runner.run(cairn.stablehlo.export(cairn.linalg.eigvals, cairn.tensor(a)), [a])[0]
            most = np.abs(a).max(initial=1e-300)
            np.testing.assert_allclose(a @ v / most, v * w[..., None, :] / most, atol=1e-14 * a.shape[-1])
            np.testing.assert_allclose(np.linalg.norm(v, axis=-2), np.ones_like(w.real), rtol=1e-14)
            np.testing.assert_array_equal(w, alone)
            for value in np.ravel(np.linalg.eigvals(a)):  # a block of two equal ones knows half of its digits
                self.assertLess(np.abs(w - value).min() / most, 1e-12 if a.shape != (2, 2) else 1e-7)
        w = runner.run(cairn.stablehlo.export(cairn.linalg.eigvals, cairn.zeros(2, 2)), [np.full((2, 2), np.nan, "f4")])
        self.assertTrue(np.isnan(w[0]).all())

    def test_complex_matrices_that_are_refused(self):
        x = cairn.ones(2, 2, dtype=cairn.complex64)
        for name in ("qr", "svd", "svdvals", "eigh", "eigvalsh"):
            with self.assertRaisesRegex(RuntimeError, "linalg_%s: of complex matrices it has no form" % name):
                cairn.stablehlo.export(getattr(cairn.linalg, name), x)

    def test_polynomials_of_all_degrees(self):
        import numpy as np
        degrees = np.array([-1, 0, 1, 2, 3, 40, 130, 600, 1001, 2.e7, np.nan])
        x, n = (np.ascontiguousarray(v) for v in np.meshgrid(np.array([-1.5, -0.3, 0, 0.7, 1, np.nan]), degrees))
        for name in ("chebyshev_polynomial_t", "chebyshev_polynomial_u", "hermite_polynomial_h",
                     "laguerre_polynomial_l", "legendre_polynomial_p", "shifted_chebyshev_polynomial_w"):
            with self.subTest(name):
                few = n < 1e4 if "polynomial_l" in name or "legendre" in name else n < np.inf
                fn = getattr(cairn.special, name)
                # Angles of degree 1001 lose three figures of their 16, and near zeros of the sum more.
                self.same(fn, np.where(few, x, 0), np.where(few | (n != n), n, 0), rtol=1e-9)


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(3, 6, batch_first=True), nn.Linear(6, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.qkv, self.out, self.norm = nn.Linear(8, 24, bias=False), nn.Linear(8, 8), nn.LayerNorm(8)
        self.up, self.down, self.head = nn.Linear(8, 16), nn.Linear(16, 8), nn.Linear(8, 11)

    def forward(self, tokens):
        n, length = tokens.shape
        x = self.embed(tokens) + self.place(cairn.arange(length))
        q, k, v = self.qkv(self.norm(x)).view(n, length, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(n, length, 8)), 0.1, self.training)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        return self.head(x).flatten(0, 1)


def random_offset():
    return int(cairn.get_rng_state().numpy().view("u8")[1])


def step_of(net, optimiser):
    def step(x, target):
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimiser.step()
        return loss
    return step


@unittest.skipUnless(HAS_JAX, NEEDS_JAX)
class StepsTest(unittest.TestCase):
    """Several steps of training: forward, backward, update, dropout. XLA adds and takes logarithms in other orders than
    the CPU kernels, and a step builds on the one before: 2e-4 after four of them. No parameter has a gradient that is
    nothing but rounding (a bias in front of a norm), which Adam would make large."""

    def steps(self, net, make_optimiser, x, target, count=4):
        import cases
        import numpy as np
        optimiser = make_optimiser(net.parameters())
        step = step_of(net, optimiser)
        step(x, target)  # what an optimiser keeps is there from now on
        graph = traced(step, (x, target), {}, [])._graph
        text = graph.stablehlo(False, True, None, [], False, 0)
        self.assertEqual(cases.Runner().parse(text), "")
        types = arguments(text)
        states = list(graph.states().values())
        now = [np.array(t.detach().numpy()) for t in states] + [x.numpy(), target.numpy()]
        cairn.manual_seed(5)
        draws = len(types) - len(now)
        self.assertIn(draws, (0, 2))
        runner, losses, used = cases.Runner(), [], 0
        want = []
        for _ in range(count):
            before = random_offset()
            want.append(graph.run([x, target])[0].item())
            used = random_offset() - before
        for i in range(count):
            random = [np.uint64(5), np.uint64(i * used)] if draws else []
            made = runner.run(text, now + random)
            losses.append(float(made[0]))
            for k, (_, alias) in enumerate(types):
                if alias is not None:
                    now[k] = made[alias]
        np.testing.assert_allclose(losses, want, rtol=2e-4)
        for have, state in zip(now, states):
            np.testing.assert_allclose(have, state.detach().numpy(), rtol=2e-4, atol=2e-5)

    def setUp(self):
        cairn.manual_seed(3)

    def test_mlp(self):
        net = nn.Sequential(nn.Linear(6, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.25),
                            nn.Linear(16, 4))
        self.steps(net, lambda p: cairn.optim.AdamW(p, lr=1e-2, eps=1e-4), cairn.randn(8, 6), cairn.randint(0, 4, (8,)))

    def test_cnn(self):
        net = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                            nn.Conv2d(4, 6, 3, stride=2, groups=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                            nn.Linear(6, 4))
        self.steps(net, lambda p: cairn.optim.SGD(p, lr=0.05, momentum=0.9), cairn.randn(4, 2, 12, 12),
                   cairn.randint(0, 4, (4,)))

    def test_lstm(self):
        self.steps(LSTM(), lambda p: cairn.optim.RMSprop(p, lr=1e-3), cairn.randn(3, 5, 3), cairn.randint(0, 4, (3,)))

    def test_gpt(self):
        self.steps(Block(), lambda p: cairn.optim.Adam(p, lr=1e-3, eps=1e-4), cairn.randint(0, 11, (2, 6)),
                   cairn.randint(0, 11, (12,)))

    def test_branches_and_loops(self):
        import cases
        import numpy as np
        from cairn import func

        def fn(x):
            y = cairn.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,))
            carry, rows = func.scan(lambda c, row: (c + row, c * row), cairn.zeros(3), y)
            return y, carry, rows
        for sign in (1, -1):
            x = sign * cairn.rand(4, 3)
            text = cairn.stablehlo.export(fn, x)
            for have, want in zip(cases.Runner().run(text, [x.numpy()]), fn(x)):
                np.testing.assert_allclose(have, want.numpy(), rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
