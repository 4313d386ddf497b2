"""What cairn.special and cairn.linalg add to the ops: orthogonal polynomials and products of Householder matrices."""
import math
import unittest

import cairn

try:
    import torch
except ImportError:
    torch = None

X = [-2.0, -1.0, -0.7, 0.0, 0.3, 1.0, 1.5]
# name: the polynomial of degree 3 at 0.3
CUBIC = {"chebyshev_polynomial_t": -0.792, "chebyshev_polynomial_u": -0.984, "chebyshev_polynomial_v": -0.344,
         "chebyshev_polynomial_w": -1.624, "hermite_polynomial_h": -3.384, "hermite_polynomial_he": -0.873,
         "laguerre_polynomial_l": 0.2305, "legendre_polynomial_p": -0.3825, "shifted_chebyshev_polynomial_t": 0.944,
         "shifted_chebyshev_polynomial_u": 1.088, "shifted_chebyshev_polynomial_v": 1.448,
         "shifted_chebyshev_polynomial_w": 0.728}


class Polynomials(unittest.TestCase):
    def test_numbers(self):
        for name, wanted in CUBIC.items():
            f = getattr(cairn.special, name)
            x = cairn.tensor(0.3, dtype=cairn.float64, requires_grad=True)
            self.assertAlmostEqual(f(x, 3).item(), wanted, 12, name)
            found = f(x.detach().expand(2, 1), cairn.tensor([0, 1, 3, -1]))
            self.assertEqual(found.shape, (2, 4))
            self.assertEqual((found[0, 0].item(), found[1, 3].item()), (1.0, 0.0))
            self.assertAlmostEqual(found[1, 2].item(), wanted, 12, name)
            self.assertEqual(f(cairn.tensor([1, 2]), 2).dtype, cairn.float32)
            f(x, 3).backward()
            h = 1e-5
            slope = (f(x.detach() + h, 3) - f(x.detach() - h, 3)).item() / (2 * h)
            self.assertAlmostEqual(x.grad.item(), slope, 6, name)

    def test_bessel(self):
        found = cairn.special.spherical_bessel_j0(cairn.tensor([0.0, 1.0, math.inf])).tolist()
        self.assertEqual([round(v, 6) for v in found], [1.0, 0.841471, 0.0])

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_as_torch(self):
        for name in CUBIC:
            for degree in (-1, 0, 1, 2, 5, 9):
                wanted = getattr(torch.special, name)(torch.tensor(X, dtype=torch.float64), degree).tolist()
                found = getattr(cairn.special, name)(cairn.tensor(X, dtype=cairn.float64), degree).tolist()
                for a, b in zip(found, wanted):
                    self.assertAlmostEqual(a, b, delta=1e-9 * (1 + abs(b)), msg=(name, degree))


class Householder(unittest.TestCase):
    def test_product(self):
        a = cairn.tensor([[1.0, 7.0], [0.5, 1.0], [2.0, -0.3]], dtype=cairn.float64)
        v = [cairn.tensor([[1.0], [0.5], [2.0]], dtype=cairn.float64),
             cairn.tensor([[0.0], [1.0], [-0.3]], dtype=cairn.float64)]
        tau = [2 / (c * c).sum().item() for c in v]
        eye = cairn.eye(3, dtype=cairn.float64)
        wanted = (eye - tau[0] * v[0] @ v[0].T) @ (eye - tau[1] * v[1] @ v[1].T)
        found = cairn.linalg.householder_product(a, cairn.tensor(tau, dtype=cairn.float64))
        self.assertTrue(cairn.allclose(found, wanted[:, :2]))
        self.assertTrue(cairn.allclose(found.T @ found, cairn.eye(2, dtype=cairn.float64)))
        first = cairn.tensor(tau[:1], dtype=cairn.float64).expand(4, 1)
        one = cairn.linalg.householder_product(a.expand(4, 3, 2), first)
        self.assertTrue(cairn.allclose(one[2], (eye - tau[0] * v[0] @ v[0].T)[:, :2]))
        with self.assertRaises(RuntimeError):
            cairn.linalg.householder_product(a.T, cairn.tensor(tau))
        leaf = cairn.ones(3, 2, requires_grad=True)
        none = cairn.linalg.householder_product(leaf, cairn.ones(0))  # no reflections: columns of eye, and a history
        self.assertEqual(none.tolist(), [[1, 0], [0, 1], [0, 0]])
        none.sum().backward()
        self.assertEqual(leaf.grad.abs().sum().item(), 0)
        out = cairn.empty(3, 2)
        self.assertIs(cairn.linalg.householder_product(leaf.detach(), cairn.ones(0), out=out), out)
        self.assertEqual(out.tolist(), none.tolist())
        self.assertIs(cairn.linalg.matmul, cairn.matmul)


if __name__ == "__main__":
    unittest.main()
