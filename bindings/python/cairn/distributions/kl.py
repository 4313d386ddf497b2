"""kl_divergence and the register of the pairs it knows: _kl_same.py has those of one family, _kl_across.py the others.

A pair is found by the classes of both distributions, the nearest ancestors first.
"""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from .distribution import Distribution

if TYPE_CHECKING:
    from cairn import Tensor

__all__ = ["kl_divergence", "register_kl"]

F = TypeVar("F", bound=Callable[..., Any])
_registry: dict[tuple[type[Distribution], type[Distribution]], Callable[[Any, Any], Tensor]] = {}
_KL_REGISTRY = _registry  # torch's name of it
_found: dict[tuple[type[Distribution], type[Distribution]], Callable[[Any, Any], Tensor] | None] = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[F], F]:
    """A decorator: the function computes the divergence of a type_p from a type_q, and of their subclasses."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):  # packages register classes of their own, which are like Distribution
            raise TypeError("expected a class of Distribution, not %r" % (kind,))

    def decorate(function: F) -> F:
        _registry[type_p, type_q] = function
        _found.clear()
        return function

    return decorate


def _find(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[Any, Any], Tensor] | None:
    """The function for the nearest ancestors; when p's nearest and q's nearest disagree, p's, with a warning."""
    ancestors_p, ancestors_q = type_p.__mro__, type_q.__mro__
    ranks = [(ancestors_p.index(p), ancestors_q.index(q)) for p, q in _registry
             if p in ancestors_p and q in ancestors_q]
    if not ranks:
        return None
    by_p, by_q = min(ranks), min(ranks, key=lambda rank: rank[::-1])
    pairs: list[Any] = [(ancestors_p[i], ancestors_q[j]) for i, j in (by_p, by_q)]
    if _registry[pairs[0]] is not _registry[pairs[1]]:
        warnings.warn("kl_divergence(%s, %s) is ambiguous; register_kl(%s, %s) would decide it"
                      % (type_p.__name__, type_q.__name__, pairs[0][0].__name__, pairs[1][1].__name__),
                      RuntimeWarning, stacklevel=3)
    return _registry[pairs[0]]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The mean, over draws from p, of log p(x) - log q(x): one number for each of the batch. NotImplementedError for a
    pair that no formula is registered for."""
    pair = type(p), type(q)
    if pair not in _found:
        _found[pair] = _find(*pair)
    function = _found[pair]
    if function is None:
        raise NotImplementedError("no divergence of %s from %s is registered" % (pair[0].__name__, pair[1].__name__))
    return function(p, q)


from . import _kl_across as _kl_across, _kl_same as _kl_same  # noqa: E402  (they fill the register)
