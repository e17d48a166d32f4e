"""The binomial distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, where
from mjax._scipy.special.beta import log_beta
from mjax._scipy.special.entropy import times_log, times_log1p
from mjax._scipy.stats.arguments import described

_DOC = described(
    "binom", "of probabilities `comb(n, k) * p**k * (1 - p)**(n - k)`",
    "The probability is 0 outside the support.",
    k="k: array or scalar, the number of successes; ints and booleans become the default float.",
    n="n: array or scalar, the number of trials.",
    p="p: array or scalar, the probability of success.",
    loc="loc: array or scalar, the location, which is added to the variable.")


@fused
@documented(**_DOC)
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithms of the probabilities of the binomial distribution.

    Args:
      [k]
      [n]
      [p]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.binom.logpmf(2, 5, 0.25):.4f}")
      -1.3330
    """
    k, n, p, loc = inexact_arguments("binom.logpmf", k, n, p, loc)
    possible = (k >= loc) & (k < loc + n + 1)
    y = where(possible, k - loc, 0)
    ways = -(lax.log1p(n) + log_beta(n - y + 1, y + 1))
    powers = times_log(y, p) + times_log1p(n - y, -p)
    # A certain event has no rounding errors.
    out = where(((y == 0) & (n == 0)) | (powers == 0), 0, ways + powers)
    return where(possible, out, -math.inf)


@fused
@documented(**_DOC)
def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Probabilities of the binomial distribution.

    Args:
      [k]
      [n]
      [p]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.binom.pmf(2, 5, 0.25):.4f}")
      0.2637
    """
    return lax.exp(logpmf(*inexact_arguments("binom.pmf", k, n, p, loc)))
