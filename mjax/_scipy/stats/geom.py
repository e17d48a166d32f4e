"""The geometric distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, where
from mjax._scipy.special.entropy import times_log1p
from mjax._scipy.stats.arguments import described

_DOC = described(
    "geom", "of probabilities `(1 - p)**(k - 1) * p`",
    "Below 1 probabilities are 0.",
    k="k: array or scalar, the number of successes; ints and booleans become the default float.",
    p="p: array or scalar, the probability of success.",
    loc="loc: array or scalar, the location, which is added to the variable.")


@fused
@documented(**_DOC)
def logpmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Logarithms of the probabilities of the geometric distribution.

    Args:
      [k]
      [p]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.geom.logpmf(2, 0.25):.4f}")
      -1.6740
    """
    k, p, loc = settled_arguments("geom.logpmf", k, p, loc, ordered=True)
    y = k - loc
    return where(y <= 0, -math.inf, times_log1p(y - 1, -p) + lax.log(p))


@fused
@documented(**_DOC)
def pmf(k: Any, p: Any, loc: Any = 0) -> Any:
    """Probabilities of the geometric distribution.

    Args:
      [k]
      [p]
      [loc]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.geom.pmf(2, 0.25):.4f}")
      0.1875
    """
    return lax.exp(logpmf(*settled_arguments("geom.pmf", k, p, loc, ordered=True)))
