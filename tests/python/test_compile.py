"""cairn.compile: functions and modules compute what they compute as they are, to the bit; one program for each kind of
call; what cannot be captured runs as it is."""
import copy
import dataclasses
import json
import math
import os
import random
import types
import unittest
import warnings

import cairn
import cairn.nn.functional as F
from cairn import compiler, nn

try:
    import numpy
except ImportError:
    numpy = None


class CompileTest(unittest.TestCase):
    def assertSame(self, a, b):
        self.assertTrue(cairn.equal(a, b), "%s\n%s" % (a, b))

    # ---- kinds of calls ----
    def test_gradients_of_gradients(self):
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()

        def f(x, y):
            with cairn.no_grad():
                still = x.exp()
            return (net(x) * y).sum(-1) + (x * still).sum(-1), x.sin() * y.sum()
        fast = compiler.compile(f, fullgraph=True)
        x, y = (cairn.randn(2, n, dtype=cairn.float64, requires_grad=True) for n in (3, 2))
        still = compiler.compile(lambda x, y: (net(x) * y).sum(-1), fullgraph=True)
        self.assertTrue(cairn.autograd.gradcheck(still, (x, y)))
        self.assertTrue(cairn.autograd.gradgradcheck(still, (x, y)))
        parameters = tuple(net.parameters())
        second = []
        for g in (f, fast):
            a, b = g(x * x, y)  # an input with a history
            first = cairn.autograd.grad(a.sum() + b.sum(), (x, y) + parameters, create_graph=True)
            second.append(cairn.autograd.grad(sum(v.square().sum() for v in first), (x, y) + parameters,
                                              create_graph=True))
            third = cairn.autograd.grad(sum(v.sum() for v in second[-1]), (x,) + parameters, allow_unused=True)
            second[-1] += tuple(v for v in third if v is not None)
        self.assertEqual(len(second[0]), len(second[1]))
        for a, b in zip(*second):
            self.assertSame(a, b)
        self.assertEqual(compiler.stats(fast)["eager_calls"], 0)

    def test_gradients_of_gradients_that_cannot_be(self):
        def hooked(x):
            y = x * x
            y.register_hook(lambda g: g * 2)
            return y * x

        def writes(x):
            y = x * x
            x.mul_(2)
            return y
        x = cairn.randn(3, requires_grad=True)
        with self.assertRaisesRegex(RuntimeError, "hooks"):
            cairn.autograd.grad(compiler.compile(hooked)(x).sum(), x, create_graph=True)
        y = x * 1
        with self.assertRaisesRegex(RuntimeError, "writes to its inputs|changed in place"):
            cairn.autograd.grad(compiler.compile(writes)(y).sum(), x, create_graph=True)
        weight = nn.Parameter(cairn.ones(3))
        out = compiler.compile(lambda x: x * x * weight)(x)
        with cairn.no_grad():
            weight.mul_(2)
        with self.assertRaisesRegex(RuntimeError, "changed in place"):
            cairn.autograd.grad(out.sum(), x, create_graph=True)

    def test_tensors_outside_with_a_history(self):
        leaf = cairn.randn(3, requires_grad=True)
        grads = []
        for eager in (True, False):
            outside = leaf.exp()
            f = compiler.compile(lambda x: x * outside)
            x = cairn.arange(3.0)
            y = (x * outside) if eager else f(x)
            (y.sum() + outside.sum()).backward()
            grads.append(leaf.grad)
            leaf.grad = None
        self.assertSame(*grads)

    def test_arguments(self):
        @cairn.compile
        def f(x, scale, *, shift=0, names=("a",), more=None):
            return {"y": x * scale + shift, "n": len(names), "list": [x - 1, None, "text"], "more": more}
        x = cairn.ones(3)
        for scale in (2, 3, 2.5, 2):
            out = f(x, scale, shift=1)
            self.assertSame(out["y"], x * scale + 1)
            self.assertEqual((out["n"], out["list"][1:], out["more"]), (1, [None, "text"], None))
        self.assertEqual(compiler.stats(f)["executables"], 3)
        self.assertEqual(f(x, 2, more={"k": x + 5})["more"]["k"].tolist(), [6, 6, 6])
        self.assertEqual(f(cairn.ones(3, dtype=cairn.float64), 2)["y"].dtype, cairn.float64)
        self.assertEqual(f.__name__, "f")

    def test_floats(self):
        """Floats are inputs: one program for all of them, with the types and bits that numbers give."""
        x = cairn.randn(5)
        os.environ["CAIRN_COMPILE"] = "exact"  # float16 between ops
        self.addCleanup(os.environ.pop, "CAIRN_COMPILE")
        calls = {
            "product": lambda x, a: x * a + a,
            "in front": lambda x, a: a - x / a,
            "comparison": lambda x, a: (x > a) & (a >= x.abs()),
            "power": lambda x, a: x.abs() ** a,
            "types": lambda x, a: x.half() * a + (x > 0) * a + x.long() * a,
            "nested": lambda x, a: {"y": x.mul(a)}["y"].where(x > a, a),
            "in place": lambda x, a: x.clone().mul_(a).add_(a),
        }
        for name, f in calls.items():
            with self.subTest(name):
                fast = compiler.compile(f, fullgraph=True)
                for a in (0.5, 0.25, -3.7, float("inf"), 0.5):
                    want, have = f(x, a), fast(x, a)
                    self.assertEqual(want.dtype, have.dtype)
                    self.assertTrue(cairn.allclose(want.double(), have.double(), rtol=0, atol=0, equal_nan=True))
                self.assertEqual(compiler.stats(fast)["executables"], 1)
        fast = compiler.compile(lambda x, s: x * s[0] + s[1]["b"], fullgraph=True)
        for a, b in ((0.1, 0.2), (0.3, 0.4)):
            self.assertSame(fast(x, (a, {"b": b})), x * a + b)
        fast(x, (2, {"b": 0.4}))  # an int is another kind
        self.assertEqual(compiler.stats(fast)["executables"], 2)

    def test_floats_with_gradients(self):
        w = nn.Parameter(cairn.randn(3))

        def f(x, a):
            return (x * w * a).exp().sum() * a
        fast, x = compiler.compile(f, fullgraph=True), cairn.randn(3, requires_grad=True)
        for a in (0.5, -0.25):
            want, have = (cairn.autograd.grad(g(x, a), (x, w), create_graph=True) for g in (f, fast))
            for p, q in zip(want, have):
                self.assertSame(p, q)
            for p, q in zip(*(cairn.autograd.grad(v[0].sum(), (x, w)) for v in (want, have))):
                self.assertSame(p, q)
        self.assertEqual(compiler.stats(fast)["executables"], 1)

    def test_floats_that_are_read(self):
        """What the function does with the number itself stays right: the float is part of the program then."""
        x = cairn.arange(4.0)
        calls = {
            "branch": lambda x, a: x.exp() if a > 0.3 else x.sin(),
            "hidden branch": lambda x, a: x * (2 if min(a, 1.0) == 1.0 else 3),
            "whole": lambda x, a: x[: int(a * 4)],
            "argument": lambda x, a: F.leaky_relu(-x, a),
            "maths": lambda x, a: x * math.sqrt(a),
            "derived": lambda x, a: x * (1 - a) - -a,
            "text": lambda x, a: x * len("%.1f" % a + repr(a)),
            "type": lambda x, a: x.exp() if type(a) is float and a > 0.3 else x.sin(),
            "kind": lambda x, a: x.exp() if isinstance(a, float) and a > 0.3 else x.sin(),
            "json": lambda x, a: x * json.loads(json.dumps(a)),
            "table": lambda x, a: x * {0.25: 2.0, 0.5: 3.0, 1.0: 4.0, 1.25: 5.0}[a],
            "returned": lambda x, a: (x * a, a),
        }
        if numpy:
            calls["numpy"] = lambda x, a: x * float(numpy.float64(a) + 1)
        for name, f in calls.items():
            with self.subTest(name):
                fast = compiler.compile(f, fullgraph=True)
                for a in (0.25, 0.5, 1.0, 1.25, 0.25):
                    want, have = f(x, a), fast(x, a)
                    if name == "returned":
                        self.assertEqual(have[1], a)
                        want, have = want[0], have[0]
                    self.assertSame(have, want)
                self.assertEqual(compiler.stats(fast)["executables"], 4)
        both = compiler.compile(lambda x, a, b: x * a if b > 0 else x, fullgraph=True)
        for a, b in ((0.1, 1.0), (0.2, 1.0), (0.3, -1.0)):
            self.assertSame(both(x, a, b), x * a if b > 0 else x)
        self.assertEqual(compiler.stats(both)["executables"], 2)  # only the one that is read counts

        def fails(x, a):
            raise KeyError(a)
        with self.assertRaisesRegex(KeyError, "0.5"):
            compiler.compile(fails)(x, 0.5)
        branches = compiler.compile(lambda x, a: x * a if x.sum() > 0 else x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertSame(branches(x, 0.5), x * 0.5)

    def test_modes(self):
        net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))
        fast, x = cairn.compile(net), cairn.randn(6, 4)
        for _ in range(2):
            fast.train()
            self.assertTrue(fast(x).requires_grad)
            with cairn.no_grad():
                self.assertFalse(fast(x).requires_grad)
            fast.eval()
            self.assertFalse(net.training)
            self.assertSame(fast(x), net(x))
            with cairn.autocast("cpu", dtype=cairn.bfloat16):
                self.assertEqual(fast(x).dtype, net(x).dtype)
        self.assertEqual(compiler.stats(fast)["eager_calls"], 0)

    def test_gradients_that_are_switched_on_inside(self):
        def history(x, w):
            with cairn.enable_grad():
                return x * w

        def backward(x, w):
            with cairn.enable_grad():
                y = (x * w).exp().sum()
                y.backward()
            return y.detach()
        x, w = cairn.randn(3, requires_grad=True), nn.Parameter(cairn.randn(3))
        for f, captured in ((history, False), (backward, True)):
            for inputs in ((x, w), (x * 1, w)) if f is history else ((x, w),):
                fast, grads = compiler.compile(f, fullgraph=captured), []
                for g in (f, fast, fast):
                    x.grad = w.grad = None
                    with cairn.no_grad(), warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        y = g(*inputs)
                    self.assertEqual(y.requires_grad, f is history)
                    if f is history:
                        y.sum().backward(retain_graph=True)
                    grads.append((x.grad, w.grad))
                for have in grads[1:]:
                    self.assertSame(have[0], grads[0][0])
                    self.assertSame(have[1], grads[0][1])
        fast = compiler.compile(lambda x: (x * 2).exp(), fullgraph=True)
        with cairn.no_grad():
            self.assertFalse(fast(x).requires_grad)
            self.assertFalse(fast(x * 1).requires_grad)

    def test_what_is_outside(self):
        net, factor = nn.Linear(3, 3), 2

        @cairn.compile
        def f(x):
            return net(x) * factor
        x = cairn.randn(2, 3)
        self.assertSame(f(x), net(x) * 2)
        factor = 5
        self.assertSame(f(x), net(x) * 5)
        net.weight = nn.Parameter(cairn.zeros(3, 3))
        self.assertSame(f(x), net(x) * 5)
        with cairn.no_grad():
            net.bias.fill_(3)  # the same tensor: no new program
        made = compiler.stats(f)["executables"]
        self.assertSame(f(x), net(x) * 5)
        self.assertEqual(compiler.stats(f)["executables"], made)
        net.weight.data = cairn.ones(3, 3)
        self.assertSame(f(x), net(x) * 5)

    def test_inputs_written_in_place(self):
        @cairn.compile
        def f(x, y):
            x.add_(1)
            y[0] = x[1]
            return x.sum()
        x, y = cairn.arange(3.0), cairn.zeros(2)
        self.assertEqual([f(x, y).item(), f(x, y).item()], [6, 9])
        self.assertEqual((x.tolist(), y.tolist()), ([2, 3, 4], [3, 0]))

    def test_inputs_with_a_history_written_in_place(self):
        """Their history goes on outside: such a call runs as it is."""
        fast = compiler.compile(lambda x: x.mul_(2).exp())
        grads = []
        for f in (lambda x: x.mul_(2).exp(), fast):
            leaf = cairn.arange(3.0, requires_grad=True)
            x = leaf * 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                (f(x).sum() + x.sum()).backward()
            grads.append(leaf.grad)
        self.assertSame(*grads)
        self.assertEqual(compiler.stats(fast)["eager_calls"], 1)
        with self.assertRaisesRegex(RuntimeError, "changed in place"):
            fast(cairn.ones(2, requires_grad=True))

    def test_results_that_are_views(self):
        """Results that show inputs or tensors outside do so, with gradients; those that show each other are copies."""
        kept = nn.Parameter(cairn.arange(4.0))
        calls = {
            "input": lambda x: (x, x * 2),
            "view": lambda x: x.view(2, 2).t(),
            "part": lambda x: x[1:3],
            "outside": lambda x: (kept, x * kept),
            "written": lambda x: x.mul_(2).view(2, 2),
            "cut": lambda x: x.detach()[:2],
        }
        for name, f in calls.items():
            for grad in (False, True)[: 1 if name == "written" else 2]:
                with self.subTest(name, grad=grad):
                    fast = compiler.compile(f, fullgraph=True)
                    for _ in range(2):
                        made = []
                        for g in (f, fast):
                            leaf = cairn.arange(4.0, requires_grad=grad)
                            x = leaf * 1
                            y = g(x)
                            y = y[0] if isinstance(y, tuple) else y
                            self.assertEqual(y.untyped_storage().data_ptr(),
                                             (kept if name == "outside" else x).untyped_storage().data_ptr())
                            if y.requires_grad:
                                (y * y).sum().backward()
                            gradient = kept.grad if name == "outside" else leaf.grad
                            kept.grad = None
                            with cairn.no_grad():
                                before = y.clone()
                                y += 1
                                made.append((before, x.clone(), gradient, y.requires_grad, y._is_view()))
                                y -= 1
                        for a, b in zip(*made):
                            self.assertSame(a, b) if isinstance(a, cairn.Tensor) else self.assertEqual(a, b)
        a, b = compiler.compile(lambda x: (x * 2).chunk(2))(cairn.ones(4))
        a += 1
        self.assertEqual(b.tolist(), [2, 2])
        a, b = compiler.compile(lambda x: (x.exp(),) * 2)(cairn.zeros(2))  # one result, twice
        a += 1
        self.assertEqual(b.tolist(), [2, 2])
        x = nn.Parameter(cairn.ones(2))
        self.assertIs(compiler.compile(lambda x: x)(x), x)

    def test_random_numbers(self):
        f = cairn.compile(lambda x: (cairn.rand(4) + x, F.dropout(x, 0.5)))
        x = cairn.ones(4)
        cairn.manual_seed(3)
        want = [cairn.rand(4) + x, F.dropout(x, 0.5), cairn.rand(2)]
        for _ in range(2):
            cairn.manual_seed(3)
            have = [*f(x), cairn.rand(2)]
            for a, b in zip(want, have):
                self.assertSame(a, b)

    def test_results_that_are_not_used(self):
        """Their gradients are absent, not zeros: those would make NaNs of infinite derivatives."""
        def f(x):
            return x * 2, x.sqrt(), (x + 1).log() * 3
        for used in ([0], [2], [0, 2], [1], [0, 1, 2]):
            grads = []
            for g in (f, cairn.compile(f)):
                x = cairn.zeros(2, requires_grad=True)
                sum(g(x)[i].sum() for i in used).backward()
                grads.append(x.grad.tolist())
            self.assertEqual(grads[0], grads[1], used)

    def test_settings_of_layers(self):
        for how in (lambda net: net, cairn.compile):
            net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(1.0))
            f = how(net)
            self.assertEqual(f(cairn.ones(1, 2)).tolist(), [[0, 0]])
            net[1].p = 0.0
            self.assertSame(f(cairn.ones(1, 2)), net[0](cairn.ones(1, 2)))

    # ---- what cannot be captured ----
    def runs_as_it_is(self, f, make):
        """f(*make()) as it is and compiled: results and what the arguments are then."""
        found = []
        for g in (f, cairn.compile(f)):
            arguments = make()
            out = g(*arguments)
            found.append([t.tolist() for t in (out, *arguments)])
        self.assertEqual(*found)
        self.assertEqual(compiler.stats(g)["eager_calls"], 1)

    def test_memory_with_two_names(self):
        def write_first(x, y):
            x.add_(1)
            return y.sum()

        def write_second(x, y):
            y.mul_(2)
            return x.sum()

        def overlapping():
            x = cairn.arange(4.0)
            return x, x[1:]
        for f in (write_first, write_second):
            self.runs_as_it_is(f, overlapping)
            self.runs_as_it_is(f, lambda: (cairn.arange(3.0),) * 2)
        outside = cairn.zeros(3)

        @cairn.compile
        def both(x):
            x.add_(1)
            return outside.sum()
        self.assertEqual(both(outside).item(), 3)  # the first call shares memory
        self.assertEqual(both(cairn.ones(3)).item(), 3)
        self.assertEqual(both(outside).item(), 6)
        self.assertEqual(compiler.stats(both)["runs"], 1)

    def test_part_of_a_larger_tensor(self):
        base = cairn.arange(6.0)
        f = cairn.compile(lambda x: x.as_strided((2,), (1,), 0) * 1)
        for x in (base, base[2:], base[:2]):
            self.assertSame(f(x), x.as_strided((2,), (1,), 0))

    def test_histories_outside(self):
        w = cairn.ones(2, requires_grad=True)

        def gradient(use):
            w.grad = None
            use()
            return w.grad.tolist()
        for how in (lambda f: f, cairn.compile):
            h = w * 3
            self.assertEqual(gradient(lambda: how(lambda x: (x * h).sum())(cairn.ones(2)).backward()), [3, 3])
            self.assertEqual(gradient(lambda: how(lambda h: (h * 2).sum().backward())(w * 3)), [6, 6])
            self.assertEqual(gradient(lambda: how(lambda h: (h * w).sum().backward())(w * 3)), [6, 6])

            def in_place(h):
                h.mul_(2)

            def use():
                h = w * 3
                how(in_place)(h)
                h.sum().backward()
            self.assertEqual(gradient(use), [6, 6])

            def use_other():
                x = cairn.ones(2)
                how(lambda x: x.mul_(w))(x)
                (x * 5).sum().backward()
            self.assertEqual(gradient(use_other), [5, 5])
        x = cairn.ones(2)
        cairn.compile(lambda x: x.requires_grad_().sum())(x)
        self.assertTrue(x.requires_grad)

    def test_results_whose_history_is_spent(self):
        """A loss from which the function went backward itself is returned; nobody can go backward from it again."""
        w = cairn.ones(2, requires_grad=True)

        def step(x):
            loss = (x * w).square().sum()
            gradient, = cairn.autograd.grad(loss, w)
            with cairn.no_grad():
                w.sub_(gradient, alpha=0.1)
            return loss
        want = [step(cairn.ones(2)).item() for _ in range(3)]
        with cairn.no_grad():
            w.fill_(1)
        fast = cairn.compile(step)
        self.assertEqual([fast(cairn.ones(2)).item() for _ in range(3)], want)
        self.assertEqual(compiler.stats(fast)["runs"], 3)

    def test_leaves_made_inside(self):
        f = cairn.compile(lambda x: (x * 2).detach().requires_grad_())
        y = f(cairn.ones(2))
        y.sum().backward()
        self.assertEqual(y.grad.tolist(), [1, 1])

    def test_packed_sequences(self):
        """Named tuples whose class takes other arguments."""
        pack = nn.utils.rnn.pack_sequence([cairn.ones(3, 2), cairn.ones(1, 2)])
        f = cairn.compile(lambda p: p._replace(data=p.data * 2))
        for _ in range(2):
            out = f(pack)
            self.assertIs(type(out), type(pack))
            self.assertSame(out.data, pack.data * 2)
        self.assertEqual(compiler.stats(f)["runs"], 2)

    def test_branches(self):
        @cairn.compile
        def f(x):
            return x * 2 if x.sum() > 0 else x - 1
        line = f.__wrapped__.__code__.co_firstlineno + 2
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.assertEqual(f(cairn.ones(2)).tolist(), [2, 2])
            self.assertEqual(f(-cairn.ones(2)).tolist(), [-2, -2])
        self.assertEqual([w.filename for w in seen], [__file__])  # one, with the line of the call
        self.assertRegex(str(seen[0].message), r"f cannot be captured, and runs as it is: .*where, cond or while.*"
                         r"test_compile.py:%d\)" % line)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with self.assertRaisesRegex(UserWarning, "runs as it is"):
                cairn.compile(f.__wrapped__)(cairn.ones(2))
        self.assertEqual(compiler.stats(f)["eager_calls"], 2)
        self.assertIn("runs as it is", compiler.explain(f, cairn.ones(2)))
        whole = cairn.compile(lambda x: x * 2 if x.sum() > 0 else x, fullgraph=True)
        with self.assertRaisesRegex(cairn.CaptureError, "cannot be captured"):
            whole(cairn.ones(2))
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            cairn.compile(lambda x: x * (1 // 0))(cairn.ones(2))

    def test_tensors_that_are_kept_outside(self):
        class Remembers(nn.Module):
            def forward(self, x):
                self.last = x * 2
                return self.last + 1
        net = Remembers()
        fast = cairn.compile(net)
        self.assertEqual(fast(cairn.ones(2)).tolist(), [3, 3])
        self.assertEqual(net.last.tolist(), [2, 2])
        self.assertEqual(fast(cairn.zeros(2)).tolist(), [1, 1])
        self.assertEqual(net.last.tolist(), [0, 0])
        self.assertEqual(compiler.stats(fast)["eager_calls"], 2)

    def test_what_a_capture_changed_is_taken_back(self):
        """A call that cannot be captured runs as it is, from where things stood."""
        class Plain:
            pass
        plain, kept, by_name, total, whole = Plain(), [], {}, cairn.zeros(2), cairn.ones(3)
        plain.state, plain.log = cairn.zeros(2), []

        def in_an_object(x):
            plain.state = plain.state + x
            plain.log.append(plain.state)
            return plain.state * 2

        def in_containers(x):
            kept.append(x * 2)
            by_name["y"] = kept[-1] + by_name.get("y", 0)
            return by_name["y"]

        def in_a_variable(x):
            nonlocal total
            total = total + x
            return total * 2

        def of_an_argument(thing, x):
            thing.state = thing.state + x
            return thing.state

        def reads(x, a):
            by_name["reads"] = by_name.get("reads", 0) + 1
            return x if a > 0.5 else x * a
        x = cairn.ones(2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i in (1, 2, 3):
                for f in (in_an_object, in_containers, in_a_variable):
                    with self.subTest(f.__name__, i=i):
                        self.assertEqual(compiler.compile(f)(x).tolist(), [2 * i, 2 * i])
        self.assertEqual([one.tolist() for one in plain.log], [[1, 1], [2, 2], [3, 3]])
        self.assertEqual([len(kept), total.tolist()], [3, [3, 3]])
        fast = compiler.compile(of_an_argument)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for i in (4, 5):
                self.assertEqual(fast(plain, x).tolist(), [i, i])
        self.assertSame(compiler.compile(reads)(whole, 0.75), whole)
        self.assertEqual(by_name["reads"], 1)

    def test_arguments_that_are_changed(self):
        @dataclasses.dataclass
        class State:
            h: cairn.Tensor
            steps: int = 0

        def appends(x, several):
            several.append(x * 2)
            return x + 1

        def pops(batch):
            y = batch.pop("y")
            batch["z"] = batch["x"] - y
            return y * 2

        def branches(batch):
            batch["z"] = batch["x"] * 2
            return batch if batch["x"].sum() > 0 else None

        def moves(state, x):
            state.h, state.steps = state.h + x, state.steps + 1
            return state.h * 2

        def written(several):  # tensors may be
            several[0] += 1
            return several[0] * 2
        x = cairn.arange(3.0)
        makers = {appends: lambda: (x, []), pops: lambda: ({"x": x, "y": x + 1},), branches: lambda: ({"x": x},),
                  moves: lambda: (State(cairn.zeros(3)), x), written: lambda: ([cairn.zeros(3)],)}
        for f, make in makers.items():
            with self.subTest(f.__name__), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fast = compiler.compile(f)
                for _ in range(2):
                    want, have = make(), make()
                    result = [f(*want), fast(*have)]
                    self.assertEqual(repr(have), repr(want))
                    self.assertEqual(repr(result[1]), repr(result[0]))
                self.assertEqual(compiler.stats(fast)["eager_calls"], 0 if f is written else 2)
        with self.assertRaisesRegex(cairn.CaptureError, "changes a list, dictionary or record among its arguments"):
            compiler.compile(appends, fullgraph=True)(x, [])
        batch = {"x": x}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.assertIs(compiler.compile(branches)(batch), batch)

    def test_a_mask_that_is_made_once(self):
        class Masked(nn.Module):
            mask = None

            def forward(self, x):
                if self.mask is None or self.mask.shape != x.shape:
                    self.mask = (x * 0 + 1).tril()
                return x * self.mask
        fast = cairn.compile(Masked())
        for n in (3, 3, 2, 2):
            self.assertSame(fast(cairn.ones(n, n)), cairn.ones(n, n).tril())

    def test_copies(self):
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        net.compile()
        x = cairn.ones(1, 2)
        want, other = net(x), copy.deepcopy(net)
        with cairn.no_grad():
            other[0].weight.zero_()
            other[0].bias.fill_(2)
        self.assertEqual(other(x).tolist(), [[2, 2]])
        self.assertSame(net(x), want)

    def test_disable(self):
        @compiler.disable
        def plain(x):
            return x + x.sum().item()
        f = cairn.compile(lambda x: plain(x) * 2)
        self.assertEqual(f(cairn.ones(2)).tolist(), [6, 6])
        self.assertEqual(compiler.stats(f)["eager_calls"], 1)

    def test_options(self):
        net = nn.Linear(2, 2)
        self.assertIs(cairn.compile(net, backend="eager"), net)
        self.assertIs(cairn.compile(net, disable=True), net)
        with self.assertRaises(NotImplementedError):
            cairn.compile(net, backend=lambda graph, inputs: graph)
        with self.assertRaisesRegex(RuntimeError, "unknown mode"):
            cairn.compile(net, mode="fastest")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            decorated = cairn.compile(mode="max-autotune", dynamic=True)(lambda x: x + 1)
        self.assertEqual(decorated(cairn.ones(1)).item(), 2)

    # ---- modules and methods ----
    def test_modules(self):
        net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        fast = cairn.compile(net)
        self.assertIsInstance(fast, nn.Module)
        self.assertIs(fast._orig_mod, net)
        self.assertEqual(set(fast.state_dict()), {"_orig_mod.0.weight", "_orig_mod.0.bias"})
        self.assertIs(fast[0] if hasattr(fast, "__getitem__") else net[0], net[0])
        inside = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        want = inside(cairn.ones(2, 3))
        inside.compile()
        self.assertSame(inside(cairn.ones(2, 3)), want)
        self.assertEqual(compiler.stats(inside)["runs"], 1)
        self.assertEqual(set(inside.state_dict()), {"0.weight", "0.bias"})

    def test_methods_and_nesting(self):
        class Trainer:
            def __init__(self):
                self.net, self.calls = nn.Linear(2, 2), 0

            @cairn.compile
            def loss(self, x):
                self.calls += 1
                return self.net(x).sum()
        a, b, x = Trainer(), Trainer(), cairn.ones(1, 2)
        self.assertSame(a.loss(x), a.net(x).sum())
        self.assertSame(b.loss(x), b.net(x).sum())
        outer = cairn.compile(lambda x: a.loss(x) * 2)
        self.assertSame(outer(x), a.net(x).sum() * 2)

    def test_looking_in(self):
        compiler.reset()
        f = cairn.compile(lambda x: (x * 2).sum())
        f(cairn.ones(3, requires_grad=True))
        self.assertEqual(compiler.stats()["executables"], 1)
        self.assertIn("backward: ", compiler.explain(f, cairn.ones(3, requires_grad=True)))
        self.assertEqual(set(compiler.stats()), {"executables", "runs", "recompiles", "eager_calls", "groups", "code"})
        self.assertFalse(compiler.is_compiling())
        asked = []
        cairn.compile(lambda x: asked.append(compiler.is_compiling()) or x)(cairn.ones(1))
        self.assertEqual(asked, [True])

    def test_check(self):
        class Scaled(nn.Module):
            def __init__(self):
                super().__init__()
                self.fc, self.scale = nn.Linear(3, 2), types.SimpleNamespace(factor=2.0, dim=0)

            def forward(self, x):
                return (self.fc(x) * self.scale.factor).sum(self.scale.dim)
        net, x = Scaled(), cairn.randn(4, 3)
        os.environ["CAIRN_COMPILE"] = "check"
        self.addCleanup(os.environ.pop, "CAIRN_COMPILE")
        fast = compiler.compile(net)
        for _ in range(2):
            self.assertSame(fast(x), net(x))
        net.scale.factor = 3.0
        with self.assertRaisesRegex(cairn.CaptureError, "mul in '.*' .*: it reads the number 2, and now 3"):
            fast(x)
        net.scale = types.SimpleNamespace(factor=2.0, dim=1)
        with self.assertRaisesRegex(cairn.CaptureError, r"sum .*argument 'dim' was \[0\], and is now \[1\]"):
            fast(x)
        noisy = compiler.compile(lambda x: x * random.random())
        with self.assertRaisesRegex(cairn.CaptureError, "mul: it reads the number 0"):
            noisy(x)
        drawn = compiler.compile(lambda x: x + cairn.tensor([random.random()]))
        with self.assertRaisesRegex(cairn.CaptureError, "it reads another tensor: element 0 is 0"):
            drawn(x)
        calls = []

        def changes(x):
            calls.append(1)
            return x.exp() if len(calls) < 3 else x.sin()
        with self.assertRaisesRegex(cairn.CaptureError, "result 0|there is now sin"):
            compiler.compile(changes)(x)

    def test_off(self):
        os.environ["CAIRN_COMPILE"] = "off"
        try:
            f = cairn.compile(lambda x: x + 1)
            self.assertEqual(f(cairn.ones(1)).item(), 2)
            self.assertEqual(compiler.stats(f)["eager_calls"], 1)
        finally:
            del os.environ["CAIRN_COMPILE"]


if __name__ == "__main__":
    unittest.main()
