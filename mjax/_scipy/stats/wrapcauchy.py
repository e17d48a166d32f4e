"""The wrapped Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.trigonometric import sin
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, where
from mjax._scipy.stats.arguments import described

_DOC = described(
    "wrapcauchy", "of density `(1 - c**2) / (2 * pi * (1 + c**2 - 2 * c * cos(x)))`",
    "The density is 0 outside [0, 2 pi]. NaN unless `c` is in (0, 1).",
    x="x: array or scalar, points; ints and booleans become the default float.",
    c="c: array or scalar, the concentration, between 0 and 1.")


@fused
@documented(**_DOC)
def logpdf(x: Any, c: Any) -> Any:
    """Logarithm of the density of the wrapped Cauchy distribution.

    Args:
      [x]
      [c]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.wrapcauchy.logpdf(1.0, 0.5):.4f}")
      -1.7826
    """
    x, c = inexact_arguments("wrapcauchy.logpdf", x, c, ordered=True)
    # The terms of 1 + c**2 - 2 c cos(x) cancel where c is close to 1 and x to 0.
    rest = 1 - c
    around = rest * rest + 4 * c * lax.square(sin(x * 0.5))
    out = lax.log(rest * (1 + c)) - math.log(2 * math.pi) - lax.log(around)
    out = where((x >= 0) & (x <= 2 * math.pi), out, -math.inf)
    return where((c > 0) & (c < 1), out, math.nan)


@fused
@documented(**_DOC)
def pdf(x: Any, c: Any) -> Any:
    """Density of the wrapped Cauchy distribution.

    Args:
      [x]
      [c]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.wrapcauchy.pdf(1.0, 0.5):.4f}")
      0.1682
    """
    return lax.exp(logpdf(*inexact_arguments("wrapcauchy.pdf", x, c, ordered=True)))
