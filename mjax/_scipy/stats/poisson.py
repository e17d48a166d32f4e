"""The Poisson distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mjax._engine.base.docs import documented
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._engine.primitives.shapes import expand_dims
from mjax._numpy.core import broadcast_values
from mjax._numpy.fused import fused
from mjax._numpy.reductions import sum
from mjax._scipy.special.arguments import inexact_arguments, settled_arguments, where
from mjax._scipy.special.entropy import times_log
from mjax._scipy.stats.arguments import described

_DOC = described(
    "poisson", "of probabilities `exp(-mu) * mu**k / k!`",
    "The probability is 0 unless `k - loc` is a non-negative integer.",
    k="k: array or scalar, the number of events; ints and booleans become the default float.",
    mu="mu: array or scalar, the mean.",
    loc="loc: array or scalar, the location, which is added to the variable.")


#: `_TERMS` terms give the entropy to the last digit for means up to `_MANY`.
_TERMS, _MANY = 250, 100


def _log_probability(k: Any, mu: Any, loc: Any) -> Any:
    y = k - loc
    part = lax.round(k, lax.RoundingMethod.TO_NEAREST_EVEN) != k
    out = times_log(y, mu) - prims.lgamma(y + 1) - mu
    return where((y < 0) | part, -math.inf, out)


def _sum_of_entropies(mu: Any) -> Any:
    mu = where(mu < _MANY, mu, 1)
    k = np.arange(_TERMS).astype(typeof(mu).dtype).reshape((_TERMS,) + (1,) * typeof(mu).ndim)
    log = _log_probability(k, expand_dims(mu, (0,)), np.zeros((), typeof(mu).dtype))
    # Impossible counts contribute 0, not 0 * -inf.
    terms = where(log == -math.inf, 0, lax.exp(log) * log)
    return -sum(terms, 0)


def _of_many(mu: Any) -> Any:
    """The asymptotic expansion for large means.

    Source: Evans, Boersma, Blachman, Jagers 1988, "The entropy of a Poisson distribution", SIAM
    Review problem 87-6.
    """
    inverse = 1 / where(mu < _MANY, 1, mu)
    rest = inverse * (1 / 12 + inverse * (1 / 24 + inverse * (19 / 360)))
    return 0.5 * lax.log(2 * math.pi * math.e * mu) - rest


@fused
@documented(**_DOC)
def logpmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Logarithms of the probabilities of the Poisson distribution.

    Args:
      [k]
      [mu]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.poisson.logpmf(2, 2.0):.4f}")
      -1.3069
    """
    return _log_probability(*inexact_arguments("poisson.logpmf", k, mu, loc))


@fused
@documented(**_DOC)
def pmf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Probabilities of the Poisson distribution.

    Args:
      [k]
      [mu]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.poisson.pmf(2, 2.0):.4f}")
      0.2707
    """
    return lax.exp(_log_probability(*inexact_arguments("poisson.pmf", k, mu, loc)))


@fused
@documented(**_DOC)
def cdf(k: Any, mu: Any, loc: Any = 0) -> Any:
    """Distribution function of the Poisson distribution.

    Args:
      [k]
      [mu]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.poisson.cdf(2, 2.0):.4f}")
      0.6767
    """
    k, mu, loc = settled_arguments("poisson.cdf", k, mu, loc)
    y = k - loc
    return where(y < 0, 0, prims.igammac(lax.floor(1 + where(y < 0, 0, y)), mu))


@fused
@documented(**_DOC)
def entropy(mu: Any, loc: Any = 0) -> Any:
    """Entropy of the Poisson distribution, in nats.

    Args:
      [mu]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.poisson.entropy(2.0):.4f}")
      1.7049
    """
    mu, loc = inexact_arguments("poisson.entropy", mu, loc)
    mu, _ = broadcast_values("poisson.entropy", mu, loc)
    return where(mu == 0, 0, where(mu < _MANY, _sum_of_entropies(mu), _of_many(mu)))
