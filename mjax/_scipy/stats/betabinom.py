"""The beta-binomial distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, where
from mjax._scipy.special.beta import log_beta
from mjax._scipy.stats.arguments import described

_DOC = described(
    "betabinom", "of probabilities `comb(n, k) * beta(k + a, n - k + b) / beta(a, b)`",
    "The probability is 0 outside the support. NaN for parameters out of range.",
    k="k: array or scalar, the number of successes; ints and booleans become the default float.",
    n="n: array or scalar, the number of trials.",
    a="a: array or scalar, the first shape parameter.",
    b="b: array or scalar, the second one.",
    loc="loc: array or scalar, the location, which is added to the variable.")


@fused
@documented(**_DOC)
def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """Logarithms of the probabilities of the beta-binomial distribution.

    Args:
      [k]
      [n]
      [a]
      [b]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.betabinom.logpmf(2, 5, 2.0, 3.0):.4f}")
      -1.4351
    """
    k, n, a, b, loc = settled_arguments("betabinom.logpmf", k, n, a, b, loc, settling=(0, 4))
    y = lax.floor(k) - loc
    ways = -(lax.log1p(n) + log_beta(n - y + 1, y + 1))
    out = ways + (log_beta(y + a, n - y + b) - log_beta(a, b))
    out = where((y == 0) & (n == 0), 0, out)
    out = where((y < 0) | (y > n), -math.inf, out)
    return where((n < 0) | (a <= 0) | (b <= 0), math.nan, out)


@fused
@documented(**_DOC)
def pmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Any:
    """Probabilities of the beta-binomial distribution.

    Args:
      [k]
      [n]
      [a]
      [b]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.betabinom.pmf(2, 5, 2.0, 3.0):.4f}")
      0.2381
    """
    return lax.exp(logpmf(*settled_arguments("betabinom.pmf", k, n, a, b, loc, settling=(0, 4))))
