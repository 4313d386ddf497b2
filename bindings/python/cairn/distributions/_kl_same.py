"""Divergences between two distributions of one family."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn.nn.functional import softplus

from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .half_normal import HalfNormal
from .independent import Independent
from .kl import kl_divergence, register_kl
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, lowrank_log_det, lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, batch_mahalanobis, half_log_det
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import sum_rightmost

if TYPE_CHECKING:
    from cairn import Tensor


def _weighted(weight: Tensor, difference: Tensor, other: Tensor) -> Tensor:
    """weight * difference, a term of a divergence: inf where the other gives no weight, and 0 where there is none."""
    term = (weight * difference).masked_fill(other == 0, cn.inf)
    return term.masked_fill(weight == 0, 0.0)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    ones = _weighted(p.probs, softplus(-q.logits) - softplus(-p.logits), q.probs)
    return ones + _weighted(1 - p.probs, softplus(q.logits) - softplus(p.logits), 1 - q.probs)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("kl_divergence of a Binomial from one with a larger total_count")
    each = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return (p.total_count * each).masked_fill(p.total_count > q.total_count, cn.inf)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    return _weighted(p.probs, p.logits - q.logits, q.probs).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    return (p.mean * (p.logits - q.logits) + p._cont_bern_log_norm() + (-p.probs).log1p()
            - q._cont_bern_log_norm() - (-q.probs).log1p())


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1, True)
    normalisers = total.squeeze(-1).lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return normalisers + ((a - b) * (a.digamma() - total.digamma())).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma()
            + (q.rate - p.rate) * (a / p.rate))


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    return (q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1).masked_fill(p.scale < q.scale, cn.inf)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    return ((q.high - q.low) / (p.high - p.low)).log().masked_fill((q.low > p.low) | (q.high < p.high), cn.inf)


def _trace_of_ratio(lower: Tensor, factor: Tensor) -> Tensor:
    """tr((L L^T)^-1 F F^T)"""
    return cn.linalg.solve_triangular(lower, factor, upper=False).pow(2).sum((-2, -1))


def _same_event(p: MultivariateNormal | LowRankMultivariateNormal,
                q: MultivariateNormal | LowRankMultivariateNormal) -> int:
    if p.event_shape != q.event_shape:
        raise ValueError("kl_divergence of normal vectors with different event_shapes, %s and %s"
                         % (p.event_shape, q.event_shape))
    return p.event_shape[0]


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = _same_event(p, q)
    lower, factor = q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril
    return (half_log_det(lower) - half_log_det(factor)
            + 0.5 * (_trace_of_ratio(lower, factor) + batch_mahalanobis(lower, q.loc - p.loc) - n))


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _lowrank_from_full(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = _same_event(p, q)
    lower = q._unbroadcasted_scale_tril
    log_det = 2 * half_log_det(lower) - lowrank_log_det(p._unbroadcasted_cov_diag, p._capacitance_tril)
    trace = (_trace_of_ratio(lower, p._unbroadcasted_cov_factor)
             + _trace_of_ratio(lower, p._unbroadcasted_cov_diag.sqrt().diag_embed()))
    return 0.5 * (log_det + trace + batch_mahalanobis(lower, q.loc - p.loc) - n)


def _lowrank_terms(q: LowRankMultivariateNormal, loc: Tensor, log_det: Tensor, n: int) -> Tensor:
    """What does not need the trace: of a q of low rank and a p of mean loc and log determinant log_det."""
    square = lowrank_mahalanobis(q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, q.loc - loc,
                                 q._capacitance_tril)
    return lowrank_log_det(q._unbroadcasted_cov_diag, q._capacitance_tril) - log_det + square - n


def _small(q: LowRankMultivariateNormal, factor: Tensor) -> Tensor:
    """tr of what Woodbury's identity takes from D^-1, times F F^T."""
    scaled = q._unbroadcasted_cov_factor.mT / q._unbroadcasted_cov_diag.unsqueeze(-2)
    return _trace_of_ratio(q._capacitance_tril, scaled @ factor)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _lowrank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    n = _same_event(p, q)
    diagonal, inverse = p._unbroadcasted_cov_diag, q._unbroadcasted_cov_diag.reciprocal()
    trace = ((diagonal * inverse).sum(-1)
             + (p._unbroadcasted_cov_factor.pow(2) * inverse.unsqueeze(-1)).sum((-2, -1))
             - _small(q, diagonal.sqrt().diag_embed()) - _small(q, p._unbroadcasted_cov_factor))
    return 0.5 * (_lowrank_terms(q, p.loc, lowrank_log_det(diagonal, p._capacitance_tril), n) + trace)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_from_lowrank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    n = _same_event(p, q)
    factor, inverse = p._unbroadcasted_scale_tril, q._unbroadcasted_cov_diag.reciprocal()
    trace = (factor.pow(2) * inverse.unsqueeze(-1)).sum((-2, -1)) - _small(q, factor)
    return 0.5 * (_lowrank_terms(q, p.loc, 2 * half_log_det(factor), n) + trace)


@register_kl(Independent, Independent)
def _independent(p: Independent[Normal], q: Independent[Normal]) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of Independents with different reinterpreted_batch_ndims")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """That of the bases, if the transforms are the same."""
    if list(p.transforms) != list(q.transforms) or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence of TransformedDistributions with different transforms or events")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """F(theta_q) - F(theta_p) - <theta_q - theta_p, F'(theta_p)>: the Bregman divergence of F."""
    if type(p) is not type(q):
        raise NotImplementedError("no divergence of %s from %s is registered" % (type(p).__name__, type(q).__name__))
    theta, log_normalizer, gradients = p._log_normalizer_and_gradients()
    result = q._log_normalizer(*q._natural_params) - log_normalizer
    for mine, other, gradient in zip(theta, q._natural_params, gradients):
        term = (other - mine) * gradient
        result = result - sum_rightmost(term, term.dim() - result.dim())
    return result
