"""Gradients from Python. Where torch is installed the same program runs in both, and the results must agree."""
import gc
import threading
import unittest
import warnings
import weakref

import cairn
from cairn.autograd import Function
from cairn.utils.checkpoint import checkpoint

try:
    import torch
except ImportError:
    torch = None


def plain(value):
    """Tensors as lists, so that results of both libraries compare."""
    if isinstance(value, cairn.Tensor) or (torch and isinstance(value, torch.Tensor)):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


class Case(unittest.TestCase):
    def near(self, a, b, places=5):
        a, b = plain(a), plain(b)
        if isinstance(a, list):
            self.assertIsInstance(b, list)
            self.assertEqual(len(a), len(b), (a, b))
            for x, y in zip(a, b):
                self.near(x, y, places)
        elif isinstance(a, float) and isinstance(b, float):
            self.assertAlmostEqual(a, b, places)
        else:
            self.assertEqual(a, b)

    def same(self, program, expected=None):
        """program(m) in cairn, and in torch where it is; answers of both (or `expected`) must agree."""
        have = program(cairn)
        if expected is not None:
            self.near(have, expected)
        if torch:
            self.near(have, program(torch))
        return have

    def fails(self, program, kinds=RuntimeError):
        """program(m) raises in both, with a message."""
        with self.assertRaises(kinds) as caught:
            program(cairn)
        self.assertTrue(str(caught.exception))
        if torch:
            with self.assertRaises(kinds):
                program(torch)


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
            answer = x.requires_grad_() is x, x.requires_grad
            x.sum().backward()
            x.requires_grad = False
            kept = plain(x.grad)
            x.requires_grad_(True)
            return answer, kept, plain(x.grad)

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
            answer = y.detach_() is y
            return answer, y.requires_grad, y.is_leaf, plain(y)

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
        def program(answer):
            x = cairn.ones(2, requires_grad=True)
            x.register_hook(lambda g: answer)
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


def functions(m):
    """The same functions for cairn and torch."""
    class Scale(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, word=None):
            ctx.factor = factor
            ctx.save_for_backward(x)
            return x * x * factor

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            return grad * 2 * x * ctx.factor, None, None

    class Both(m.autograd.Function):
        @staticmethod
        def forward(a, b):
            return a * b, a + b, (a > b)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs, None)
            ctx.mark_non_differentiable(output[2])

        @staticmethod
        def backward(ctx, g1, g2, g3):
            a, b, nothing = ctx.saved_tensors
            assert nothing is None
            return (g1 * b + g2 if ctx.needs_input_grad[0] else None,
                    g1 * a + g2 if ctx.needs_input_grad[1] else None)

    class Lazy(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            ctx.seen.append([a is None, b is None])
            return b * 2 if a is None else a

    class Twice(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return Scale, Both, Lazy, Twice


class Functions(Case):
    def test_scale(self):
        def program(m):
            Scale = functions(m)[0]
            x = m.tensor([1.0, 2.0], requires_grad=True)
            y = Scale.apply(x, 3.0, "word")
            name = y.grad_fn.name()
            y.sum().backward()
            return plain(y), plain(x.grad), name, Scale.apply(x.detach(), 2.0).requires_grad

        self.same(program, [[3.0, 12.0], [6.0, 12.0], "ScaleBackward", False])

    def test_double_backward(self):
        def program(m):
            Scale = functions(m)[0]
            x = m.tensor([1.0, 2.0], requires_grad=True)
            g, = m.autograd.grad(Scale.apply(x * x, 3.0).sum(), x, create_graph=True)
            h, = m.autograd.grad(g.sum(), x)
            return plain(g), plain(h)

        self.same(program, [[12.0, 96.0], [36.0, 144.0]])
        x = cairn.randn(3, dtype=cairn.float64, requires_grad=True)
        Scale = functions(cairn)[0]
        self.assertTrue(cairn.autograd.gradgradcheck(lambda t: Scale.apply(t, 1.5), x))

    def test_several_results(self):
        def program(m):
            Both = functions(m)[1]
            a, b = m.tensor([1.0, 5.0], requires_grad=True), m.tensor([3.0, 2.0], requires_grad=True)
            p, s, c = Both.apply(a, b)
            p.sum().backward()  # the gradient of s arrives as zeros
            return plain(a.grad), plain(b.grad), c.requires_grad, plain(c), s.requires_grad, s.output_nr

        self.same(program, [[3.0, 2.0], [1.0, 5.0], False, [False, True], True, 1])

    def test_needs_input_grad(self):
        def program(m):
            Both = functions(m)[1]
            a, b = m.tensor([1.0], requires_grad=True), m.tensor([3.0])
            Both.apply(a, b)[0].sum().backward()
            return plain(a.grad), b.grad

        self.same(program, [[3.0], None])

    def test_missing_gradients_as_none(self):
        def program(m):
            Lazy = functions(m)[2]
            seen = []

            class Kept(Lazy):
                @staticmethod
                def forward(ctx, x):
                    ctx.seen = seen
                    return Lazy.forward(ctx, x)

            x = m.ones(2, requires_grad=True)
            Kept.apply(x)[1].sum().backward()
            return seen, plain(x.grad)

        self.same(program, [[[True, False]], [2.0, 2.0]])

    def test_in_place(self):
        def program(m):
            Twice = functions(m)[3]
            x = m.tensor([1.0, 2.0], requires_grad=True)
            y = x * 3
            z = Twice.apply(y)
            (y * y).sum().backward()
            return z is y, plain(y), plain(x.grad)

        self.same(program, [True, [6.0, 12.0], [72.0, 144.0]])
        self.fails(lambda m: functions(m)[3].apply(m.ones(2, requires_grad=True)))

    def test_an_input_returned_as_it_is(self):
        class Same(Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, grad):
                return grad * 5

        x = cairn.ones(2, requires_grad=True)
        y = Same.apply(x)
        y.sum().backward()
        self.near(x.grad, [5.0, 5.0])
        self.assertTrue(x.is_leaf and not y.is_leaf)

    def test_exceptions(self):
        class Odd(Exception):
            pass

        class Bad(Function):
            @staticmethod
            def forward(ctx, x, where):
                ctx.where = where
                if where == "forward":
                    raise Odd(where)
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                raise Odd(ctx.where)

        x = cairn.ones(2, requires_grad=True)
        with self.assertRaisesRegex(Odd, "forward"):
            Bad.apply(x, "forward")
        self.assertTrue(cairn.is_grad_enabled())
        with self.assertRaisesRegex(Odd, "backward"):
            Bad.apply(x, "backward").sum().backward()
        with self.assertRaisesRegex(Odd, "backward"):
            cairn.autograd.grad(Bad.apply(x, "backward").sum(), x)
        self.assertIsNone(x.grad)
        self.assertTrue(cairn.is_grad_enabled())

    def test_an_exception_in_a_nested_backward(self):
        class Odd(Exception):
            pass

        class Inner(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                raise Odd("inner")

        class Outer(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 1

            @staticmethod
            def backward(ctx, grad):
                with cairn.enable_grad():
                    y = ctx.saved_tensors[0].detach().requires_grad_()
                    Inner.apply(y).sum().backward()

        with self.assertRaisesRegex(Odd, "inner"):
            Outer.apply(cairn.ones(2, requires_grad=True)).sum().backward()

    def test_wrong_gradients(self):
        def program(answer):
            def run(m):
                class Bad(m.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, number):
                        return x * 1

                    @staticmethod
                    def backward(ctx, grad):
                        return answer(m)

                x = m.ones(2, requires_grad=True)
                Bad.apply(x, 3).sum().backward()
                return x.grad

            return run

        self.fails(program(lambda m: m.ones(2)))                 # one gradient for two arguments
        self.fails(program(lambda m: (m.ones(2), m.ones(2))))    # one for what is no tensor
        self.fails(program(lambda m: (m.ones(2), None, m.ones(2))))
        self.fails(program(lambda m: (m.ones(3), None)))         # of another shape
        self.fails(program(lambda m: (3.0, None)), (TypeError, RuntimeError))
        self.same(program(lambda m: (m.ones(2), None, None)), [1.0, 1.0])  # extra ones that are None
        self.same(program(lambda m: (None, None)))

    def test_saved_tensors_are_watched(self):
        def changed(m):
            y = m.ones(2, requires_grad=True) * 2
            z = functions(m)[0].apply(y, 1.0)
            y.add_(1)
            z.sum().backward()

        def twice(m):
            z = functions(m)[0].apply(m.ones(2, requires_grad=True), 1.0).sum()
            z.backward()
            z.backward()

        def no_backward(m):
            class Half(m.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    return x * 1

            Half.apply(m.ones(2, requires_grad=True)).sum().backward()

        self.fails(changed)
        self.fails(twice)
        self.fails(no_backward, NotImplementedError)

    def test_no_cycles(self):
        Scale = functions(cairn)[0]
        x = cairn.ones(2, requires_grad=True)
        contexts = []

        class Seen(Scale):
            @staticmethod
            def forward(ctx, x, factor):
                contexts.append(weakref.ref(ctx))
                return Scale.forward(ctx, x, factor)

        gc.disable()
        try:
            y = Seen.apply(x, 2.0)
            self.assertIsNotNone(contexts[0]())
            del y
            self.assertIsNone(contexts[0]())
            y = Seen.apply(x, 2.0)
            y.sum().backward()
            self.assertIsNone(contexts[1]())  # the record is freed by backward
        finally:
            gc.enable()

    def test_once_differentiable(self):
        def make(m, once):
            class Square(m.autograd.Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.save_for_backward(x)
                    return x * x

                @staticmethod
                @once
                def backward(ctx, grad):
                    x, = ctx.saved_tensors
                    return grad * 2 * x

            return Square

        def program(m):
            Square = make(m, m.autograd.function.once_differentiable)
            x = m.tensor([3.0], requires_grad=True)
            Square.apply(x).sum().backward()
            return x.grad

        def second(m):
            Square = make(m, m.autograd.function.once_differentiable)
            x = m.tensor([3.0], requires_grad=True)
            g, = m.autograd.grad(Square.apply(x * 1).sum(), x, create_graph=True)
            g.sum().backward()

        self.same(program, [6.0])
        self.fails(second)

    def test_it_is_not_an_object(self):
        with self.assertRaises(RuntimeError):
            functions(cairn)[0]()


class Checking(Case):
    def test_gradcheck(self):
        a = cairn.randn(2, 3, dtype=cairn.float64, requires_grad=True)
        b = cairn.randn(3, 2, dtype=cairn.float64).mT.detach().requires_grad_()  # not contiguous
        self.assertTrue(cairn.autograd.gradcheck(lambda x, y: ((x * y).tanh(), x.exp()), (a, b)))
        self.assertTrue(cairn.autograd.gradgradcheck(lambda x, y: (x * y).tanh(), (a, b)))

        class Wrong(Function):
            @staticmethod
            def forward(ctx, x):
                return x * x

            @staticmethod
            def backward(ctx, grad):
                return grad

        with self.assertRaisesRegex(RuntimeError, "finite differences"):
            cairn.autograd.gradcheck(Wrong.apply, a)
        self.assertFalse(cairn.autograd.gradcheck(Wrong.apply, a, raise_exception=False))
        with self.assertRaises(ValueError):
            cairn.autograd.gradcheck(lambda x: x, cairn.ones(2))

    def test_anomaly(self):
        def program(m):
            x = m.tensor([-1.0], requires_grad=True)
            with m.autograd.detect_anomaly():
                y = (x.sqrt() * 0).sum()  # NaN in forward is no matter
                y.backward()

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.fails(program)
        x = cairn.tensor([-1.0], requires_grad=True)
        (x.sqrt() * 0).sum().backward()  # off again
        with cairn.autograd.set_detect_anomaly(True):
            self.assertTrue(cairn.autograd.is_anomaly_enabled())
        self.assertFalse(cairn.autograd.is_anomaly_enabled())


class Functional(Case):
    def test_all(self):
        def f(x, y):
            return (x * y).exp(), (x ** 2).sum()

        def g(x, y):
            return (x ** 3 * y).sum()

        def program(m):
            F = m.autograd.functional
            x, y = m.tensor([0.1, 0.2]), m.tensor([0.3, -0.4])
            v = m.tensor([1.0, 2.0]), m.tensor([-1.0, 0.5])
            single = lambda t: t.exp() * 2  # noqa: E731
            return plain([
                F.vjp(f, (x, y), (v[0], m.tensor(2.0))), F.jvp(f, (x, y), v), F.jacobian(f, (x, y)),
                F.hessian(g, (x, y)), F.hvp(g, (x, y), v), F.vhp(g, (x, y), v), F.jacobian(single, x),
                F.hessian(lambda t: (t ** 3).sum(), x), F.jvp(single, x, v[0]), F.vjp(single, x, v[0])])

        self.same(program)

    def test_recorded(self):
        def program(m):
            x = m.tensor([0.5, 1.0], requires_grad=True)
            j = m.autograd.functional.jacobian(lambda t: t ** 3, x, create_graph=True)
            j.sum().backward()
            return x.grad

        self.same(program, [3.0, 6.0])

    def test_errors(self):
        self.fails(lambda m: m.autograd.functional.vjp(lambda x: x * 2, m.ones(2)))
        self.fails(lambda m: m.autograd.functional.jvp(lambda x: x * 2, m.ones(2), m.ones(3)))
        self.fails(lambda m: m.autograd.functional.hessian(lambda x: x * 2, m.ones(2)))
        self.fails(lambda m: m.autograd.functional.vjp(lambda x: m.ones(2), m.ones(2), m.ones(2), strict=True))


class Tape(Case):
    def test_watch(self):
        x = cairn.tensor([1.0, 2.0])
        with cairn.autograd.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        self.near(tape.gradient(y, x), [2.0, 4.0])
        self.assertFalse(x.requires_grad)
        with self.assertRaises(RuntimeError):
            tape.gradient(y, x)

    def test_structures_and_unconnected(self):
        w, b, z = (cairn.ones(2, requires_grad=True) for _ in range(3))
        with cairn.autograd.GradientTape(persistent=True) as tape:
            y = w * 2 + b
        answer = tape.gradient(y, {"w": w, "rest": [b, z]})
        self.near(answer["w"], [2.0, 2.0])
        self.near(answer["rest"][0], [1.0, 1.0])
        self.assertIsNone(answer["rest"][1])
        self.near(tape.gradient(y, [z], unconnected_gradients="zero"), [[0.0, 0.0]])
        self.near(tape.gradient(y, w, output_gradients=cairn.tensor([1.0, 3.0])), [2.0, 6.0])
        self.near(tape.jacobian(y, w), [[2.0, 0.0], [0.0, 2.0]])

    def test_second_order(self):
        x = cairn.tensor(3.0)
        with cairn.autograd.GradientTape() as outer:
            outer.watch(x)
            with cairn.autograd.GradientTape() as inner:
                inner.watch(x)
                y = x ** 3
            first = inner.gradient(y, x)
        self.near(first, 27.0)
        self.near(outer.gradient(first, x), 18.0)
        self.assertFalse(x.requires_grad)

    def test_inside_no_grad(self):
        x = cairn.ones(2, requires_grad=True)
        with cairn.no_grad(), cairn.autograd.GradientTape() as tape:
            with tape.stop_recording():
                z = x * 5
            y = x * 2
        self.assertFalse(z.requires_grad)
        self.near(tape.gradient(y, x), [2.0, 2.0])


class Checkpointing(Case):
    def test_equals_plain(self):
        w = cairn.randn(4, 4)
        x = cairn.randn(3, 4)

        def block(t, weight, scale=1.0):
            return cairn.nn.functional.dropout((t @ weight).tanh(), 0.5) * scale

        def run(call):
            a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
            cairn.manual_seed(3)
            h = call(block, a, b, scale=2.0)
            out = call(block, h, b)
            out.sum().backward()
            return plain([out, a.grad, b.grad, cairn.rand(1)])

        direct = run(lambda f, *args, **kwargs: f(*args, **kwargs))
        again = run(lambda f, *args, **kwargs: checkpoint(f, *args, use_reentrant=False, **kwargs))
        self.near(direct, again)

    def test_inside_only(self):
        w = cairn.ones(2, requires_grad=True)
        y = checkpoint(lambda t: {"a": (t * w, t.long()), "b": 3}, cairn.tensor([2.0, 3.0]), use_reentrant=False)
        self.assertEqual(y["b"], 3)
        y["a"][0].sum().backward()
        self.near(w.grad, [2.0, 3.0])
        self.assertFalse(y["a"][1].requires_grad)
        self.assertFalse(checkpoint(lambda t: t * 2, cairn.ones(2), use_reentrant=False).requires_grad)

    def test_exceptions(self):
        calls = []

        def once(t):
            calls.append(1)
            if len(calls) > 1:
                raise KeyError("second run")
            return t * 2

        with self.assertRaises(KeyError):
            checkpoint(once, cairn.ones(2, requires_grad=True), use_reentrant=True).sum().backward()


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
