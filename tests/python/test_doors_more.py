"""Doors of torch that few programs go through: quasirandom, fx's folders."""
import pathlib
import sys
import tempfile
import unittest

import cairn
import cairn.fx
import cairn.quasirandom
from cases import Case, torch

if torch:
    import torch.fx
    import torch.quasirandom


class Sobol(Case):
    def test_points(self):
        def program(m):
            found = []
            for dimension in (1, 2, 7, 40):
                engine = m.quasirandom.SobolEngine(dimension)
                found += [engine.draw(3), engine.fast_forward(5).draw(2), engine.num_generated, engine.reset().draw(1),
                          engine.draw_base2(0), engine.draw(4, dtype=m.float64)]
            out = m.empty(0)
            m.quasirandom.SobolEngine(3).draw(5, out=out)
            last = m.quasirandom.SobolEngine(21201).draw(20)[:, ::977]
            return [*found, out, last, repr(engine), engine.MAXDIM, engine.MAXBIT]
        self.same(program)

    def test_scrambled(self):
        engine = cairn.quasirandom.SobolEngine(5, scramble=True, seed=3)
        x = engine.draw(256)
        self.assertTrue(cairn.equal(x, cairn.quasirandom.SobolEngine(5, True, 3).draw(256)))
        self.assertFalse(cairn.equal(x, cairn.quasirandom.SobolEngine(5, True, 4).draw(256)))
        for column in x.T:  # each of 256 equal parts of an axis has one point
            self.assertEqual(sorted((column * 256).long().tolist()), list(range(256)))

    def test_scrambling_with_given_bits(self):
        def program(m):
            draw = m.randint
            numbers = iter(range(100))

            def given(*args, **more):  # unused: more (devices and generators)
                high, size = args[-2:]
                count = m.Size(size).numel()
                start = next(numbers) + 3
                return (m.arange(count) * start % 7 % high).reshape(size)
            places = [m] if m is torch else [m, sys.modules["cairn._C"]]
            for place in places:
                setattr(place, "randint", given)
            try:
                return m.quasirandom.SobolEngine(3, scramble=True).draw(16)
            finally:
                for place in places:
                    setattr(place, "randint", draw)
        self.same(program)

    def test_what_is_refused(self):
        self.fails(lambda m: m.quasirandom.SobolEngine(21202), ValueError)
        self.fails(lambda m: m.quasirandom.SobolEngine(0), ValueError)

        def odd(m):
            engine = m.quasirandom.SobolEngine(2)
            engine.draw(3)
            engine.draw_base2(2)
        self.fails(odd, ValueError)


class Folder(Case):
    def test_a_graph_as_a_package(self):
        class Net(cairn.nn.Module):
            def __init__(self):
                super().__init__()
                self.body = cairn.nn.Sequential(cairn.nn.Linear(4, 6), cairn.nn.BatchNorm1d(6), cairn.nn.GELU())
                self.scale = cairn.nn.Parameter(cairn.rand(6))
                self.register_buffer("shift", cairn.rand(6))

            def forward(self, x):
                return cairn.nn.functional.relu(self.body(x) * self.scale + self.shift) * float("inf")
        module = cairn.fx.symbolic_trace(Net().eval())
        x = cairn.rand(3, 4)
        with tempfile.TemporaryDirectory() as folder:
            module.to_folder(pathlib.Path(folder) / "made_by_fx", "Made")
            sys.path.insert(0, folder)
            try:
                from made_by_fx import Made
                made = Made().eval()
            finally:
                sys.path.remove(folder)
        self.assertTrue(cairn.equal(made(x), module(x)))
        self.assertEqual(list(made.state_dict()), list(module.state_dict()))

    def test_what_has_no_text_is_refused(self):
        class Own(cairn.nn.Module):
            def forward(self, x):
                return x

        class Leaf(cairn.fx.Tracer):
            def is_leaf_module(self, m, module_qualified_name):  # unused: m, module_qualified_name (all are)
                return True
        net = cairn.nn.Sequential(Own())
        module = cairn.fx.GraphModule(net, Leaf().trace(net))
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(NotImplementedError, "Own"):
                module.to_folder(folder)
            self.assertEqual(list(pathlib.Path(folder).iterdir()), [])


if __name__ == "__main__":
    unittest.main()
