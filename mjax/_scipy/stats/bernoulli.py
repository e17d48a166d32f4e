"""The Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.comparison import isnan
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, where
from mjax._scipy.special.entropy import times_log, times_log1p
from mjax._scipy.stats.arguments import described

_DOC = described(
    "bernoulli", "of probabilities `1 - p` and `p` of 0 and 1",
    "The probability is 0 outside the support. NaN unless `p` or `q` is in [0, 1].",
    k="k: array or scalar, the number of successes; ints and booleans become the default float.",
    q="q: array or scalar, probabilities; ints and booleans become the default float.",
    p="p: array or scalar, the probability of success.",
    loc="loc: array or scalar, the location, which is added to the variable.")


@fused
@documented(**_DOC)
def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithms of the probabilities of the Bernoulli distribution.

    Args:
      [k]
      [p]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.bernoulli.logpmf(1, 0.25):.4f}")
      -1.3863
    """
    k, p, loc = settled_arguments("bernoulli.logpmf", k, p, loc, ordered=True)
    y = k - loc
    return where((y < 0) | (y > 1), -math.inf, times_log(y, p) + times_log1p(1 - y, -p))


@fused
@documented(**_DOC)
def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Probabilities of the Bernoulli distribution.

    Args:
      [k]
      [p]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.bernoulli.pmf(1, 0.25):.4f}")
      0.2500
    """
    return lax.exp(logpmf(*settled_arguments("bernoulli.pmf", k, p, loc, ordered=True)))


@fused
@documented(**_DOC)
def cdf(k: Any, p: Any) -> Any:
    """Distribution function of the Bernoulli distribution.

    Args:
      [k]
      [p]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.bernoulli.cdf(0, 0.25):.4f}")
      0.7500
    """
    k, p = settled_arguments("bernoulli.cdf", k, p, ordered=True)
    bad = isnan(k) | isnan(p) | (p < 0) | (p > 1)
    return where(bad, math.nan, where(k < 0, 0, where(k < 1, 1 - p, 1)))


@fused
@documented(**_DOC)
def ppf(q: Any, p: Any) -> Any:
    """Quantiles of the Bernoulli distribution: the inverse of `cdf`.

    Args:
      [q]
      [p]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.bernoulli.ppf(0.9, 0.25):.4f}")
      1.0000
    """
    q, p = settled_arguments("bernoulli.ppf", q, p, ordered=True)
    bad = ~((p >= 0) & (p <= 1) & (q >= 0) & (q <= 1))
    return where(bad, math.nan, where(q <= 1 - p, 0 * q, 1))
