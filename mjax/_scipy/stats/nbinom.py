"""The negative binomial distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, where
from mjax._scipy.special.beta import log_beta
from mjax._scipy.special.entropy import times_log, times_log1p
from mjax._scipy.stats.arguments import described

_DOC = described(
    "nbinom", "of probabilities `comb(k + n - 1, n - 1) * p**n * (1 - p)**k`",
    "Below 0 probabilities are 0.",
    k="k: array or scalar, the number of successes; ints and booleans become the default float.",
    n="n: array or scalar, the number of successes to wait for.",
    p="p: array or scalar, the probability of success.",
    loc="loc: array or scalar, the location, which is added to the variable.")


@fused
@documented(**_DOC)
def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithms of the probabilities of the negative binomial distribution.

    Args:
      [k]
      [n]
      [p]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.nbinom.logpmf(2, 3, 0.25):.4f}")
      -2.9425
    """
    k, n, p, loc = settled_arguments("nbinom.logpmf", k, n, p, loc)
    y = k - loc
    below = k < loc
    y = where(below, 0, y)
    ways = -(lax.log(y + n) + log_beta(n, y + 1))
    return where(below, -math.inf, ways + (times_log(n, p) + times_log1p(y, -p)))


@fused
@documented(**_DOC)
def pmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Any:
    """Probabilities of the negative binomial distribution.

    Args:
      [k]
      [n]
      [p]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.nbinom.pmf(2, 3, 0.25):.4f}")
      0.0527
    """
    return lax.exp(logpmf(*settled_arguments("nbinom.pmf", k, n, p, loc)))
