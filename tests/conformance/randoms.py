"""Judges what is drawn at random: kind of result, then the moments of a large draw against the distribution.

The seed is fixed, so a draw that passes once passes always; limits are six standard errors wide.
"""
import math

import torch

import names
import translate

COUNT = 40000
SIX = 6.0


def same_kind(results, actual, expected):
    """None, or why a result differs in structure, shape or dtype; values are not looked at."""
    reason = results.structure(actual, expected)
    if reason:
        return reason
    mine = list(actual) if isinstance(expected, (list, tuple)) else [actual]
    theirs = list(expected) if isinstance(expected, (list, tuple)) else [expected]
    for a, e in zip(mine, theirs):
        if not isinstance(e, torch.Tensor):
            continue
        if not results.translator.is_tensor(a):
            return f"a {type(a).__name__} instead of a tensor"
        if tuple(a.shape) != tuple(e.shape):
            return f"shape {tuple(a.shape)} instead of {tuple(e.shape)}"
        if translate.dtype_name(a.dtype) != translate.dtype_name(e.dtype):
            return f"dtype {a.dtype} instead of {e.dtype}"
        if results.grads and bool(a.requires_grad) != e.requires_grad:
            return f"requires_grad is {a.requires_grad} instead of {e.requires_grad}"
    return None


def moments(values, mean, variance, low=-math.inf, high=math.inf):
    """None, or what is wrong with a draw that should have this mean and variance within [low, high]."""
    values = values.double().flatten()
    n = values.numel()
    if not bool(torch.isfinite(values).all()):
        return "values that are not finite"
    if values.min() < low or values.max() > high:
        return f"values from {values.min():.4g} to {values.max():.4g}, outside [{low}, {high}]"
    if abs(values.mean() - mean) > SIX * math.sqrt(variance / n) + 1e-12:
        return f"mean {values.mean():.5g} instead of {mean:.5g}"
    spread = (values - mean).square()
    if variance and abs(spread.mean() - variance) > SIX * float(spread.std()) / math.sqrt(n) + 1e-12:
        return f"variance {spread.mean():.5g} instead of {variance:.5g}"
    pairs = (values[:-1] - mean) * (values[1:] - mean)
    if abs(pairs.mean()) > SIX * variance / math.sqrt(n) + 1e-12:
        return f"neighbours are correlated: {pairs.mean() / max(variance, 1e-30):.4g}"
    return None


def dropped(values, given, p, scale=None):
    """None, or what is wrong with a dropout: zeros at rate p, the rest scaled by 1 / (1 - p)."""
    scale = 1 / (1 - p) if scale is None else scale
    kept = values != 0
    if not torch.allclose(values[kept].double(), given[kept].double() * scale, rtol=1e-4):
        return "kept values are not scaled by 1 / (1 - p)"
    return moments(1.0 - kept.double(), p, p * (1 - p), 0, 1)


def grouped(values, given, p, dims):
    """Dropout of whole channels: every channel wholly kept or wholly zero."""
    kept = values != 0
    flat = kept.reshape(kept.shape[0] * kept.shape[1], -1) if dims else kept
    if bool((flat.any(1) != flat.all(1)).any()):
        return "a channel is dropped in part"
    if not torch.allclose(values[kept].double(), given[kept].double() / (1 - p), rtol=1e-4):
        return "kept values are not scaled by 1 / (1 - p)"
    rate, n = 1 - flat[:, 0].double().mean(), flat.shape[0]
    limit = SIX * math.sqrt(p * (1 - p) / n)
    return None if abs(rate - p) <= limit else f"channels dropped at rate {rate:.4g} instead of {p}"


class Draws:
    """The draws of one module and dtype; each method yields reasons or None."""

    def __init__(self, module, dtype):
        self.m = module
        self.dtype = getattr(module, translate.dtype_name(dtype))

    def back(self, value):
        return translate.Translator(self.m).back(value)

    def empty(self):
        return self.m.zeros((COUNT,), dtype=self.dtype)

    def ramp(self, *shape):
        """1, 2, 3, 4, 1, 2, ...: no value is zero."""
        given = torch.arange(math.prod(shape)).remainder(4).add(1).reshape(shape)
        given = given.to(getattr(torch, translate.dtype_name(self.dtype)))
        return given, translate.Translator(self.m).value(given)

    def randn(self):
        yield moments(self.back(self.m.randn(COUNT, dtype=self.dtype)), 0, 1)

    def randn_like(self):
        yield moments(self.back(self.m.randn_like(self.empty())), 0, 1)

    def rand_like(self):
        yield moments(self.back(self.m.rand_like(self.empty())), 0.5, 1 / 12, 0, 1)

    def randint(self):
        yield moments(self.back(self.m.randint(-3, 8, (COUNT,), dtype=self.dtype)), 2, (11 * 11 - 1) / 12, -3, 7)

    def randint_like(self):
        yield moments(self.back(self.m.randint_like(self.empty(), 10)), 4.5, 99 / 12, 0, 9)

    def bernoulli(self):
        p = self.m.full((COUNT,), 0.3, dtype=self.dtype)
        yield moments(self.back(self.m.bernoulli(p)), 0.3, 0.21, 0, 1)
        if hasattr(self.m.Tensor, "bernoulli_"):
            yield moments(self.back(self.empty().bernoulli_(0.7)), 0.7, 0.21, 0, 1)

    def normal(self):
        if hasattr(self.m, "normal"):
            mean = self.m.full((COUNT,), 2.0, dtype=self.dtype)
            yield moments(self.back(self.m.normal(mean, 3.0)), 2, 9)
        yield moments(self.back(self.empty().normal_(2.0, 3.0)), 2, 9)

    def uniform(self):
        yield moments(self.back(self.empty().uniform_(-1, 3)), 1, 16 / 12, -1, 3)

    def exponential(self):
        yield moments(self.back(self.empty().exponential_(2.0)), 0.5, 0.25, 0)

    def geometric(self):
        yield moments(self.back(self.empty().geometric_(0.25)), 4, 12, 1)

    def log_normal(self):
        yield moments(self.back(self.empty().log_normal_(0.0, 0.5)).log(), 0, 0.25)

    def cauchy(self):
        draw = self.back(self.empty().cauchy_(1.0, 2.0)).double()
        yield moments(torch.atan((draw - 1) / 2) / math.pi + 0.5, 0.5, 1 / 12, 0, 1)

    def multinomial(self):
        weights = self.m.tensor([1.0, 2.0, 3.0, 4.0], dtype=self.dtype)
        draw = self.back(self.m.multinomial(weights, COUNT, replacement=True))
        yield moments(draw.double(), 2.0, 1.0, 0, 3)
        few = self.back(self.m.multinomial(weights, 4))
        yield None if sorted(few.tolist()) == [0, 1, 2, 3] else f"not a permutation: {few.tolist()}"

    def dropout(self):
        functional = self.m.nn.functional
        for p in (0.2, 0.5):
            given, x = self.ramp(COUNT)
            yield dropped(self.back(functional.dropout(x, p)), given, p)
        given, x = self.ramp(100)
        yield None if torch.equal(self.back(functional.dropout(x, 0.5, training=False)), given) else "not the input"
        yield None if not self.back(functional.dropout(x, 1.0)).any() else "p = 1 leaves values"
        x.requires_grad_(True)
        y = functional.dropout(x, 0.5)
        y.sum().backward()
        mask = (self.back(y) != 0).double() * 2
        yield None if torch.equal(self.back(x.grad).double(), mask) else "the gradient is not the mask"

    def dropout2d(self):
        given, x = self.ramp(100, 40, 2, 3)
        yield grouped(self.back(self.m.nn.functional.dropout2d(x, 0.25)), given, 0.25, 2)

    def dropout3d(self):
        given, x = self.ramp(100, 40, 2, 3, 2)
        yield grouped(self.back(self.m.nn.functional.dropout3d(x, 0.25)), given, 0.25, 3)

    def alpha_dropout(self):
        x = self.m.randn(COUNT, dtype=self.dtype)
        yield moments(self.back(self.m.nn.functional.alpha_dropout(x, 0.3, training=True)), 0, 1)

    def rrelu(self):
        x = self.m.full((COUNT,), -1.0, dtype=self.dtype)
        draw = self.back(self.m.nn.functional.rrelu(x, 0.1, 0.3, training=True))
        yield moments(-draw, 0.2, 0.04 / 12, 0.1, 0.3)


def distribution(module, name, variant, dtype):
    """[None or a reason] for each draw of an op; none for names that are not random."""
    short = name.rsplit(".", maxsplit=1)[-1]
    draws = Draws(module, dtype)
    make = getattr(draws, short, None) if name in names.RANDOM and variant in ("", "in_place") else None
    if make is None:
        return []
    module.manual_seed(1234)
    try:
        return list(make())
    except Exception as error:  # pylint: disable=broad-exception-caught
        return [f"raised {type(error).__name__}: {error}"]
