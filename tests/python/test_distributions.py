"""cairn.distributions: the distributions of distribution_cases.py in numbers that can be looked up, in what must agree
within each (draws and moments, cdf and icdf, density and integral), and beside torch where it is installed.
"""
import math
import unittest
import warnings

import distribution_cases
from distribution_cases import PD, TRIL, Test, flat

import cairn
import cairn.distributions as D

try:
    import torch
    import torch.distributions as TD
except ImportError:
    torch = TD = None

CASES = {case.name: case for case in distribution_cases.cases()}
# Where torch returns nan, approximates more coarsely, or fails.
OTHER_MODES = ("Kumaraswamy", "Weibull")
COARSE = {"VonMises": 1e-5}


def of(library, keep=None):
    """From lists to tensors of a library: float64, or int64 for lists of ints; leaves for gradients if to be kept."""
    def make(values):
        first = values
        while isinstance(first, list):
            first = first[0]
        if isinstance(first, int):
            return library.tensor(values)
        t = library.tensor(values, dtype=library.float64, requires_grad=keep is not None)
        if keep is not None:
            keep.append(t)
        return t
    return make


def ours(name):
    return CASES[name].make(D, of(cairn))


class Numbers(Test):
    """Values from formulas, worked out by hand."""

    def check(self, value, wanted, tolerance=1e-6):
        self.near(flat(value), wanted if isinstance(wanted, list) else [wanted], tolerance)

    def test_continuous(self):
        t = of(cairn)
        log = math.log
        self.check(D.Normal(1.0, 2.0).log_prob(cairn.tensor(3.0)), -0.5 - log(2) - 0.5 * log(2 * math.pi))
        self.check(D.Normal(0.0, 1.0).cdf(cairn.tensor(1.959963985)), 0.975)
        self.check(D.Uniform(1.0, 3.0).log_prob(cairn.tensor(2.0)), -log(2))
        self.check(D.Exponential(2.0).cdf(cairn.tensor(0.5)), 1 - math.exp(-1))
        self.check(D.Laplace(0.0, 2.0).entropy(), 1 + log(4))
        self.check(D.Cauchy(0.0, 1.0).cdf(cairn.tensor(1.0)), 0.75)
        self.check(D.Gamma(t(3.0), t(2.0)).log_prob(t(1.0)), 3 * log(2) - 2 - log(2))
        self.check(D.Beta(t(2.0), t(3.0)).log_prob(t(0.5)), log(12 * 0.5 * 0.25))
        self.check(D.Dirichlet(t([1.0, 1.0, 1.0])).entropy(), -log(2))
        self.check(D.StudentT(t(1.0)).log_prob(t(1.0)), -log(2 * math.pi))
        self.check(D.Chi2(t(2.0)).log_prob(t(2.0)), -1 - log(2))
        self.check(D.FisherSnedecor(t(2.0), t(2.0)).log_prob(t(1.0)), -log(4))
        self.check(D.HalfNormal(t(1.0)).mean, math.sqrt(2 / math.pi))
        self.check(D.HalfCauchy(t(1.0)).cdf(t(1.0)), 0.5)
        self.check(D.Gumbel(t(0.0), t(1.0)).cdf(t(0.0)), math.exp(-1))
        self.check(D.Kumaraswamy(t(2.0), t(3.0)).cdf(t(0.5)), 1 - 0.75 ** 3)
        self.check(D.Kumaraswamy(t(2.0), t(3.0)).mode, math.sqrt(0.2))
        self.check(D.LogNormal(t(0.0), t(1.0)).mean, math.exp(0.5))
        self.check(D.Pareto(t(1.0), t(3.0)).mean, 1.5)
        self.check(D.GeneralizedPareto(t(0.0), t(1.0), t(0.5)).cdf(t(2.0)), 0.75)
        self.check(D.InverseGamma(t(3.0), t(4.0)).mean, 2.0)
        self.check(D.Weibull(t(2.0), t(1.0)).cdf(t(2.0)), 1 - math.exp(-1))
        self.check(D.VonMises(t(0.0), t(1.0)).log_prob(t(0.0)), 1 - log(2 * math.pi * 1.2660658777520084))
        self.check(D.ContinuousBernoulli(t(0.5)).log_prob(t(0.3)), 0.0)

    def test_discrete(self):
        t = of(cairn)
        log = math.log
        self.check(D.Bernoulli(0.25).log_prob(cairn.tensor(1.0)), log(0.25))
        self.check(D.Bernoulli(0.25).entropy(), -0.25 * log(0.25) - 0.75 * log(0.75))
        self.check(D.Binomial(4, t(0.5)).log_prob(t(2.0)), log(6 / 16))
        self.check(D.Categorical(t([1.0, 3.0])).log_prob(cairn.tensor([0, 1])), [log(0.25), log(0.75)])
        self.check(D.Categorical(logits=t([0.0, 0.0, -math.inf])).entropy(), log(2))
        self.check(D.Geometric(t(0.5)).log_prob(t(2.0)), log(1 / 8))
        self.check(D.NegativeBinomial(t(2.0), t(0.5)).log_prob(t(1.0)), log(0.25))
        self.check(D.NegativeBinomial(t(0.0), t(0.5)).log_prob(t(0.0)), 0.0)
        self.check(D.Poisson(t(2.0)).log_prob(t(3.0)), 3 * log(2) - 2 - log(6))
        self.check(D.Multinomial(3, t([0.5, 0.5])).log_prob(t([1.0, 2.0])), log(3 / 8))
        self.check(D.Multinomial(2, t([0.5, 0.5])).entropy(), 1.5 * log(2))
        self.check(D.OneHotCategorical(t([0.5, 0.5])).log_prob(t([0.0, 1.0])), -log(2))

    def test_matrices(self):
        t = of(cairn)
        eye = [[1.0, 0.0], [0.0, 1.0]]
        self.check(D.MultivariateNormal(t([0.0, 0.0]), t(eye)).log_prob(t([1.0, 1.0])), -1 - math.log(2 * math.pi))
        by_matrix = D.MultivariateNormal(t([0.0, 1.0, 2.0]), t(PD))
        by_inverse = D.MultivariateNormal(t([0.0, 1.0, 2.0]), precision_matrix=t(PD).inverse())
        for name in ("covariance_matrix", "precision_matrix", "scale_tril", "variance"):
            self.near(flat(getattr(by_matrix, name)), flat(getattr(by_inverse, name)), what=name)
        wide = D.LowRankMultivariateNormal(t([0.0, 0.0, 0.0]), t(TRIL), t([0.5, 0.6, 0.7]))
        whole = D.MultivariateNormal(t([0.0, 0.0, 0.0]), wide.covariance_matrix)
        self.near(flat(wide.log_prob(t([1.0, 2.0, 3.0]))), flat(whole.log_prob(t([1.0, 2.0, 3.0]))))
        self.near(flat(wide.precision_matrix), flat(whole.precision_matrix))
        self.check(D.Wishart(t(3.0), t([[2.0]])).log_prob(t([[1.5]])),
                   flat(D.Gamma(t(1.5), t(0.25)).log_prob(t(1.5))))
        self.check(D.LKJCholesky(2, t(1.0)).log_prob(t([[1.0, 0.0], [0.6, 0.8]])), -math.log(2))


class Consistency(Test):
    """What must agree within one distribution."""

    def test_draws_and_moments(self):
        n = 4000
        for name, case in CASES.items():
            d = case.make(D, of(cairn))
            try:
                mean, variance = d.mean, d.variance
            except NotImplementedError:
                continue
            x = d.sample((n,))
            self.assertFalse(x.requires_grad)
            if name.startswith(("Categorical", "VonMises")):
                continue  # their means are no mean of the numbers
            usable = variance.isfinite() & (variance > 0)
            z = ((x.double().mean(0) - mean) / (variance / n).sqrt())[usable]
            with self.subTest(name):
                self.assertTrue(bool((z.abs() < 4.5).all()), z)

    def test_circle(self):
        t = of(cairn)
        d = D.VonMises(t([0.0, 3.0, 2.0]), t([1e-6, 4.0, 1e4]))
        x = d.sample((4000,))
        self.assertTrue(bool((x.abs() <= math.pi).all()))
        self.near(flat(1 - (x - d.loc).cos().mean(0)), flat(d.variance), 0.03)

    def test_binomial_of_many(self):
        t = of(cairn)
        d = D.Binomial(t([3.0, 40.0, 1000.0, 1e6]), t([0.0, 0.9, 0.4, 2e-5]))
        x = d.sample((4000,))
        z = (x.mean(0) - d.mean) / (d.variance / 4000).sqrt().clamp(min=1e-9)
        self.assertTrue(bool((z.abs() < 4.5).all()), z)

    def test_inverses(self):
        tried = 0
        for name, case in CASES.items():
            d = case.make(D, of(cairn))
            u = cairn.full(d.batch_shape, 0.3, dtype=cairn.float64)
            try:
                x = d.icdf(u)
                back = d.cdf(x)
            except NotImplementedError:
                continue
            tried += 1
            self.near(flat(back), flat(u), 1e-8, name)
        self.assertGreater(tried, 12)

    def test_density_is_the_slope_of_cdf(self):
        tried = 0
        for name, case in CASES.items():
            d = case.make(D, of(cairn))
            x = cairn.tensor(case.values, dtype=cairn.float64, requires_grad=True)
            try:
                cdf = d.cdf(x)
            except NotImplementedError:
                continue
            tried += 1
            (slope,) = cairn.autograd.grad(cdf.sum(), x)
            density = d.log_prob(x.detach()).exp()
            if density.shape == slope.shape:
                # Near 0.5 torch's formula for ContinuousBernoulli, and so this one, is a series of a few terms.
                self.near(flat(slope), flat(density), 2e-4 if name == "ContinuousBernoulli" else 1e-6, name)
        self.assertGreater(tried, 15)

    def test_integrals(self):
        t = of(cairn)
        x = cairn.linspace(0, 1, 20001, dtype=cairn.float64)
        inside = x[1:-1]
        for d in (D.Beta(t(2.0), t(3.0)), D.Kumaraswamy(t(2.0), t(3.0)), D.ContinuousBernoulli(t(0.2)),
                  D.Uniform(t(0.0), t(1.0)), D.RelaxedBernoulli(t(2.0), t(0.4))):
            total = (d.log_prob(inside).exp().sum() * 5e-5).item()
            self.assertAlmostEqual(total, 1.0, 2, str(d))
        angles = cairn.linspace(-math.pi, math.pi, 2001, dtype=cairn.float64)[1:]
        density = D.VonMises(t(0.5), t(2.0)).log_prob(angles).exp()
        self.assertAlmostEqual((density.sum() * 2 * math.pi / 2000).item(), 1.0, 9)
        for d in (D.Poisson(t(3.0)), D.Geometric(t(0.4)), D.NegativeBinomial(t(2.5), t(0.4))):
            counts = cairn.arange(200, dtype=cairn.float64)
            self.assertAlmostEqual(d.log_prob(counts).exp().sum().item(), 1.0, 9, str(d))

    def test_enumerated_values(self):
        for name in ("Bernoulli", "Binomial", "Categorical", "OneHotCategorical"):
            d = ours(name)
            values = d.enumerate_support()
            self.assertEqual(values.shape[1:], d.batch_shape + d.event_shape)
            self.near(flat(d.log_prob(values).exp().sum(0)), [1.0] * d.batch_shape.numel(), what=name)
            self.near(flat(-(d.log_prob(values).exp() * d.log_prob(values)).sum(0)), flat(d.entropy()), what=name)
            self.assertEqual(d.enumerate_support(expand=False).shape[1:],
                             (1,) * len(d.batch_shape) + tuple(d.event_shape))

    def test_shapes(self):
        for name, case in CASES.items():
            d = case.make(D, of(cairn))
            for batch in [tuple(d.batch_shape), (4, *d.batch_shape), (2, 3, *d.batch_shape)]:
                e = d.expand(batch)
                with self.subTest(name, batch=batch):
                    self.assertEqual((type(e), e.batch_shape, e.event_shape), (type(d), batch, d.event_shape))
                    for sample in [(), (1,), (2, 3)]:
                        x = e.sample(sample)
                        self.assertEqual(x.shape, sample + batch + tuple(d.event_shape))
                        self.assertEqual(e.log_prob(x).shape, sample + batch)

    def test_draws_carry_gradients(self):
        for name, case in CASES.items():
            keep = []
            d = case.make(D, of(cairn, keep))
            if not d.has_rsample:
                with self.assertRaises(NotImplementedError):
                    d.rsample()
                continue
            x = d.rsample((3,))
            grads = cairn.autograd.grad((x * x).sum(), keep, allow_unused=True)
            with self.subTest(name):
                self.assertTrue(any(g is not None for g in grads))
                self.assertTrue(all(g is None or bool(g.isfinite().all()) for g in grads), grads)


class Gradients(Test):
    """Gradients of draws: what is known of each draw, or of the mean over many."""

    def test_location_and_scale(self):
        t = of(cairn)
        for kind in (D.Normal, D.Laplace, D.Cauchy, D.Gumbel):
            loc, scale = t(1.0).requires_grad_(), t(2.0).requires_grad_()
            x = kind(loc, scale).rsample((5,))
            a, b = cairn.autograd.grad(x.sum(), [loc, scale])
            self.near([a.item(), b.item()], [5.0, ((x - loc) / scale).sum().item()], 1e-9, kind.__name__)

    def test_gamma(self):
        """The mean over draws of d f(x)/d concentration is the derivative of the mean of f, here of x and log x."""
        for a in (0.05, 0.4, 1.0, 3.0, 50.0):
            concentration = cairn.tensor(a, dtype=cairn.float64, requires_grad=True)
            x = D.Gamma(concentration, 2.0).rsample((4000,))
            (slope,) = cairn.autograd.grad(x.mean(), concentration, retain_graph=True)
            self.assertLess(abs(slope.item() - 0.5), 0.12, a)
            (slope,) = cairn.autograd.grad(x.log().mean(), concentration)
            wanted = cairn.special.polygamma(1, concentration.detach()).item()
            if a > 0.1:  # below, draws that vanish are held at the smallest number there is
                self.assertLess(abs(slope.item() / wanted - 1), 0.2, a)

    def test_gamma_keeps_its_place(self):
        """d x / d concentration moves a draw along with the quantiles: cdf(x; concentration) does not change."""
        concentration = cairn.tensor([0.3, 0.9, 2.0, 7.5, 60.0, 900.0], dtype=cairn.float64, requires_grad=True)
        d = D.Gamma(concentration, 1.0)
        x = d.rsample()
        (slope,) = cairn.autograd.grad(x.sum(), concentration)
        h, a, x = 1e-4 * concentration.detach(), concentration.detach(), x.detach()
        before, after = (cairn.special.gammainc(a + s * h, x + s * h * slope) for s in (-1, 1))
        self.assertTrue(bool(((after - before).abs() / h < 1e-5).all()))

    def test_dirichlet_and_beta(self):
        concentration = cairn.tensor([0.5, 1.0, 3.0], dtype=cairn.float64, requires_grad=True)
        x = D.Dirichlet(concentration).rsample((4000,))
        self.near(flat(x.sum(-1)), [1.0] * 4000)
        (slope,) = cairn.autograd.grad(x[:, 0].mean(), concentration)
        total = 4.5
        self.near(flat(slope), [(total - 0.5) / total ** 2, -0.5 / total ** 2, -0.5 / total ** 2], 0.02)
        tiny = D.Beta(cairn.full((200,), 1e-3), cairn.full((200,), 1e-3)).sample()
        self.assertTrue(bool(tiny.isfinite().all()))

    def test_straight_through(self):
        logits = cairn.zeros(4, 3, requires_grad=True)
        x = D.OneHotCategoricalStraightThrough(logits=logits).rsample()
        self.near(flat(x.sum(-1)), [1.0] * 4, 1e-6)
        (x * cairn.tensor([1.0, 2.0, 3.0])).sum().backward()
        self.near(flat(logits.grad[0]), [-1 / 3, 0.0, 1 / 3], 1e-6)


class Arguments(Test):
    def test_wrong_parameters(self):
        wrong = [lambda: D.Normal(0.0, -1.0), lambda: D.Normal(math.nan, 1.0), lambda: D.Uniform(2.0, 1.0),
                 lambda: D.Bernoulli(1.5), lambda: D.Bernoulli(), lambda: D.Bernoulli(0.5, 0.5),
                 lambda: D.Categorical(), lambda: D.Categorical(cairn.tensor([-1.0, 2.0])),
                 lambda: D.Categorical(cairn.tensor(1.0)), lambda: D.Normal("x", 1.0), lambda: D.Geometric(0.0),
                 lambda: D.MultivariateNormal(cairn.zeros(2), cairn.tensor([[1.0, 2.0], [2.0, 1.0]])),
                 lambda: D.MultivariateNormal(cairn.zeros(2)), lambda: D.Dirichlet(cairn.tensor(1.0)),
                 lambda: D.Independent(D.Normal(0.0, 1.0), 1), lambda: D.LKJCholesky(1),
                 lambda: D.Wishart(cairn.tensor(1.0), cairn.eye(3)), lambda: D.TransformedDistribution(
                     D.Normal(0.0, 1.0), 3), lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0))]
        for make in wrong:
            with self.assertRaises(ValueError):
                make()
        with self.assertRaises(NotImplementedError):
            D.Multinomial(cairn.tensor([1, 2]), cairn.tensor([0.5, 0.5]))
        D.Normal(0.0, -1.0, validate_args=False)

    def test_wrong_values(self):
        for d, value in [(D.Uniform(0.0, 1.0), 2.0), (D.Bernoulli(0.5), 0.5), (D.Poisson(1.0), -1.0),
                         (D.Exponential(1.0), -1.0), (D.Categorical(cairn.ones(3)), 3.0)]:
            with self.assertRaisesRegex(ValueError, "support"):
                d.log_prob(cairn.tensor(value))
        with self.assertRaises(ValueError):
            D.Normal(0.0, 1.0).log_prob(1.0)
        with self.assertRaises(ValueError):
            D.Normal(cairn.zeros(3), 1.0).log_prob(cairn.zeros(2))
        with self.assertRaises(ValueError):
            D.Dirichlet(cairn.ones(3)).log_prob(cairn.tensor([0.5, 0.5]))

    def test_default_validation(self):
        D.Distribution.set_default_validate_args(False)
        try:
            D.Normal(0.0, -1.0)
        finally:
            D.Distribution.set_default_validate_args(True)
        with self.assertRaises(ValueError):
            D.Distribution.set_default_validate_args(3)

    def test_own_subclasses(self):
        class Twice(D.Normal):
            def __init__(self, loc):
                super().__init__(loc, 2.0)

        class Named(D.Normal):
            pass

        with self.assertRaises(NotImplementedError):
            Twice(0.0).expand((2,))
        self.assertIsInstance(Named(0.0, 1.0).expand((2,)), Named)

        class Bare(D.Distribution):
            pass

        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            bare = Bare()
        self.assertEqual(len(seen), 1)
        for call in (bare.sample, bare.entropy, lambda: bare.mean, lambda: bare.expand((2,))):
            with self.assertRaises(NotImplementedError):
                call()

    def test_text_and_types(self):
        self.assertEqual(str(D.Normal(0.0, 1.0)), "Normal(loc: 0.0, scale: 1.0)")
        self.assertEqual(str(D.Normal(cairn.zeros(2), 1.0)), "Normal(loc: cairn.Size([2]), scale: cairn.Size([2]))")
        self.assertEqual(D.Normal(0, 1).sample().dtype, cairn.get_default_dtype())
        self.assertEqual(D.Categorical(cairn.ones(3)).sample((2,)).dtype, cairn.int64)
        self.assertEqual(D.Normal(0.0, cairn.ones(2, dtype=cairn.float64)).sample().dtype, cairn.float64)
        import cairn.distributions.categorical as home
        self.assertIs(home.Categorical, D.Categorical)

    def test_seeds(self):
        for name in CASES:
            cairn.manual_seed(5)
            first = ours(name).sample((2,)).tolist()
            cairn.manual_seed(5)
            self.assertEqual(first, ours(name).sample((2,)).tolist(), name)


@unittest.skipUnless(torch, "PyTorch is not installed")
class Torch(Test):
    """Every number that torch gives, and its gradients by the parameters."""

    def pair(self, name):
        theirs, mine = [], []
        return (CASES[name].make(TD, of(torch, theirs)), theirs), (CASES[name].make(D, of(cairn, mine)), mine)

    def both(self, name, what, ask, tolerance=1e-9):
        """Asks both, which must return the same or raise the same."""
        (p, theirs), (d, mine) = self.pair(name)
        try:
            wanted = ask(p, torch)
        except (NotImplementedError, ValueError) as e:
            with self.assertRaises(type(e), msg="%s %s" % (name, what)):
                ask(d, cairn)
            return
        got = ask(d, cairn)
        self.assertEqual(tuple(got.shape), tuple(wanted.shape), (name, what))
        self.assertEqual(str(got.dtype).rpartition(".")[2], str(wanted.dtype).rpartition(".")[2], (name, what))
        self.near(flat(got), flat(wanted), tolerance, (name, what))
        if wanted.requires_grad and got.requires_grad and all(map(math.isfinite, flat(wanted))):
            self.gradients(name, what, wanted, theirs, got, mine, max(tolerance, 1e-7))

    def gradients(self, name, what, wanted, theirs, got, mine, tolerance):
        try:
            expected = torch.autograd.grad(wanted.sum(), theirs, allow_unused=True)
        except NotImplementedError:
            return
        found = cairn.autograd.grad(got.sum(), mine, allow_unused=True)
        for a, b, leaf in zip(found, expected, theirs):
            zero = [0.0] * leaf.numel()
            self.near(zero if a is None else flat(a), zero if b is None else flat(b), tolerance, (name, what, "grad"))

    def test_numbers(self):
        for name, case in CASES.items():
            if name == "GeneralizedPareto":
                continue  # torch's fails in float64
            tolerance = COARSE.get(name, 1e-9)
            for what in ("mean", "mode", "variance", "stddev"):
                if what != "mode" or name not in OTHER_MODES:
                    self.both(name, what, lambda d, m: getattr(d, what), tolerance)
            for what in ("entropy", "perplexity"):
                self.both(name, what, lambda d, m: getattr(d, what)(), tolerance)
            for what in ("log_prob", "cdf"):
                self.both(name, what, lambda d, m: getattr(d, what)(of(m)(case.values)), tolerance)
            self.both(name, "icdf", lambda d, m: d.icdf(m.full(d.batch_shape, 0.3, dtype=m.float64)), tolerance)
            self.both(name, "enumerate_support", lambda d, m: d.enumerate_support(False))

    def test_generalized_pareto(self):
        def make(m, module):
            return module.GeneralizedPareto(m.tensor([0.0, 0.1, 0.2]), m.tensor([1.0, 2.0, 9.0]),
                                            m.tensor([0.3, 0.0, -0.5]))
        p, d = make(torch, TD), make(cairn, D)
        for ask in (lambda d, m: d.log_prob(m.tensor([0.2, 1.0, 3.7])), lambda d, m: d.cdf(m.tensor([0.2, 1.0, 3.7])),
                    lambda d, m: d.icdf(m.tensor([0.2, 0.4, 0.7])), lambda d, m: d.mean, lambda d, m: d.variance):
            self.near(flat(ask(d, cairn)), flat(ask(p, torch)), 1e-5)

    def test_facts(self):
        for name in CASES:
            (p, _), (d, _) = self.pair(name)
            self.assertEqual((tuple(d.batch_shape), tuple(d.event_shape), d.has_rsample, d.has_enumerate_support),
                             (tuple(p.batch_shape), tuple(p.event_shape), p.has_rsample, p.has_enumerate_support))
            self.assertEqual(str(d), str(p).replace("torch", "cairn"))
            if name != "Uniform" and not name.startswith("Wishart"):
                self.assertEqual(str(type(d).arg_constraints), str(type(p).arg_constraints), name)
        self.assertEqual(set(D.__all__), set(TD.__all__))


if __name__ == "__main__":
    unittest.main()
