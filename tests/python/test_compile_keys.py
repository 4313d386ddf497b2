"""What programs of cairn.compile depend on: attributes of modules and objects, methods, records, variables outside, the
order of weights in memory; and the order of the gradients that they leave."""
import collections
import copy
import dataclasses
import functools
import types
import unittest
import warnings

import cairn
import cairn.nn.functional as F
from cairn import compiler, nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.steps, self.settings, self.sizes = 2.0, 0, {"add": 1.0}, [1, 2]
        self.shift = cairn.ones(2)
        self.calls, self.seen = 0, []

    def _added(self):
        return self.settings["add"] + sum(self.sizes)

    def forward(self, x):
        self.calls += 1
        self.seen.append(len(x))
        return x * self.scale + self.shift + self._added()


class KeyTest(unittest.TestCase):
    def assertSame(self, a, b):
        self.assertTrue(cairn.equal(a, b), "%s\n%s" % (a, b))
        self.assertEqual(a.stride(), b.stride())

    def assertPrograms(self, fn, count):
        stats = compiler.stats(fn)
        self.assertEqual((stats["executables"], stats["eager_calls"]), (count, 0), stats)

    def test_attributes_of_modules(self):
        net, x = Scaled(), cairn.ones(2)
        fast = compiler.compile(net)
        for _ in range(3):
            net.steps += 1  # nobody reads it in forward
            self.assertSame(fast(x), x * 2 + 1 + 4)
        self.assertPrograms(fast, 1)
        self.assertEqual(net.calls, 1)
        net.scale = 3.0
        self.assertSame(fast(x), x * 3 + 1 + 4)
        net.settings["add"] = 2.0
        net.sizes.append(5)
        self.assertSame(fast(x), x * 3 + 1 + 10)
        net.shift = cairn.full((2,), 7.0)
        self.assertSame(fast(x), x * 3 + 7 + 10)
        net.shift.fill_(8)
        self.assertSame(fast(x), x * 3 + 8 + 10)
        self.assertPrograms(fast, 4)
        net.scale, net.settings["add"] = 3, True  # equal numbers of other types
        self.assertSame(fast(x), x * 3 + 8 + 9)
        self.assertPrograms(fast, 5)

    def test_hooks(self):
        net, x = nn.Linear(2, 2), cairn.ones(1, 2)
        fast = compiler.compile(net)
        plain = fast(x)
        handle = net.register_forward_hook(lambda module, args, result: result * 2)
        self.assertSame(fast(x), plain * 2)
        handle.remove()
        self.assertSame(fast(x), plain)

    def test_methods(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(2, 2)

            @compiler.compile
            def forward(self, x):
                return self.linear(x)

        class Model2(Model):
            @compiler.compile
            def forward(self, x):
                return super().forward(x) * 2

        class Plain:
            def __init__(self):
                self.factor, self.steps = 2.0, 0

            @compiler.compile
            def scaled(self, x):
                return x * self.factor

        x = cairn.ones(1, 2)
        compiler.reset()
        net, twice, plain = Model(), Model2(), Plain()
        for _ in range(3):
            plain.steps += 1
            self.assertSame(net(x), net.linear(x))
            self.assertSame(twice(x), twice.linear(x) * 2)
            self.assertSame(plain.scaled(x), x * plain.factor)
        self.assertEqual(compiler.stats()["executables"], 3)
        plain.factor = 5.0
        self.assertSame(plain.scaled(x), x * 5)
        other = copy.deepcopy(net)
        other.linear.weight.data.zero_()
        self.assertSame(other(x), other.linear(x))
        self.assertSame(net(x), net.linear(x))

    def test_records(self):
        @dataclasses.dataclass
        class Batch:
            x: cairn.Tensor
            scale: float
            name: str = "one"

        @dataclasses.dataclass(frozen=True)
        class Result:
            y: cairn.Tensor
            parts: list

        def f(batch):
            y = batch.x * batch.scale
            return Result(y if batch.name == "one" else -y, [y + 1])
        fast = compiler.compile(f, fullgraph=True)
        for i in range(3):
            batch = Batch(cairn.randn(3), 0.5 + i)
            have, want = fast(batch), f(batch)
            self.assertIsInstance(have, Result)
            self.assertSame(have.y, want.y)
            self.assertSame(have.parts[0], want.parts[0])
        self.assertPrograms(fast, 1)
        batch.name = "two"
        self.assertSame(fast(batch).y, -batch.x * batch.scale)
        self.assertPrograms(fast, 2)

    def test_dictionaries_of_other_classes(self):
        fast = compiler.compile(lambda x: (collections.defaultdict(list, a=[x + 1]), collections.OrderedDict(b=x)))
        for _ in range(2):
            first, second = fast(cairn.ones(2))
        self.assertSame(first["a"][0], cairn.full((2,), 2.0))
        self.assertEqual(first["none"], [])
        self.assertIs(type(second), collections.OrderedDict)

    def test_variables_outside(self):
        settings, count = {"scale": 2.0, "w": cairn.ones(2)}, 0

        def f(x):
            nonlocal count
            count += 1
            return x * settings["scale"] + settings["w"]
        fast, x = compiler.compile(f), cairn.ones(2)
        for _ in range(3):
            self.assertSame(fast(x), x * 2 + 1)
        self.assertPrograms(fast, 1)  # a counter is no reason for another
        self.assertEqual(count, 1)
        settings["scale"] = 3.0
        self.assertSame(fast(x), x * 3 + 1)
        settings["w"] = cairn.zeros(2)
        self.assertSame(fast(x), x * 3)

    def test_modules_that_the_code_does_not_name(self):
        """Modes count wherever a module is found: behind helpers, in objects and partial arguments."""
        net, other, x = nn.Dropout(0.5), nn.Linear(2, 2), cairn.ones(400)
        thing = types.SimpleNamespace(net=net)

        def helper(x):
            return net(x)

        def use(net, x):
            return net(x)
        for f in (lambda x: helper(x), lambda x: thing.net(x), functools.partial(use, net)):
            fast = compiler.compile(f, fullgraph=True)
            for i in range(6):
                net.train(i % 2 == 0)
                self.assertEqual(cairn.equal(fast(x), x), i % 2 == 1)
            self.assertPrograms(fast, 2)

        def linear(x):
            return other(x)
        fast, x = compiler.compile(lambda x: linear(x), fullgraph=True), cairn.ones(1, 2)
        self.assertSame(fast(x), other(x))
        other.weight = nn.Parameter(cairn.zeros(2, 2))
        self.assertSame(fast(x), other(x))

    def test_numbers_that_are_equal_but_not_the_same(self):
        x, factor = cairn.ones(2), 0.0

        def outside(x):
            return 1 / (x * factor)

        def read(x, a):
            return x if a > 5 else 1 / (x * a)
        fast, reading = compiler.compile(outside), compiler.compile(read)
        for factor in (0.0, -0.0):
            self.assertSame(fast(x), outside(x))
            self.assertSame(reading(x, factor), read(x, factor))
        for _ in range(4):
            self.assertTrue(reading(x, float("nan")).isnan().all())
        self.assertPrograms(reading, 3)
        names = compiler.compile(lambda several: [(str(key), value * 2) for key, value in several.items()])
        for key in (1, True, 1.0):
            self.assertEqual(names({key: x})[0][0], str(key))

    def test_many_keys(self):
        fast, x = compiler.compile(lambda x, i: x + i), cairn.ones(2)
        for i in range(600):
            self.assertSame(fast(x, i % 300), x + i % 300)
        self.assertLessEqual(len(fast._numbers), 256)

    def test_order_of_weights(self):
        net, x = nn.Conv2d(3, 4, 3), cairn.randn(1, 3, 5, 5)
        fast = compiler.compile(net)
        for order in (cairn.channels_last, cairn.contiguous_format):
            fast(x)
            net.to(memory_format=order)
            self.assertSame(fast(x), net(x))

    def test_generators_of_their_own(self):
        """They are not captured, and a capture that fails draws nothing from them."""
        def numbers(how):
            generator = cairn.Generator().manual_seed(3)
            fn = how(lambda x: x + cairn.rand(3, generator=generator))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return [fn(cairn.zeros(3)).tolist() for _ in range(3)]
        self.assertEqual(numbers(lambda f: f), numbers(compiler.compile))

    def test_vmap(self):
        each = cairn.func.vmap(cairn.func.grad(lambda v: (v.sin() * v).sum()))
        fast, x = compiler.compile(each, fullgraph=True), cairn.randn(4, 3)
        for _ in range(2):
            self.assertSame(fast(x), each(x))

    def test_inference_mode(self):
        net, x = nn.Linear(2, 2), cairn.ones(1, 2)
        fast = compiler.compile(net)
        with cairn.inference_mode():
            self.assertTrue(fast(x).is_inference())
        self.assertFalse(fast(x).is_inference())


def leaf(*shape, order=None):
    t = cairn.randn(*shape)
    return (t.permute(*order) if order else t).detach().requires_grad_()


LAST = cairn.channels_last
# What is computed of a leaf and of x: the leaf, x, the function.
CASES = {
    "convolution": (lambda: leaf(8, 4, 3, 3), (2, 4, 6, 6), F.conv2d),
    "its weight last": (lambda: leaf(8, 4, 3, 3).data.to(memory_format=LAST).requires_grad_(), (2, 4, 6, 6), F.conv2d),
    "product": (lambda: leaf(5, 3, order=(1, 0)), (7, 5), lambda x, w: F.linear(x, w)),
    "transposed inside": (lambda: leaf(5, 3), (7, 5), lambda x, w: x @ w.t().t()),
    "permuted inside": (lambda: leaf(2, 3, 4), (4, 2, 3), lambda x, w: x * w.permute(2, 0, 1)),
    "permuted": (lambda: leaf(2, 3, 4, order=(2, 0, 1)), (4, 2, 3), lambda x, w: x * w),
    "twice": (lambda: leaf(5, 3, order=(1, 0)), (7, 5), lambda x, w: F.linear(x, w).sum() + w.sin().sum()),
    "with gaps": (lambda: leaf(6, 8).data[:, ::2].requires_grad_(), (6, 4), lambda x, w: x * w),
    "expanded": (lambda: leaf(1, 4).data.expand(6, 4).requires_grad_(), (6, 4), lambda x, w: x * w),
    "joined": (lambda: leaf(5, 3, order=(1, 0)), (3, 5), lambda x, w: cairn.cat([w, x])),
    "a part": (lambda: leaf(5, 3, order=(1, 0)), (2, 5), lambda x, w: w[:2] * x),
    "a sum": (lambda: leaf(5, 3, order=(1, 0)), (1,), lambda x, w: w.sum() * x),
}


class GradientOrderTest(unittest.TestCase):
    """A gradient that is left in a leaf lies in memory as the leaf does, or row by row where that has gaps: as it is,
    in a compiled forward, in a compiled step, and with a history of its own."""

    def gradient(self, way, make, shape, fn, last):
        cairn.manual_seed(0)
        w, x = make(), cairn.randn(*shape)
        if last and x.dim() == 4:
            x = x.to(memory_format=LAST)
        forward = compiler.compile(fn, fullgraph=True) if way == "forward" else fn

        def step(x):
            w.grad = None
            loss = forward(x, w).square().sum()
            loss.backward(create_graph=way == "history")
            return loss
        if way == "step":
            step = compiler.compile(step, fullgraph=True)
        for _ in range(3):
            step(x)
        return w, w.grad

    def test_order(self):
        for name, (make, shape, fn) in CASES.items():
            for last in (False, True):
                w, want = self.gradient("eager", make, shape, fn, last)
                dense = name not in ("with gaps", "expanded")
                strides = w.stride() if dense else cairn.empty(w.shape).stride()
                for way in ("eager", "forward", "step", "history"):
                    with self.subTest(name, last=last, way=way):
                        have = self.gradient(way, make, shape, fn, last)[1]
                        self.assertEqual(have.stride(), strides)
                        self.assertTrue(cairn.equal(have.detach(), want))
                        if dense and w.is_contiguous():
                            have.view(-1)


if __name__ == "__main__":
    unittest.main()
