"""Custom functions, derivatives of functions, the tape and checkpoints, in cairn and in torch."""
import gc
import unittest
import warnings
import weakref

import cairn
from cairn.autograd import Function
from cairn.autograd.graph import (disable_saved_tensors_hooks, register_multi_grad_hook, save_on_cpu,
                                  saved_tensors_hooks)
from cairn.utils.checkpoint import CheckpointError, checkpoint, set_checkpoint_early_stop
from cases import Case, functions, plain


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
        def program(result):
            def run(m):
                class Bad(m.autograd.Function):
                    @staticmethod
                    def forward(ctx, x, number):
                        return x * 1

                    @staticmethod
                    def backward(ctx, grad):
                        return result(m)

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
        result = tape.gradient(y, {"w": w, "rest": [b, z]})
        self.near(result["w"], [2.0, 2.0])
        self.near(result["rest"][0], [1.0, 1.0])
        self.assertIsNone(result["rest"][1])
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
            return t.sin()

        with self.assertRaises(KeyError):
            checkpoint(once, cairn.ones(2, requires_grad=True), use_reentrant=True).sum().backward()

    def test_gradients_by_grad_and_of_gradients(self):
        w = cairn.tensor([0.5, -0.5], requires_grad=True)
        x = cairn.tensor([2.0, 3.0], requires_grad=True)
        y = checkpoint(lambda t: (t * w).sin(), x, use_reentrant=False).sum()
        found = cairn.autograd.grad(y, [w, x], create_graph=True)
        self.near(found[0], (x * (x * w).cos()).tolist())
        self.near(cairn.autograd.grad(found[1].sum(), x)[0], (-w * w * (x * w).sin()).tolist())

    def test_runs_again_once_and_only_as_far_as_needed(self):
        calls = []

        def block(t):
            calls.append("first")
            t = t.sin()
            calls.append("last")
            return t * 2 + 1

        y = checkpoint(block, cairn.ones(2, requires_grad=True), use_reentrant=False)
        y.sum().backward(retain_graph=True)
        self.assertEqual(calls, ["first", "last", "first"])
        with set_checkpoint_early_stop(False):
            z = checkpoint(block, cairn.ones(2, requires_grad=True), use_reentrant=False)
        z.sum().backward()
        self.assertEqual(calls[3:], ["first", "last"] * 2)
        inner = checkpoint(lambda t: checkpoint(cairn.sin, t, use_reentrant=False).exp(),
                           cairn.ones(1, requires_grad=True), use_reentrant=False)
        inner.backward()

    def test_another_second_run_is_an_error(self):
        sizes = iter([2, 3])

        def block(t):
            return t.expand(next(sizes)).sin()

        with self.assertRaises(CheckpointError):
            checkpoint(block, cairn.ones(1, requires_grad=True), use_reentrant=False).sum().backward()


class Saved(Case):
    def test_values_pass_through_the_hooks(self):
        kept = []

        def pack(t):
            kept.append(t.shape)
            return t.tolist(), t.dtype

        x = cairn.tensor([0.1, 0.2], requires_grad=True)
        with saved_tensors_hooks(pack, lambda p: cairn.tensor(p[0], dtype=p[1])):
            y = x.pow(2).exp()
        self.assertEqual(len(kept), 2)
        y.sum().backward()
        self.near(x.grad, (2 * x * (x * x).exp()).tolist())
        with save_on_cpu():
            z = (x * x).sum()
        self.near(cairn.autograd.grad(z, x)[0], (2 * x).tolist())

    def test_errors(self):
        x = cairn.ones(2, requires_grad=True)
        with self.assertRaises(KeyError):
            with saved_tensors_hooks(lambda t: {}["no"], lambda t: t):
                x * x
        for unpack, error in ((lambda t: "no tensor", TypeError), (lambda t: t[:1], RuntimeError)):
            with saved_tensors_hooks(lambda t: t, unpack):
                y = x * x
            with self.assertRaises(error):
                y.sum().backward()
        with disable_saved_tensors_hooks("not here"):
            with self.assertRaisesRegex(RuntimeError, "not here"):
                with saved_tensors_hooks(lambda t: t, lambda t: t):
                    pass

    def test_several_gradients(self):
        a, b = cairn.ones(2, requires_grad=True), cairn.ones(2, requires_grad=True)
        seen = []
        with register_multi_grad_hook((a, b), lambda grads: seen.append(len(grads))):
            (a * b).sum().backward()
        (a * b).sum().backward()
        self.assertEqual(seen, [2])


if __name__ == "__main__":
    unittest.main()
