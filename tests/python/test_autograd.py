"""Gradients from Python. Where torch is installed the same program runs in both, and the results must agree."""
import gc
import threading
import unittest
import warnings
import weakref

import cairn
from cases import Case, functions, plain, torch


class Leaves(Case):
    def test_attributes(self):
        def program(m):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            y = x * 2
            z = x.detach()
            return [[t.requires_grad, t.is_leaf, t.grad_fn is None, t.output_nr, t.retains_grad] for t in (x, y, z)]

        self.same(program, [[True, True, True, 0, False], [True, False, False, 0, False],
                            [False, True, True, 0, False]])

    def test_accumulates(self):
        def program(m):
            x = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
            (x * x).sum().backward()
            first = x.grad
            (x * 3).sum().backward()
            kept = x.grad is first
            values = plain(x.grad)
            x.grad = None
            return values, kept, x.grad

        self.same(program, [[5.0, 7.0, 9.0], True, None])

    def test_grad_is_one_object(self):
        x = cairn.ones(3, requires_grad=True)
        x.sum().backward()
        self.assertIs(x.grad, x.grad)
        x.grad.zero_()
        self.near(x.grad, [0.0, 0.0, 0.0])
        del x.grad
        self.assertIsNone(x.grad)

    def test_setting_grad(self):
        def program(m):
            x = m.zeros(2, requires_grad=True)
            g = m.ones(2)
            x.grad = g
            same = x.grad is g
            (x * 2).sum().backward()
            plain_one = m.zeros(2)  # one that records nothing may have a gradient too
            plain_one.grad = g
            return same, plain(x.grad), plain_one.grad is g

        self.same(program, [True, [3.0, 3.0], True])

    def test_setting_wrong_grads(self):
        def shape(m):
            m.zeros(2, requires_grad=True).grad = m.zeros(3)

        def dtype(m):
            m.zeros(2, requires_grad=True).grad = m.zeros(2, dtype=m.float64)

        def kind(m):
            m.zeros(2, requires_grad=True).grad = 1.0

        def itself(m):
            x = m.zeros(2, requires_grad=True)
            x.grad = x

        for program in (shape, dtype, itself):
            self.fails(program)
        self.fails(kind, TypeError)

    def test_switching(self):
        def program(m):
            x = m.zeros(2)
            result = x.requires_grad_() is x, x.requires_grad
            x.sum().backward()
            x.requires_grad = False
            kept = plain(x.grad)
            x.requires_grad_(True)
            return result, kept, plain(x.grad)

        self.same(program, [[True, True], [1.0, 1.0], [1.0, 1.0]])

    def test_switching_off_a_result(self):
        def off(m):
            (m.ones(2, requires_grad=True) * 2).requires_grad_(False)

        def integers(m):
            m.arange(3).requires_grad_()

        def kind(m):
            m.ones(2).requires_grad = 1

        self.fails(off)
        self.fails(integers)
        self.fails(kind, (TypeError, RuntimeError))

    def test_detach_in_place(self):
        def program(m):
            x = m.ones(2, requires_grad=True)
            y = x * 2
            result = y.detach_() is y
            return result, y.requires_grad, y.is_leaf, plain(y)

        self.same(program, [True, False, True, [2.0, 2.0]])
        self.fails(lambda m: (m.ones(2, 2, requires_grad=True) * 1)[0].detach_())

    def test_retain_grad(self):
        def program(m):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            y = x * x
            y.retain_grad()
            (y * 3).sum().backward()
            return plain(y.grad), y.retains_grad, plain(x.grad)

        self.same(program, [[3.0, 3.0], True, [6.0, 12.0]])
        self.fails(lambda m: m.ones(2).retain_grad())

    def test_grad_of_a_result_warns(self):
        y = cairn.ones(2, requires_grad=True) * 2
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            self.assertIsNone(y.grad)
        self.assertEqual(len(seen), 1)

    def test_versions(self):
        def program(m):
            x = m.zeros(3)
            before = x._version
            x.add_(1)
            x[0] = 5
            return before, x._version

        self.same(program)

    def test_data(self):
        def program(m):
            x = m.ones(2, requires_grad=True)
            (x * 3).sum().backward()
            x.data = m.full((2,), 7.0)
            x.data.mul_(2)
            return plain(x), x.requires_grad, plain(x.grad), x.is_leaf

        self.same(program, [[14.0, 14.0], True, [3.0, 3.0], True])


class Backward(Case):
    def test_gradient_argument(self):
        def program(m):
            x = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            (x * x).backward(gradient=m.tensor([[1.0, 0.0], [0.5, 2.0]]))
            return x.grad

        self.same(program, [[2.0, 0.0], [3.0, 16.0]])

    def test_what_it_refuses(self):
        self.fails(lambda m: m.ones(2).sum().backward())
        self.fails(lambda m: (m.ones(2, requires_grad=True) * 2).backward())
        self.fails(lambda m: (m.ones(2, requires_grad=True) * 2).backward(m.ones(3)))
        self.fails(lambda m: (m.ones(2, requires_grad=True) * 2).backward(1.0), TypeError)
        self.fails(lambda m: (m.ones(2, requires_grad=True) * 2).sum().backward(inputs=[]))

    def test_twice(self):
        def again(m):
            y = (m.ones(2, requires_grad=True) ** 2).sum()
            y.backward()
            y.backward()

        def retained(m):
            x = m.ones(2, requires_grad=True)
            y = (x ** 2).sum()
            y.backward(retain_graph=True)
            y.backward()
            return x.grad

        self.fails(again)
        self.same(retained, [4.0, 4.0])

    def test_inputs(self):
        def program(m):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            w = m.tensor([3.0, 4.0], requires_grad=True)
            h = x * w
            (h * h).sum().backward(inputs=[x, h], retain_graph=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                middle = plain(h.grad)
            (h * h).sum().backward(inputs=x)
            return plain(x.grad), w.grad, middle

        self.same(program)

    def test_several_at_once(self):
        def program(m):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            h = x * x
            m.autograd.backward([h.sum(), h], [None, m.tensor([1.0, 10.0])])
            return x.grad

        self.same(program, [4.0, 44.0])
        with self.assertRaises(RuntimeError):
            cairn.autograd.backward([cairn.ones(1, requires_grad=True).sum()], [None, None])

    def test_create_graph(self):
        def program(m):
            x = m.tensor([2.0, 3.0], requires_grad=True)
            g, = m.autograd.grad((x ** 4).sum(), x, create_graph=True)
            h, = m.autograd.grad(g.sum(), x, create_graph=True)
            h.sum().backward()
            return plain(g), plain(h), plain(x.grad)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.same(program, [[32.0, 108.0], [48.0, 108.0], [48.0, 72.0]])

    def test_backward_create_graph(self):
        def program(m):
            x = m.tensor([2.0], requires_grad=True)
            (x ** 3).sum().backward(create_graph=True)
            g = x.grad
            x.grad = None
            g.sum().backward()
            return plain(g), plain(x.grad)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.same(program, [[12.0], [12.0]])


class Grad(Case):
    def test_forms(self):
        def program(m):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            w = m.tensor([3.0, 4.0], requires_grad=True)
            y = (x * w).sum()
            a = m.autograd.grad(y, x, retain_graph=True)
            b = m.autograd.grad([y, y * 2], (x, w), grad_outputs=[m.tensor(1.0), None], retain_graph=True)
            return isinstance(a, tuple), plain(a), plain(b), x.grad

        self.same(program, [True, [[3.0, 4.0]], [[9.0, 12.0], [3.0, 6.0]], None])

    def test_unused(self):
        def program(m):
            x, z = m.ones(2, requires_grad=True), m.ones(3, requires_grad=True)
            a = m.autograd.grad(x.sum(), (x, z), allow_unused=True)
            b = m.autograd.grad(x.sum(), (x, z), materialize_grads=True)
            return plain(a), plain(b)

        self.same(program, [[[1.0, 1.0], None], [[1.0, 1.0], [0.0, 0.0, 0.0]]])
        self.fails(lambda m: m.autograd.grad(m.ones(2, requires_grad=True).sum(), m.ones(2, requires_grad=True)))
        self.fails(lambda m: m.autograd.grad(m.ones(2, requires_grad=True).sum(), m.ones(2)))
        self.fails(lambda m: m.autograd.grad(m.ones(2), m.ones(2, requires_grad=True)))

    def test_batched(self):
        def program(m):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            return m.autograd.grad(x * x, x, m.eye(2), is_grads_batched=True)

        self.same(program, [[[2.0, 0.0], [0.0, 4.0]]])

    def test_of_a_result(self):
        def program(m):
            x = m.tensor([1.0, 2.0], requires_grad=True)
            h = x * 3
            return m.autograd.grad((h * h).sum(), [h, x])

        self.same(program, [[6.0, 12.0], [18.0, 36.0]])


class Record(Case):
    def test_grad_fn(self):
        x = cairn.ones(2, requires_grad=True)
        y = (x * 2).sum()
        self.assertEqual(y.grad_fn.name(), "SumBackward0")
        (mul, index), = y.grad_fn.next_functions
        self.assertEqual((mul.name(), index), ("MulBackward0", 0))
        (leaf, _), (nothing, _) = mul.next_functions
        self.assertEqual(leaf.name(), "AccumulateGrad")
        self.assertIsNone(nothing)
        self.assertEqual(y.grad_fn, y.grad_fn)
        self.assertIn("SumBackward0", repr(y.grad_fn))

    def test_names_of_nodes(self):
        """By the op's words, by the tag of its row, and of composites that torch records as one op."""
        x = cairn.ones(1, 2, 4, 4, 4, requires_grad=True)
        plane = x[0]
        w = cairn.ones(2, 2, 1, 1, 1)
        f = cairn.nn.functional
        for name, y in (("TanhBackward0", x.tanh()), ("PowBackward0", x.square()), ("MaxBackward0", x.max(0).values),
                        ("FakeQuantizePerTensorAffineCachemaskBackward0",
                         cairn.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 9)),
                        ("ConvolutionBackward0", f.conv3d(x, w)), ("AvgPool3DBackward0", f.avg_pool3d(x, 2)),
                        ("MaxPool2DWithIndicesBackward0", f.max_pool2d(plane, 2)), ("StackBackward0", cairn.stack([x])),
                        ("NllLossBackward0", f.nll_loss(cairn.log(cairn.rand(2, 3, requires_grad=True)),
                                                        cairn.tensor([0, 1])))):
            self.assertEqual(y.grad_fn.name(), name)
        self.assertIs(type(cairn.var_mean(x)), tuple)
        self.assertIsNot(type(x.max(0)), tuple)

    def test_output_numbers(self):
        def program(m):
            values, indices = m.tensor([3.0, 1.0], requires_grad=True).sort()
            a, b = m.ones(4, requires_grad=True).split(2)
            return values.output_nr, indices.requires_grad, b.requires_grad

        self.same(program, [0, False, True])


class InPlace(Case):
    def test_on_leaves(self):
        self.fails(lambda m: m.ones(2, requires_grad=True).add_(1))
        self.fails(lambda m: m.ones(2, requires_grad=True)[0].mul_(2))

        def assign(m):
            m.ones(2, requires_grad=True)[0] = 5.0

        self.fails(assign)

    def test_without_recording(self):
        def program(m):
            x = m.ones(2, requires_grad=True)
            with m.no_grad():
                x.add_(1)
                x[0] = 7
            (x * x).sum().backward()
            return plain(x), plain(x.grad)

        self.same(program, [[7.0, 2.0], [14.0, 4.0]])

    def test_on_results_and_views(self):
        def program(m):
            x = m.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
            y = x * 2
            y[0].mul_(3)
            y[:, 1] = x[:, 0] * 10
            y.add_(x)
            (y * m.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
            return plain(y), plain(x.grad)

        self.same(program)

    def test_stale_values(self):
        def program(m):
            x = m.ones(2, requires_grad=True)
            y = x * 2
            z = y * y
            y.add_(1)
            z.sum().backward()

        def through_view(m):
            y = m.ones(3, requires_grad=True).exp()
            y[0].zero_()
            y.sum().backward()

        self.fails(program)
        self.fails(through_view)


class Hooks(Case):
    def test_order_and_replacement(self):
        def program(m):
            seen = []
            x = m.tensor([1.0, 2.0], requires_grad=True)
            y = x * 3
            y.register_hook(lambda g: seen.append(plain(g)))
            y.register_hook(lambda g: g * 10)
            handle = x.register_hook(lambda g: seen.append(plain(g)))
            y.sum().backward(retain_graph=True)
            handle.remove()
            handle.remove()
            x.grad = None
            y.sum().backward()
            return seen, plain(x.grad)

        self.same(program, [[[1.0, 1.0], [30.0, 30.0], [1.0, 1.0]], [30.0, 30.0]])

    def test_exceptions_come_out(self):
        class Odd(Exception):
            pass

        def bad(grad):
            raise Odd("from the hook")

        x = cairn.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(bad)
        with self.assertRaisesRegex(Odd, "from the hook"):
            y.sum().backward()
        (x * 2).sum().backward()  # nothing is left over
        self.near(x.grad, [2.0, 2.0])

    def test_wrong_answers(self):
        def program(result):
            x = cairn.ones(2, requires_grad=True)
            x.register_hook(lambda g: result)
            x.sum().backward()

        with self.assertRaises(TypeError):
            program(3)
        with self.assertRaises(RuntimeError):
            program(cairn.ones(3))
        self.fails(lambda m: m.ones(2).register_hook(lambda g: g))
        with self.assertRaises(TypeError):
            cairn.ones(2, requires_grad=True).register_hook(3)

    def test_hook_removes_itself(self):
        x = cairn.ones(2, requires_grad=True)
        calls = []

        def once(grad):
            calls.append(1)
            handle.remove()

        handle = x.register_hook(once)
        x.register_hook(lambda g: calls.append(2))
        for _ in range(2):
            x.sum().backward()
        self.assertEqual(calls, [1, 2, 2])

    def test_hooks_are_freed(self):
        class Callable:
            def __call__(self, grad):
                return None

        hook = Callable()
        seen = weakref.ref(hook)
        x = cairn.ones(2, requires_grad=True)
        x.register_hook(hook)
        del hook
        self.assertIsNotNone(seen())
        del x
        gc.collect()
        self.assertIsNone(seen())


class Threads(Case):
    def run_threads(self, target, count=4):
        errors = []

        def guarded(i):
            try:
                target(i)
            except BaseException as error:  # noqa: B036
                errors.append(error)

        threads = [threading.Thread(target=guarded, args=(i,)) for i in range(count)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]

    def test_backward_into_the_same_leaf(self):
        w = cairn.ones(64, requires_grad=True)
        Scale = functions(cairn)[0]

        def work(i):
            for _ in range(50):
                h = Scale.apply(w, 2.0)
                h.register_hook(lambda g: g * 1)
                h.sum().backward()

        self.run_threads(work)
        self.near(w.grad[0], 4.0 * 4 * 50)

    def test_exceptions_stay_in_their_thread(self):
        def work(i):
            def bad(grad):
                raise KeyError(i)

            for _ in range(30):
                x = cairn.ones(1000, requires_grad=True)
                y = x * 2
                y.register_hook(bad)
                try:
                    y.sum().backward()
                except KeyError as error:
                    assert error.args == (i,)
                else:
                    raise AssertionError("no exception")

        self.run_threads(work)

    def test_others_run_during_backward(self):
        x = cairn.randn(300, 300, requires_grad=True)

        def work(i):
            y = x
            for _ in range(5):
                y = y @ x
            grads = cairn.autograd.grad(y.sum(), x)
            assert grads[0].shape == x.shape

        self.run_threads(work, 2)


if __name__ == "__main__":
    unittest.main()
