"""Divergences between distributions of different families: -H(p) - E[log q(x)], with the mean over p of log q by what
p knows of its mean, variance, mean logarithm and mean exp(-x / s).
"""
from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Union

import cairn as cn

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .distribution import Distribution
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import Gumbel
from .kl import register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform
from .utils import euler_constant

if TYPE_CHECKING:
    from cairn import Tensor

    Positive = Union[Beta, Exponential, Pareto, Uniform]


@functools.singledispatch
def mean_log(p: Distribution) -> Tensor:
    """The mean of log(x)."""
    raise NotImplementedError


@mean_log.register(Beta)
def _(p: Beta) -> Tensor:
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


@mean_log.register(Exponential)
def _(p: Exponential) -> Tensor:
    return -euler_constant - p.rate.log()


@mean_log.register(Pareto)
def _(p: Pareto) -> Tensor:
    return p.scale.log() + p.alpha.reciprocal()


@mean_log.register(Uniform)
def _(p: Uniform) -> Tensor:
    return _uniform_mean_log(p.low, p.high)


def _uniform_mean_log(low: Tensor, high: Tensor) -> Tensor:
    return (cn.xlogy(high, high) - cn.xlogy(low, low)) / (high - low) - 1


@functools.singledispatch
def mean_exp(p: Distribution, s: Tensor) -> Tensor:
    """The mean of exp(-x / s)."""
    raise NotImplementedError


@mean_exp.register(Exponential)
def _(p: Exponential, s: Tensor) -> Tensor:
    return p.rate * s / (p.rate * s + 1)


@mean_exp.register(Gamma)
def _(p: Gamma, s: Tensor) -> Tensor:
    return (1 + (p.rate * s).reciprocal()).pow(-p.concentration)


@mean_exp.register(Normal)
def _(p: Normal, s: Tensor) -> Tensor:
    return (-p.loc / s + 0.5 * (p.scale / s).pow(2)).exp()


@mean_exp.register(Uniform)
def _(p: Uniform, s: Tensor) -> Tensor:
    return ((-p.low / s).exp() - (-p.high / s).exp()) * s / (p.high - p.low)


@mean_exp.register(Gumbel)
def _(p: Gumbel, s: Tensor) -> Tensor:
    return (-p.loc / s + (1 + p.scale / s).lgamma()).exp()


def to_normal(p: Distribution, q: Normal) -> Tensor:
    """By the mean and the variance."""
    square = p.variance + (p.mean - q.loc).pow(2)
    return 0.5 * math.log(2 * math.pi) + q.scale.log() + 0.5 * square / q.scale.pow(2) - p.entropy()


def to_exponential(p: Distribution, q: Exponential) -> Tensor:
    """By the mean; inf where p reaches below 0."""
    result = q.rate * p.mean - q.rate.log() - p.entropy()
    return result.masked_fill(p.low < 0, cn.inf) if isinstance(p, Uniform) else result


def to_gamma(p: Positive, q: Gamma) -> Tensor:
    """By the mean and the mean logarithm; inf where p reaches below 0."""
    a = q.concentration
    result = a.lgamma() - a * q.rate.log() - (a - 1) * mean_log(p) + q.rate * p.mean - p.entropy()
    return result.masked_fill(p.low < 0, cn.inf) if isinstance(p, Uniform) else result


def to_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    """By the mean and the mean exponential."""
    return (q.scale.log() + (p.mean - q.loc) / q.scale + (q.loc / q.scale).exp() * mean_exp(p, q.scale)
            - p.entropy())


def unit_to_uniform(p: Distribution, q: Uniform) -> Tensor:
    """Of a p between 0 and 1; inf where q does not reach as far."""
    return ((q.high - q.low).log() - p.entropy()).masked_fill((q.low > 0) | (q.high < 1), cn.inf)


def to_continuous_bernoulli(p: Beta | Uniform, q: ContinuousBernoulli) -> Tensor:
    """By the mean; inf where p reaches out of 0 to 1."""
    result = -p.mean * q.logits - (-q.probs).log1p() - q._cont_bern_log_norm() - p.entropy()
    return result.masked_fill((p.low < 0) | (p.high > 1), cn.inf) if isinstance(p, Uniform) else result


def infinite(p: Distribution, q: Distribution) -> Tensor:
    """p has mass where q has none."""
    like = p.mean
    return like.new_full(cn.broadcast_shapes(tuple(p.batch_shape), tuple(q.batch_shape)), cn.inf)


_p: type[Distribution]
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):
    register_kl(_p, Normal)(to_normal)
for _p in (Beta, ContinuousBernoulli, Gamma, Pareto, Uniform):
    register_kl(_p, Exponential)(to_exponential)
for _p in (Beta, Exponential, Pareto, Uniform):
    register_kl(_p, Gamma)(to_gamma)
for _p in (Exponential, Gamma, Gumbel, Normal, Uniform):
    register_kl(_p, Gumbel)(to_gumbel)
for _p in (Beta, ContinuousBernoulli):
    register_kl(_p, Uniform)(unit_to_uniform)
for _p in (Beta, Uniform):
    register_kl(_p, ContinuousBernoulli)(to_continuous_bernoulli)

# From a distribution without bounds, or with other ones, to one within bounds.
for _p, _qs in {Beta: (Pareto,), ContinuousBernoulli: (Pareto,),
                Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
                Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
                Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
                Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
                Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
                Pareto: (Beta, ContinuousBernoulli, Uniform),
                Poisson: (Bernoulli, Binomial)}.items():
    for _q in _qs:
        register_kl(_p, _q)(infinite)


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return q.rate - p.probs * q.rate.log() - p.entropy()


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    """By the mean distance from q.loc, which is that of a folded normal number."""
    z = (p.loc - q.loc) / p.scale
    away = p.scale * (math.sqrt(2 / math.pi) * (-0.5 * z.pow(2)).exp() + z * (z / math.sqrt(2)).erf())
    return (2 * q.scale).log() + away / q.scale - p.entropy()


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    mean_log_rest = _uniform_mean_log(1 - p.high, 1 - p.low)
    result = (a.lgamma() + b.lgamma() - (a + b).lgamma() - (a - 1) * mean_log(p) - (b - 1) * mean_log_rest
              - p.entropy())
    return result.masked_fill((p.low < 0) | (p.high > 1), cn.inf)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    result = (q.alpha + 1) * mean_log(p) - q.alpha * q.scale.log() - q.alpha.log() - p.entropy()
    return result.masked_fill(p.low < q.scale, cn.inf)
