"""Draws that need more than one op: gamma (with the gradient by its shape), binomial and the angles of von Mises.

All are rejections over whole tensors: what is refused is drawn again until nothing is left. Numbers are made in
float64, where the tails are; the callers bring them back to their own type.
"""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Callable

import cairn as cn
from cairn.autograd.function import Function, once_differentiable

if TYPE_CHECKING:
    from cairn import Tensor

    # of parameters for the places still open: candidates, and whether each may stay
    Proposal = Callable[..., tuple[Tensor, Tensor]]

__all__ = ["binomial", "standard_gamma", "standard_log_gamma", "von_mises"]


def _until_accepted(propose: Proposal, *parameters: Tensor) -> Tensor:
    """One accepted candidate for each place of the parameters, which have one shape."""
    shape = parameters[0].shape
    parameters = tuple(p.reshape(-1) for p in parameters)
    result, accepted = propose(*parameters)
    places = accepted.logical_not().nonzero().squeeze(1)
    while places.numel():
        candidates, accepted = propose(*(p[places] for p in parameters))
        result = result.index_copy(0, places, cn.where(accepted, candidates, result[places]))
        places = places[accepted.logical_not()]
    return result.reshape(shape)


def _uniform(like: Tensor) -> Tensor:
    return cn.rand(like.shape, dtype=like.dtype, device=like.device)


def _gamma_proposal(shape: Tensor) -> tuple[Tensor, Tensor]:
    """Marsaglia and Tsang's squeeze for a shape of 1 or more: the cube of a normal, refused once in twenty or less."""
    d = shape - 1 / 3
    x = cn.randn(shape.shape, dtype=shape.dtype, device=shape.device)
    v = (1 + x / (9 * d).sqrt()) ** 3
    kept = v.clamp(min=1e-300)
    accepted = (v > 0) & (_uniform(shape).log() < 0.5 * x * x + d - d * kept + d * kept.log())
    return d * kept, accepted | shape.isnan()


def _draw_log_gamma(shape: Tensor) -> Tensor:
    """Logarithms of gamma draws of rate 1. A shape below 1 goes by the one above it: g(a) = g(a + 1) u^(1 / a), and
    the logarithm holds it where the number itself would vanish."""
    small = shape < 1
    log = _until_accepted(_gamma_proposal, cn.where(small, shape + 1, shape)).log()
    return cn.where(small, log - cn.empty_like(shape).exponential_() / shape, log)


def _log_gamma_slope(shape: Tensor, log: Tensor) -> Tensor:
    """How the logarithm of a gamma draw follows its shape when its place in the distribution, P(shape, x), stays:
    -dP/dshape / (x p(x)). The derivative of P is a difference of fourth order, of Q in the upper half, so that it keeps
    its relative accuracy in both tails; near 0, P is x^a / Gamma(a + 1)."""
    x = log.exp()
    h = 0.003 * cn.minimum(shape, shape.sqrt())
    upper = x > shape

    def below(a: Tensor) -> Tensor:
        return cn.where(upper, -cn.special.gammaincc(a, x), cn.special.gammainc(a, x))

    rise = (8 * (below(shape + h) - below(shape - h)) - (below(shape + 2 * h) - below(shape - 2 * h))) / (12 * h)
    slope = -rise / (shape * log - x - shape.lgamma()).exp()
    return cn.where(x < 1e-7, ((shape + 1).digamma() - log) / shape, slope)


class _StandardGamma(Function):
    """Gamma draws of rate 1, or their logarithms, as a function of the shape."""

    @staticmethod
    def forward(ctx: Any, concentration: Tensor, logarithm: bool) -> Tensor:
        shape = concentration.to(cn.float64)
        log = _draw_log_gamma(shape)
        ctx.logarithm = logarithm
        ctx.save_for_backward(shape, log)
        return (log if logarithm else log.exp()).to(concentration.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        shape, log = ctx.saved_tensors
        slope = _log_gamma_slope(shape, log)
        return grad * (slope if ctx.logarithm else slope * log.exp()).to(grad.dtype), None


def standard_gamma(concentration: Tensor) -> Tensor:
    """Gamma draws of rate 1, one for each concentration, differentiable by it."""
    return _StandardGamma.apply(concentration, False)


def standard_log_gamma(concentration: Tensor) -> Tensor:
    """Logarithms of gamma draws of rate 1, differentiable by the concentration."""
    return _StandardGamma.apply(concentration, True)


def _log_factorial(n: Tensor) -> Tensor:
    return (n + 1).lgamma()


def _many_proposal(n: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """Hoermann's transformed rejection (BTRS) for n p of 10 or more and p of at most a half."""
    spread = (n * p * (1 - p)).sqrt()
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    u, v = _uniform(n) - 0.5, _uniform(n)
    us = 0.5 - u.abs()
    k = ((2 * a / us + b) * u + n * p + 0.5).floor()
    inside = (k >= 0) & (k <= n)
    kept = k.clamp(min=0).minimum(n)
    top = ((n + 1) * p).floor()
    height = (_log_factorial(top) + _log_factorial(n - top) - _log_factorial(kept) - _log_factorial(n - kept)
              + (kept - top) * (p / (1 - p)).log())
    cheap = (us >= 0.07) & (v <= 0.92 - 4.2 / b)
    return kept, inside & (cheap | ((v * (2.83 + 5.1 / b) * spread / (a / (us * us) + b)).log() <= height))


def _few(n: Tensor, p: Tensor) -> Tensor:
    """Binomial draws for a small n p: as many as the geometric gaps between successes that fit into n."""
    log_failure = (-p).log1p()
    count, at = cn.zeros_like(n), cn.zeros_like(n)
    while True:
        gap = (-cn.empty_like(n).exponential_() / log_failure).ceil().clamp(min=1)
        at = at + cn.where(p > 0, gap, cn.inf)
        fits = at <= n
        if not bool(fits.any()):
            return count
        count = count + fits.to(count.dtype)


def binomial(count: Tensor, probs: Tensor) -> Tensor:
    """Successes among `count` trials of probability `probs`; both have the shape of the result."""
    n, p = count.to(cn.float64), probs.to(cn.float64)
    rare = cn.minimum(p, 1 - p)
    many = n * rare >= 10
    result = cn.where(many, 0.0, _few(cn.where(many, 0.0, n), rare))
    if bool(many.any()):
        result = result.masked_scatter(many, _until_accepted(_many_proposal, n[many], rare[many]))
    return cn.where(p > 0.5, n - result, result).to(probs.dtype)


def _angle_proposal(concentration: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
    """Best and Fisher's: an angle from a wrapped Cauchy around 0, against von Mises."""
    u1, u2, u3 = _uniform(r), _uniform(r), _uniform(r)
    z = (math.pi * u1).cos()
    f = ((1 + r * z) / (r + z)).clamp(min=-1, max=1)
    c = concentration * (r - f)
    accepted = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
    return (u3 - 0.5).sign() * f.acos(), accepted | concentration.isnan()


def von_mises(concentration: Tensor) -> Tensor:
    """Angles around 0, float64; concentration is float64 and has the shape of the result."""
    tau = 1 + (1 + 4 * concentration ** 2).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * concentration)
    r = (1 + rho ** 2) / (2 * rho)
    r = cn.where(concentration < 1e-5, 1 / concentration + concentration, r)  # where the differences above vanish
    return _until_accepted(_angle_proposal, concentration, r)
