"""cairn.distributions' other halves: transforms (inverses, log determinants by autograd), constraints, the registers of
transforms onto them, and divergences (by draws, and each that torch has).
"""
import math
import unittest

import distribution_cases
from distribution_cases import Test, flat

import cairn
import cairn.distributions as D
from cairn.distributions import constraints as C
from cairn.distributions.utils import (broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits,
                                       tril_matrix_to_vec, vec_to_tril_matrix)

try:
    import torch
    import torch.distributions as TD
except ImportError:
    torch = TD = None

F64 = cairn.float64
VECTOR = [0.3, -0.7, 1.2]


def t(values, library=cairn):
    return library.tensor(values, dtype=library.float64)


def transforms(D, t):
    """Transforms, each with an input."""
    yield D.ExpTransform(), t(VECTOR)
    yield D.SigmoidTransform(), t(VECTOR)
    yield D.TanhTransform(), t(VECTOR)
    yield D.SoftplusTransform(), t(VECTOR)
    yield D.AffineTransform(1.0, -2.0), t(VECTOR)
    yield D.AffineTransform(t([1.0, 2.0, 3.0]), t([0.5, -1.0, 2.0])), t([VECTOR, VECTOR])
    yield D.AffineTransform(t([1.0, 2.0, 3.0]), t([0.5, -1.0, 2.0]), event_dim=1), t([VECTOR, VECTOR])
    yield D.PowerTransform(t(2.5)), t([0.3, 0.7, 1.2])
    yield D.StickBreakingTransform(), t([VECTOR, [0.0, 0.0, 0.0]])
    yield D.CorrCholeskyTransform(), t(VECTOR)
    yield (D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.SigmoidTransform(), D.AffineTransform(-1.0, 3.0)]),
           t(VECTOR))
    yield D.ComposeTransform([D.ExpTransform(), D.StickBreakingTransform()]), t(VECTOR)
    yield D.ComposeTransform([]), t(VECTOR)
    yield D.IndependentTransform(D.ExpTransform(), 1), t([VECTOR, VECTOR])
    yield D.ReshapeTransform((3,), (3, 1)), t([VECTOR, VECTOR])
    yield D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)], -1, [1, 2]), t(VECTOR)
    yield D.StackTransform([D.ExpTransform(), D.TanhTransform(), D.SigmoidTransform()], -1), t([VECTOR, VECTOR])
    yield D.CumulativeDistributionTransform(D.Normal(t(0.5), t(2.0))), t(VECTOR)
    yield D.ExpTransform().inv, t([0.3, 0.7, 1.2])
    yield D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0)]).inv, t([0.3, 0.7, 1.2])


def onto(D, t):
    """Those that are not one to one."""
    yield D.SoftmaxTransform(), t([VECTOR, VECTOR])
    yield D.LowerCholeskyTransform(), t([VECTOR, VECTOR, VECTOR])
    yield D.PositiveDefiniteTransform(), t([VECTOR, VECTOR, VECTOR])
    yield D.AbsTransform(), t(VECTOR)


class Transforms(Test):
    def test_inverses(self):
        for f, x in transforms(D, t):
            y = f(x)
            with self.subTest(repr(f)):
                self.assertTrue(f.bijective)
                self.assertEqual(y.shape, f.forward_shape(x.shape))
                self.assertEqual(x.shape, f.inverse_shape(y.shape))
                self.near(flat(f.inv(y)), flat(x), 1e-7)
                self.assertIs(f.inv.inv, f)
                self.assertTrue(bool(f.codomain.check(y).all()))
                self.near(flat(f.inv.log_abs_det_jacobian(y, x)), flat(-f.log_abs_det_jacobian(x, y)))

    def test_log_determinants(self):
        """Beside the determinant of the whole derivative, summed over the batch."""
        for f, x in transforms(D, t):
            y = f(x)
            if y.numel() != x.numel():
                continue  # onto the simplex: tested below
            jacobian = cairn.autograd.functional.jacobian(f, x).reshape(x.numel(), x.numel())
            with self.subTest(repr(f)):
                self.near([f.log_abs_det_jacobian(x, y).sum().item()], [cairn.linalg.slogdet(jacobian)[1].item()], 1e-8)

    def test_onto_less(self):
        """Where there are more places than numbers, the derivative of the places that are free."""
        f, x = D.StickBreakingTransform(), t(VECTOR)
        jacobian = cairn.autograd.functional.jacobian(lambda v: f(v)[:-1], x)
        self.near([f.log_abs_det_jacobian(x, f(x)).item()], [cairn.linalg.slogdet(jacobian)[1].item()])
        f = D.CorrCholeskyTransform()
        jacobian = cairn.autograd.functional.jacobian(lambda v: tril_matrix_to_vec(f(v), -1), x)
        self.near([f.log_abs_det_jacobian(x, f(x)).item()], [cairn.linalg.slogdet(jacobian)[1].item()])

    def test_onto(self):
        for f, x in onto(D, t):
            y = f(x)
            with self.subTest(repr(f)):
                self.assertFalse(f.bijective)
                self.assertTrue(bool(f.codomain.check(y).all()))
                self.near(flat(f(f.inv(y))), flat(y), 1e-7)

    def test_cache(self):
        f = D.TanhTransform(cache_size=1)
        x = t([40.0])
        self.assertIs(f.inv(f(x)), x)  # atanh(1) would be inf
        self.assertIs(f(x), f(x))
        self.assertEqual(D.ExpTransform().with_cache(0).with_cache(1)._cache_size, 1)
        with self.assertRaises(ValueError):
            D.ExpTransform(cache_size=2)

    def test_equality_and_text(self):
        self.assertEqual(D.ExpTransform(), D.ExpTransform())
        self.assertNotEqual(D.ExpTransform(), D.TanhTransform())
        self.assertEqual(D.AffineTransform(0, 1), D.AffineTransform(0, 1))
        self.assertNotEqual(D.AffineTransform(0, 1), D.AffineTransform(0, 2))
        self.assertEqual(D.ExpTransform().inv, D.ExpTransform().inv)
        self.assertEqual(repr(D.ExpTransform()), "ExpTransform()")
        self.assertEqual(D.ComposeTransform([D.AffineTransform(0, -1), D.ExpTransform()]).sign, -1)

    def test_flow(self):
        """A transform of one's own, with a network's weights in it."""
        class Shift(D.Transform):
            domain = codomain = C.real_vector
            bijective = True

            def __init__(self, amount):
                super().__init__()
                self.amount = amount

            def _call(self, x):
                return x + self.amount

            def _inverse(self, y):
                return y - self.amount

            def log_abs_det_jacobian(self, x, y):
                return x.new_zeros(x.shape[:-1])

        amount = t([1.0, 2.0]).requires_grad_()
        base = D.Independent(D.Normal(t([0.0, 0.0]), t([1.0, 1.0])), 1)
        flow = D.TransformedDistribution(base, [Shift(amount), D.TanhTransform(), D.AffineTransform(0.0, 3.0)])
        self.assertEqual((flow.batch_shape, flow.event_shape), ((), (2,)))
        y = flow.rsample((5,))
        log_prob = flow.log_prob(y)
        self.assertEqual(log_prob.shape, (5,))
        log_prob.sum().backward()
        self.assertEqual(amount.grad.shape, (2,))


class Constraints(Test):
    CHECKS = [("boolean", [0.0, 1.0, 0.5]), ("real", [0.0, math.inf, math.nan]), ("positive", [0.0, 1.0, -1.0]),
              ("nonnegative", [0.0, 1.0, -1.0]), ("unit_interval", [0.0, 1.0, 1.1]),
              ("nonnegative_integer", [0.0, 2.0, 1.5, -1.0]), ("positive_integer", [0.0, 2.0]),
              ("one_hot", [[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]), ("real_vector", [[0.0, 1.0], [math.nan, 1.0]]),
              ("simplex", [[0.5, 0.5], [0.6, 0.6], [-0.5, 1.5]]),
              ("lower_triangular", [[[1.0, 0.0], [2.0, 1.0]], [[1.0, 1.0], [2.0, 1.0]]]),
              ("lower_cholesky", [[[1.0, 0.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, -1.0]]]),
              ("corr_cholesky", [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [0.6, 0.9]]]),
              ("symmetric", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 2.0], [0.0, 1.0]]]),
              ("positive_definite", [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]),
              ("positive_semidefinite", [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]])]

    def test_checks(self):
        for name, values in self.CHECKS:
            constraint = getattr(C, name)
            found = constraint.check(t(values))
            self.assertTrue(bool(found.reshape(-1)[0]) or name in ("positive", "positive_integer"), name)
            self.assertEqual(found.shape, t(values).shape[:t(values).dim() - constraint.event_dim])
            if torch:
                theirs = getattr(TD.constraints, name)
                self.assertEqual(found.tolist(), theirs.check(t(values, torch)).tolist(), name)
                self.assertEqual((repr(constraint), constraint.is_discrete), (repr(theirs), theirs.is_discrete))
        self.assertEqual(C.interval(-1.0, t([1.0, 2.0])).check(t([1.5, 1.5])).tolist(), [False, True])
        self.assertEqual(C.half_open_interval(0, 1).check(t([0.0, 1.0])).tolist(), [True, False])
        self.assertEqual(C.integer_interval(0, 3).check(t([3.0, 4.0, 0.5])).tolist(), [True, False, False])
        self.assertEqual(C.less_than(1).check(t([0.0, 1.0])).tolist(), [True, False])
        self.assertEqual(C.cat([C.positive, C.real], 0, [1, 2]).check(t([1.0, -1.0, 2.0])).tolist(), [True] * 3)
        self.assertEqual(C.stack([C.positive, C.boolean], 0).check(t([1.0, 2.0])).tolist(), [True, False])
        self.assertEqual(C.multinomial(3).check(t([[1.0, 2.0], [3.0, 1.0]])).tolist(), [True, False])
        self.assertTrue(C.is_dependent(C.dependent) and C.is_dependent(D.Uniform.support))
        with self.assertRaises(ValueError):
            C.dependent.check(t([1.0]))
        self.assertEqual(C.dependent(event_dim=1).event_dim, 1)
        self.assertEqual(repr(C.dependent), "Dependent()")

    def test_registers(self):
        kinds = [C.real, C.positive, C.nonnegative, C.greater_than(2.0), C.less_than(-1.0), C.unit_interval,
                 C.interval(-1.0, 3.0), C.half_open_interval(0.0, 2.0), C.simplex, C.corr_cholesky, C.real_vector,
                 C.independent(C.positive, 1), C.cat([C.positive, C.real], -1, [1, 2]),
                 C.stack([C.positive, C.real, C.unit_interval], -1)]
        for register in (D.transform_to, D.biject_to):
            for constraint in kinds:
                f = register(constraint)
                y = f(t(VECTOR))
                with self.subTest(repr(constraint)):
                    self.assertTrue(bool(constraint.check(y).all()))
                    self.assertTrue(f.bijective or register is D.transform_to)
                    self.near(flat(f(f.inv(y))), flat(y), 1e-7)
        square = t([VECTOR, VECTOR, VECTOR])
        for constraint in (C.lower_cholesky, C.positive_definite):
            self.assertTrue(bool(constraint.check(D.transform_to(constraint)(square)).all()))
            with self.assertRaises(NotImplementedError):
                D.biject_to(constraint)
        with self.assertRaises(TypeError):
            D.transform_to.register(3, D.ExpTransform)


class Tools(Test):
    def test_all(self):
        a, b = broadcast_all(1, t([2.0, 3.0]))
        self.assertEqual((a.tolist(), a.dtype, b.shape), ([1.0, 1.0], F64, (2,)))
        self.assertEqual(broadcast_all(1, 2.0)[0].dtype, cairn.get_default_dtype())
        with self.assertRaises(ValueError):
            broadcast_all("x", 1)
        self.assertEqual(clamp_probs(cairn.tensor([0.0, 1.0])).tolist(), [2.0 ** -23, 1 - 2.0 ** -23])
        self.near(flat(logits_to_probs(probs_to_logits(t([0.2, 0.8])))), [0.2, 0.8])
        self.near(flat(logits_to_probs(probs_to_logits(t([0.2, 0.6]), True), True)), [0.2, 0.6])
        for diag in (0, -1):
            matrix = cairn.arange(16.0).reshape(4, 4).expand(2, 4, 4)
            vector = tril_matrix_to_vec(matrix, diag)
            self.assertEqual(vec_to_tril_matrix(vector, diag).tolist(), matrix.tril(diag).tolist())

        class Counted:
            calls = 0

            @lazy_property
            def value(self):
                """A docstring."""
                self.calls += 1
                return cairn.ones(1)

        c = Counted()
        self.assertIs(c.value, c.value)
        self.assertEqual((c.calls, Counted.value.__doc__), (1, "A docstring."))


class Divergences(Test):
    def made(self, module, tensors):
        cases = {case.name: case.make(module, tensors) for case in distribution_cases.cases()}
        cases["Uniform inside"] = module.Uniform(tensors([0.2, 0.3, 0.4]), tensors([0.5, 0.9, 1.0]))
        cases["Uniform wide"] = module.Uniform(tensors([-4.0, -3.0, -9.0]), tensors([1.0, 9.0, 5.0]))
        cases["Pareto low"] = module.Pareto(tensors([0.01, 0.02, 2.0]), tensors([2.5, 3.5, 4.0]))
        cases["Bernoulli certain"] = module.Bernoulli(tensors([0.0, 1.0, 0.3]))
        cases["Categorical certain"] = module.Categorical(tensors([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]))
        return cases

    def tensors(self, library):
        return lambda v: library.tensor(v) if isinstance(v, list) and isinstance(v[0], int) else t(v, library)

    def test_by_draws(self):
        """Every pair with a formula, beside the mean of log p - log q over draws from p."""
        made, tried = self.made(D, self.tensors(cairn)), 0
        heavy = ("Pareto", "StudentT", "Cauchy")  # the mean over draws settles too slowly
        for a, p in made.items():
            x = p.sample((3000,))
            for b, q in made.items():
                if p.event_shape != q.event_shape or a.startswith(heavy):
                    continue
                try:
                    kl = D.kl_divergence(p, q)
                except (NotImplementedError, RuntimeError):
                    continue
                if kl.dim() != 1 or not bool(kl.isfinite().all()) or p.batch_shape != q.batch_shape:
                    continue
                q = q.expand(q.batch_shape)
                q._validate_args = False
                terms = p.log_prob(x) - q.log_prob(x)
                error = 5 * terms.std(0) / math.sqrt(3000) + 1e-6
                tried += 1
                with self.subTest(p=a, q=b):
                    self.assertTrue(bool((kl >= -1e-9).all()))
                    self.assertTrue(bool(((terms.mean(0) - kl).abs() <= error).all()), (kl, terms.mean(0), error))
        self.assertGreater(tried, 60)

    def test_register(self):
        class Mine(D.Normal):
            pass

        self.assertEqual(D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item(), 0.0)

        @D.register_kl(Mine, Mine)
        def divergence(p, q):
            return cairn.tensor(7.0)

        self.assertEqual(D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)).item(), 7.0)
        self.assertEqual(D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item(), 0.0)
        with self.assertRaises(NotImplementedError):
            D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0))
        with self.assertRaises(TypeError):
            D.register_kl(3, Mine)
        normal = D.Normal(cairn.zeros(3), cairn.ones(3))
        self.assertEqual(D.kl_divergence(D.Independent(normal, 1), D.Independent(normal, 1)).item(), 0.0)
        with self.assertRaises(NotImplementedError):
            D.kl_divergence(D.Independent(normal, 1), D.Independent(normal, 0))

    @unittest.skipUnless(torch, "PyTorch is not installed")
    def test_as_torch(self):
        mine, theirs = self.made(D, self.tensors(cairn)), self.made(TD, self.tensors(torch))
        compared = 0
        for a in mine:
            for b in mine:
                if (a.startswith("Wishart") or (a.startswith("Pareto") and b == "Normal broadcast")
                        or {a.split()[0], b.split()[0]} == {"ContinuousBernoulli", "Uniform"}):
                    continue  # torch's is negative for some, fails for the next, and is inf if bounds are equal
                try:
                    wanted = TD.kl_divergence(theirs[a], theirs[b])
                except (NotImplementedError, RuntimeError, ValueError, IndexError) as e:
                    with self.assertRaises(type(e), msg=(a, b)):
                        D.kl_divergence(mine[a], mine[b])
                    continue
                found = D.kl_divergence(mine[a], mine[b])
                compared += 1
                if not bool(wanted.isinf().all()):
                    self.assertEqual(tuple(found.shape), tuple(wanted.shape), (a, b))
                    self.near(flat(found), flat(wanted), 1e-8, (a, b))
                else:
                    self.assertTrue(bool(found.isinf().all()), (a, b, found))
        self.assertGreater(compared, 200)


@unittest.skipUnless(torch, "PyTorch is not installed")
class Torch(Test):
    def test_transforms(self):
        for family in (transforms, onto):
            for (f, x), (g, y) in zip(family(D, t), family(TD, lambda v: t(v, torch))):
                with self.subTest(repr(f)):
                    self.near(flat(f(x)), flat(g(y)), 1e-12)
                    self.near(flat(f.inv(f(x))), flat(g.inv(g(y))), 1e-9)
                    self.assertEqual(repr(f), repr(g))
                    self.assertEqual((f.domain.event_dim, f.codomain.event_dim),
                                     (g.domain.event_dim, g.codomain.event_dim))
                    if g.bijective:
                        found, wanted = f.log_abs_det_jacobian(x, f(x)), g.log_abs_det_jacobian(y, g(y))
                        self.assertEqual(tuple(found.shape), tuple(wanted.shape))
                        self.near(flat(found), flat(wanted), 1e-9)

    def test_names(self):
        self.assertEqual(set(C.__all__), set(TD.constraints.__all__))
        self.assertEqual(set(D.transforms.__all__), set(TD.transforms.__all__))


if __name__ == "__main__":
    unittest.main()
