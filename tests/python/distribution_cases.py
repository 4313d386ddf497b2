"""The distributions that test_distributions.py and test_distribution_parts.py go through: for each a function that
makes it of a library's tensors (cairn's or torch's), and values to score; and what these tests compare with."""
import math
import unittest
import warnings

import cairn

PD = [[2.0, 0.3, 0.1], [0.3, 1.5, -0.2], [0.1, -0.2, 0.8]]
TRIL = [[1.2, 0.0, 0.0], [0.4, 0.9, 0.0], [-0.3, 0.2, 0.7]]
SIMPLEX = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]
LOGITS = [[0.1, -1.0, 2.0], [0.5, 0.5, -0.5]]


def flat(t):
    return t.detach().reshape(-1).double().tolist()


class Test(unittest.TestCase):
    """Lists of numbers that agree."""

    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        cairn.manual_seed(3)

    def near(self, a, b, tolerance=1e-9, what=""):
        self.assertEqual(len(a), len(b), what)
        for x, y in zip(a, b):
            same = x == y or (math.isnan(x) and math.isnan(y)) or abs(x - y) <= tolerance * (1 + abs(y))
            if not same:
                self.fail("%s: %r beside %r" % (what, a, b))


class Case:
    """name; make(D, t): the distribution, of a module and a function from lists to float64 tensors; values: to score,
    or None; smooth: whether gradients by parameters are to be compared at the values."""

    def __init__(self, name, make, values):
        self.name, self.make, self.values = name, make, values


def cases():
    real = [-1.5, 0.2, 2.5]
    unit = [0.1, 0.45, 0.9]
    positive = [0.2, 1.0, 3.7]
    count = [0.0, 1.0, 4.0]
    yield Case("Bernoulli", lambda D, t: D.Bernoulli(t([0.1, 0.5, 0.8])), [1.0, 0.0, 1.0])
    yield Case("Bernoulli logits", lambda D, t: D.Bernoulli(logits=t([-3.0, 0.5, 40.0])), [1.0, 0.0, 1.0])
    yield Case("Beta", lambda D, t: D.Beta(t([0.5, 2.0, 9.0]), t([0.7, 3.0, 1.0])), unit)
    yield Case("Binomial", lambda D, t: D.Binomial(t([5.0, 5.0, 5.0]), t([0.1, 0.5, 0.9])), count)
    yield Case("Binomial logits", lambda D, t: D.Binomial(7, logits=t([-2.0, 0.3, 2.0])), count)
    yield Case("Categorical", lambda D, t: D.Categorical(t(SIMPLEX)), [2, 0])
    yield Case("Categorical logits", lambda D, t: D.Categorical(logits=t(LOGITS)), [1, 2])
    yield Case("Cauchy", lambda D, t: D.Cauchy(t([0.0, 1.0, -2.0]), t([1.0, 0.5, 3.0])), real)
    yield Case("Chi2", lambda D, t: D.Chi2(t([0.5, 2.0, 7.0])), positive)
    yield Case("ContinuousBernoulli", lambda D, t: D.ContinuousBernoulli(t([0.1, 0.4995, 0.9])), unit)
    yield Case("ContinuousBernoulli logits", lambda D, t: D.ContinuousBernoulli(logits=t([-1.0, 0.0, 3.0])), unit)
    yield Case("Dirichlet", lambda D, t: D.Dirichlet(t([[0.5, 2.0, 3.0], [0.3, 0.4, 0.9]])), SIMPLEX)
    yield Case("Exponential", lambda D, t: D.Exponential(t([0.5, 2.0, 9.0])), positive)
    yield Case("FisherSnedecor", lambda D, t: D.FisherSnedecor(t([0.5, 3.0, 9.0]), t([1.0, 5.0, 12.0])), positive)
    yield Case("Gamma", lambda D, t: D.Gamma(t([0.5, 2.0, 9.0]), t([1.0, 0.5, 3.0])), positive)
    yield Case("GeneralizedPareto", lambda D, t: D.GeneralizedPareto(t([0.0, 0.1, 0.2]), t([1.0, 2.0, 9.0]),
                                                                     t([0.3, 0.0, -0.5])), positive)
    yield Case("Geometric", lambda D, t: D.Geometric(t([0.1, 0.5, 0.8])), count)
    yield Case("Geometric logits", lambda D, t: D.Geometric(logits=t([-1.0, 0.5, 2.0])), count)
    yield Case("Gumbel", lambda D, t: D.Gumbel(t([0.0, 1.0, -2.0]), t([1.0, 0.5, 3.0])), real)
    yield Case("HalfCauchy", lambda D, t: D.HalfCauchy(t([1.0, 0.5, 3.0])), positive)
    yield Case("HalfNormal", lambda D, t: D.HalfNormal(t([1.0, 0.5, 3.0])), positive)
    yield Case("Independent", lambda D, t: D.Independent(D.Normal(t([[0.0, 1.0], [2.0, 3.0]]), t([1.0, 2.0])), 1),
               [[0.5, 0.5], [1.0, 4.0]])
    yield Case("InverseGamma", lambda D, t: D.InverseGamma(t([0.5, 1.5, 9.0]), t([1.0, 0.5, 3.0])), positive)
    yield Case("Kumaraswamy", lambda D, t: D.Kumaraswamy(t([0.5, 2.0, 3.0]), t([0.7, 3.0, 1.0])), unit)
    yield Case("LKJCholesky", lambda D, t: D.LKJCholesky(3, t([0.5, 2.0])),
               [[[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.6, 0.8]]])
    yield Case("Laplace", lambda D, t: D.Laplace(t([0.0, 1.0, -2.0]), t([1.0, 0.5, 3.0])), real)
    yield Case("LogNormal", lambda D, t: D.LogNormal(t([0.0, 1.0, -2.0]), t([1.0, 0.5, 1.2])), positive)
    yield Case("LogisticNormal", lambda D, t: D.LogisticNormal(t([0.0, 1.0]), t([1.0, 0.5])), [0.2, 0.3, 0.5])
    yield Case("LowRankMultivariateNormal", lambda D, t: D.LowRankMultivariateNormal(
        t([0.1, 0.2, 0.3]), t([[1.0, 0.5], [0.2, -0.4], [0.3, 0.6]]), t([0.5, 1.0, 2.0])), [real, unit])
    yield Case("MixtureSameFamily", lambda D, t: D.MixtureSameFamily(
        D.Categorical(t(SIMPLEX)), D.Normal(t([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]), t([1.0, 0.5, 2.0]))), [0.5, 3.5])
    yield Case("MixtureSameFamily vectors", lambda D, t: D.MixtureSameFamily(
        D.Categorical(t([0.3, 0.7])), D.Independent(D.Normal(t([[0.0, 1.0], [2.0, 3.0]]), t([1.0, 2.0])), 1)),
        [[0.5, 0.5], [1.0, 4.0], [2.0, 2.0]])
    yield Case("Multinomial", lambda D, t: D.Multinomial(4, t(SIMPLEX)), [[1.0, 1.0, 2.0], [4.0, 0.0, 0.0]])
    yield Case("MultivariateNormal", lambda D, t: D.MultivariateNormal(t([0.1, 0.2, 0.3]), t(PD)), [real, unit])
    yield Case("MultivariateNormal tril", lambda D, t: D.MultivariateNormal(
        t([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]]), scale_tril=t(TRIL)), real)
    yield Case("MultivariateNormal precision", lambda D, t: D.MultivariateNormal(
        t([0.1, 0.2, 0.3]), precision_matrix=t([PD, TRIL_SQUARE])), real)
    yield Case("NegativeBinomial", lambda D, t: D.NegativeBinomial(t([3.0, 1.5, 8.0]), t([0.1, 0.5, 0.9])), count)
    yield Case("NegativeBinomial logits", lambda D, t: D.NegativeBinomial(4, logits=t([-1.0, 0.5, 2.0])), count)
    yield Case("Normal", lambda D, t: D.Normal(t([0.0, 1.0, -2.0]), t([1.0, 0.5, 3.0])), real)
    yield Case("Normal broadcast", lambda D, t: D.Normal(t([[0.0], [1.0]]), t([1.0, 0.5, 3.0])), real)
    yield Case("OneHotCategorical", lambda D, t: D.OneHotCategorical(t(SIMPLEX)), [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    yield Case("OneHotCategoricalStraightThrough", lambda D, t: D.OneHotCategoricalStraightThrough(logits=t(LOGITS)),
               [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    yield Case("Pareto", lambda D, t: D.Pareto(t([0.1, 0.5, 0.7]), t([0.5, 1.5, 9.0])), [0.2, 1.0, 3.7])
    yield Case("Poisson", lambda D, t: D.Poisson(t([0.0, 1.5, 9.0])), count)
    yield Case("RelaxedBernoulli", lambda D, t: D.RelaxedBernoulli(t([0.5, 1.0, 2.0]), t([0.1, 0.5, 0.8])), unit)
    yield Case("RelaxedOneHotCategorical", lambda D, t: D.RelaxedOneHotCategorical(t(0.7), t(SIMPLEX)), SIMPLEX)
    yield Case("StudentT", lambda D, t: D.StudentT(t([0.5, 1.5, 9.0]), t([0.0, 1.0, 2.0]), t([1.0, 2.0, 0.5])), real)
    yield Case("TransformedDistribution", lambda D, t: D.TransformedDistribution(
        D.Normal(t([0.0, 1.0]), t([1.0, 2.0])), [D.AffineTransform(t([0.5, 0.1]), t([-2.0, 3.0])),
                                                 D.SigmoidTransform()]), [0.3, 0.8])
    yield Case("TransformedDistribution tanh", lambda D, t: D.TransformedDistribution(
        D.Independent(D.Normal(t([0.0, 1.0]), t([1.0, 2.0])), 1), [D.TanhTransform(cache_size=1)]), [0.3, -0.8])
    yield Case("Uniform", lambda D, t: D.Uniform(t([0.0, -1.0, 0.5]), t([1.0, 1.0, 3.0])), [0.1, 0.45, 0.9])
    yield Case("VonMises", lambda D, t: D.VonMises(t([0.0, 1.0, -2.0]), t([0.1, 4.0, 90.0])), real)
    yield Case("Weibull", lambda D, t: D.Weibull(t([0.5, 1.0, 2.0]), t([0.7, 3.0, 1.0])), positive)
    yield Case("Wishart", lambda D, t: D.Wishart(t([4.0, 6.5]), t(PD)), [PD])
    yield Case("Wishart tril", lambda D, t: D.Wishart(t(5.0), scale_tril=t(TRIL)), PD)


TRIL_SQUARE = [[sum(a * b for a, b in zip(row, other)) for other in TRIL] for row in TRIL]
