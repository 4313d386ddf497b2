"""cairn.func: functions that make derivatives of functions, and their nesting."""
import unittest

import cairn
from cairn import func
from cairn.autograd import functional


def close(a, b, tolerance=1e-9):
    if a.shape != b.shape or float((a - b).abs().max()) > tolerance:
        raise AssertionError(f"{a} instead of {b}")


def doubles(*values):
    return cairn.tensor(values, dtype=cairn.float64)


class Func(unittest.TestCase):
    def test_grad_and_its_grad(self):
        x = doubles(0.3)[0]
        close(func.grad(cairn.sin)(x), x.cos())
        close(func.grad(func.grad(cairn.sin))(x), -x.sin())
        close(func.grad(func.grad(func.grad(cairn.sin)))(x), -x.cos())
        self.assertFalse(func.grad(cairn.sin)(x).requires_grad)

    def test_grad_of_chosen_arguments_and_nested_values(self):
        def loss(params, x, scale=1.0):
            return ((x * params["w"] + params["b"][0]) ** 2).sum() * scale
        params = {"w": doubles(1.0, 2.0), "b": [doubles(0.5, -0.5)]}
        x = doubles(3.0, 4.0)
        grads = func.grad(loss)(params, x, scale=2.0)
        inner = x * params["w"] + params["b"][0]
        close(grads["w"], 4 * inner * x)
        close(grads["b"][0], 4 * inner)
        by_both = func.grad(loss, argnums=(0, 1))(params, x)
        close(by_both[1], 2 * inner * params["w"])
        value_grad, value = func.grad_and_value(loss)(params, x)
        close(value, loss(params, x))
        close(value_grad["w"], 2 * inner * x)

    def test_grad_has_aux_and_errors(self):
        gradient, aux = func.grad(lambda x: ((x * x).sum(), {"twice": 2 * x}), has_aux=True)(doubles(1.0, 2.0))
        close(gradient, doubles(2.0, 4.0))
        close(aux["twice"], doubles(2.0, 4.0))
        with self.assertRaisesRegex(RuntimeError, "no dimensions"):
            func.grad(lambda x: x * 2)(doubles(1.0, 2.0))
        with self.assertRaisesRegex(RuntimeError, "floating-point"):
            func.grad(lambda x: x.sum())(cairn.tensor([1, 2]))
        with self.assertRaisesRegex(RuntimeError, "no argument"):
            func.grad(lambda x: x.sum(), argnums=1)(doubles(1.0))

    def test_an_outer_backward_goes_through(self):
        x = doubles(0.7)[0].requires_grad_()
        y = func.grad(lambda v: v ** 3)(x)
        y.backward()
        close(x.grad, 6 * x.detach())

    def test_vjp(self):
        x = doubles(0.1, 0.2, 0.3)
        output, back = func.vjp(lambda a: (a.sin(), {"c": a.cos()}), x)
        close(output[0], x.sin())
        found, = back((cairn.ones_like(x), {"c": 2 * cairn.ones_like(x)}))
        close(found, x.cos() - 2 * x.sin())
        y, back = func.vjp(cairn.mul, x, x)
        left, right = back(cairn.ones_like(x))
        close(left, x)
        close(right, x)

    def test_jvp_equals_functional_and_differences(self):
        def f(a, b):
            return (a @ b).tanh(), a.exp().sum()
        cairn.manual_seed(3)
        a, b = cairn.randn(2, 3, dtype=cairn.float64), cairn.randn(3, 2, dtype=cairn.float64)
        da, db = cairn.randn(2, 3, dtype=cairn.float64), cairn.randn(3, 2, dtype=cairn.float64)
        output, change = func.jvp(f, (a, b), (da, db))
        _, expected = functional.jvp(f, (a, b), (da, db))
        h = 1e-6
        above, below = f(a + h * da, b + h * db), f(a - h * da, b - h * db)
        for i in range(2):
            close(output[i], f(a, b)[i])
            close(change[i], expected[i])
            close(change[i], (above[i] - below[i]) / (2 * h), 1e-7)
        with self.assertRaisesRegex(RuntimeError, "tuples"):
            func.jvp(f, a, da)

    def test_jvp_of_a_gradient_is_a_product_with_the_hessian(self):
        x, v = doubles(0.3, -0.4), doubles(1.0, 2.0)

        def f(a):
            return (a ** 4).sum() + a[0] * a[1]
        _, product = func.jvp(func.grad(f), (x,), (v,))
        close(product, func.hessian(f)(x) @ v)

    def test_jacrev_and_hessian(self):
        x = doubles(1.0, 2.0, 3.0)
        close(func.jacrev(lambda a: a ** 2)(x), cairn.diag(2 * x))
        close(func.jacfwd(lambda a: a ** 2)(x), cairn.diag(2 * x))
        close(func.hessian(lambda a: (a ** 3).sum())(x), cairn.diag(6 * x))
        both = func.jacrev(lambda a, b: {"sum": a + b, "dot": (a * b).sum()}, argnums=(0, 1))(x, 2 * x)
        close(both["sum"][0], cairn.eye(3, dtype=cairn.float64))
        close(both["dot"][1], x)
        close(functional.jacobian(lambda a: a.exp(), x), func.jacrev(cairn.exp)(x))

    def test_closures_of_an_outer_transform_stay_linked(self):
        def outer(a):
            return func.grad(lambda b: a * b * b)(doubles(3.0)[0])     # 2 a b
        close(func.grad(outer)(doubles(2.0)[0]), doubles(6.0)[0])


class Vmap(unittest.TestCase):
    def test_dimensions_and_structures(self):
        x = cairn.arange(12.0).reshape(3, 4)
        self.assertTrue(cairn.equal(func.vmap(cairn.dot)(x, x), (x * x).sum(1)))
        self.assertTrue(cairn.equal(func.vmap(cairn.dot, in_dims=(0, None))(x, x[1]), x @ x[1]))
        self.assertTrue(cairn.equal(func.vmap(lambda t: t * 2, in_dims=1, out_dims=1)(x), x * 2))
        self.assertTrue(cairn.equal(cairn.vmap(cairn.vmap(cairn.mul))(x, x), x * x))
        made = func.vmap(lambda d, k: {"a": d["u"] + d["v"], "b": (d["u"].sum(), k)}, in_dims=({"u": 0, "v": None}, 0),
                         out_dims={"a": 1, "b": 0})({"u": x, "v": x[0]}, cairn.arange(3))
        self.assertTrue(cairn.equal(made["a"], (x + x[0]).t()))
        self.assertTrue(cairn.equal(made["b"][0], x.sum(1)))
        self.assertEqual(made["b"][1].tolist(), [0, 1, 2])
        self.assertEqual(func.vmap(lambda t, s=1: t * s, chunk_size=2)(x, s=2).shape, x.shape)
        self.assertEqual(func.vmap(lambda t: t.sum())(cairn.zeros(0, 4)).shape, (0,))

    def test_errors(self):
        x = cairn.ones(3, 4)
        for error, call in ((ValueError, lambda: func.vmap(cairn.dot)(x, x[:2])),
                            (ValueError, lambda: func.vmap(cairn.dot, in_dims=(0,))(x, x)),
                            (ValueError, lambda: func.vmap(lambda t: 3)(x)),
                            (ValueError, lambda: func.vmap(lambda t, k: t * k)(x, 2.0)),
                            (ValueError, lambda: func.vmap(cairn.dot, in_dims=(None, None))(x[0], x[0])),
                            (ValueError, lambda: func.vmap(cairn.sum, in_dims=5)(x)),
                            (ValueError, lambda: func.vmap(cairn.sum, chunk_size=0)(x)),
                            (RuntimeError, lambda: func.vmap(cairn.sum, randomness="x")(x)),
                            (RuntimeError, lambda: func.vmap(lambda t: t + cairn.rand(4))(x))):
            with self.assertRaises(error):
                call()

    def test_random_numbers(self):
        x = cairn.zeros(3, 4)
        cairn.manual_seed(0)
        same = func.vmap(lambda t: t + cairn.rand(1), randomness="same")(x)
        self.assertTrue(cairn.equal(same[0], same[2]))
        other = func.vmap(lambda t: t + cairn.rand(1), randomness="different")(x)
        self.assertFalse(cairn.equal(other[0], other[2]))

    def test_gradients_of_each_example(self):
        net = cairn.nn.Sequential(cairn.nn.Linear(3, 4), cairn.nn.Tanh(), cairn.nn.Linear(4, 1)).double()
        x = cairn.arange(15.0, dtype=cairn.float64).reshape(5, 3).cos()
        params = {name: p.detach() for name, p in net.named_parameters()}

        def loss(params, example):
            return func.functional_call(net, params, (example.unsqueeze(0),)).square().sum()

        found = func.vmap(func.grad(loss), in_dims=(None, 0))(params, x)
        for i in range(5):
            expected = cairn.autograd.grad(loss(dict(net.named_parameters()), x[i]), list(net.parameters()))
            for a, b in zip(found.values(), expected):
                close(a[i], b)
        whole = x.clone().requires_grad_()
        func.vmap(lambda t: t.sin().sum())(whole).sum().backward()
        close(whole.grad, x.cos())
        close(func.grad(lambda t: func.vmap(cairn.sin)(t).sum())(x), x.cos())
        close(func.vmap(func.jacrev(cairn.sin))(x), cairn.diag_embed(x.cos()))

    def test_ensembles(self):
        nets = [cairn.nn.Sequential(cairn.nn.Linear(2, 3), cairn.nn.BatchNorm1d(3)).eval() for _ in range(3)]
        params, buffers = func.stack_module_state(nets)
        self.assertEqual(params["0.weight"].shape, (3, 3, 2))
        self.assertTrue(params["0.weight"].requires_grad and params["0.weight"].is_leaf)
        self.assertEqual(buffers["1.num_batches_tracked"].shape, (3,))
        x = cairn.ones(4, 2)
        made = func.vmap(lambda p, b: func.functional_call(nets[0], (p, b), x))(params, buffers)
        for net, out in zip(nets, made):
            self.assertTrue(cairn.equal(net(x), out))
        with self.assertRaises(RuntimeError):
            func.stack_module_state([nets[0], nets[1].train()])
        with self.assertRaises(ValueError):
            func.functional_call(nets[0], ({"0.weight": x}, {"0.weight": x}), x)
        func.replace_all_batch_norm_modules_(nets[2])
        self.assertEqual(list(nets[2].state_dict()), ["0.weight", "0.bias", "1.weight", "1.bias"])
        nets[2](x)

    def test_linearize(self):
        x, v = doubles(0.1, 0.2), doubles(1.0, -2.0)
        value, forward = func.linearize(lambda t: t.sin(), x)
        close(value, x.sin())
        close(forward(v), x.cos() * v)
        close(forward(2 * v), 2 * x.cos() * v)


if __name__ == "__main__":
    unittest.main()
