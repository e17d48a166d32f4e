"""The gamma distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, settled_arguments, where
from mjax._scipy.special.entropy import times_log
from mjax._scipy.stats.arguments import described

_DOC = described(
    "gamma", "of density `y**(a - 1) * exp(-y) / gamma(a) / scale`",
    "The density is 0 outside the support.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    a="a: array or scalar, the shape parameter.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


def _above(x: Any, loc: Any, scale: Any) -> Any:
    """Standardized points, clamped to the support.

    The clamped values are constants: the incomplete gamma function may lack a slope at 0.
    """
    y = (x - loc) / scale
    return where(y <= 0, 0, where(y == math.inf, math.inf, y))


@fused
@documented(**_DOC)
def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the gamma distribution.

    Args:
      [x]
      [a]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gamma.logpdf(1.0, 2.0):.4f}")
      -1.0000
    """
    x, a, loc, scale = settled_arguments("gamma.logpdf", x, a, loc, scale)
    inside = x >= loc
    y = where(inside, (x - loc) / scale, 1)
    out = times_log(a - 1, y) - y - (prims.lgamma(a) + lax.log(scale))
    return where(inside, out, -math.inf)


@fused
@documented(**_DOC)
def pdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the gamma distribution.

    Args:
      [x]
      [a]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gamma.pdf(1.0, 2.0):.4f}")
      0.3679
    """
    return lax.exp(logpdf(*settled_arguments("gamma.pdf", x, a, loc, scale)))


@fused
@documented(**_DOC)
def logcdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the gamma distribution.

    Args:
      [x]
      [a]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gamma.logcdf(1.0, 2.0):.4f}")
      -1.3309
    """
    x, a, loc, scale = settled_arguments("gamma.logcdf", x, a, loc, scale)
    return lax.log(prims.igamma(a, _above(x, loc, scale)))


@fused
@documented(**_DOC)
def cdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the gamma distribution.

    Args:
      [x]
      [a]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gamma.cdf(1.0, 2.0):.4f}")
      0.2642
    """
    x, a, loc, scale = settled_arguments("gamma.cdf", x, a, loc, scale)
    return prims.igamma(a, _above(x, loc, scale))


@fused
@documented(**_DOC)
def logsf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the gamma distribution.

    Args:
      [x]
      [a]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gamma.logsf(1.0, 2.0):.4f}")
      -0.3069
    """
    x, a, loc, scale = inexact_arguments("gamma.logsf", x, a, loc, scale)
    return lax.log(prims.igammac(a, _above(x, loc, scale)))


@fused
@documented(**_DOC)
def sf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the gamma distribution.

    Args:
      [x]
      [a]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gamma.sf(1.0, 2.0):.4f}")
      0.7358
    """
    x, a, loc, scale = inexact_arguments("gamma.sf", x, a, loc, scale)
    return prims.igammac(a, _above(x, loc, scale))
