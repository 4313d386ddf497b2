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


if __name__ == "__main__":
    unittest.main()
