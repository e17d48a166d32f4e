"""The beta distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, where
from mjax._scipy.special.beta import log_beta
from mjax._scipy.special.entropy import times_log, times_log1p
from mjax._scipy.stats.arguments import described

_DOC = described(
    "beta", "of density `y**(a - 1) * (1 - y)**(b - 1) / beta(a, b) / scale`",
    "The density is 0 outside the support. NaN unless all parameters are positive.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    a="a: array or scalar, the first shape parameter.",
    b="b: array or scalar, the second one.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


def _inside(x: Any, loc: Any, scale: Any) -> Any:
    """Standardized points, clamped to the support.

    The clamped values are constants: the incomplete beta function may lack a slope at the ends.
    """
    y = (x - loc) / scale
    return where(y <= 0, 0, where(y >= 1, 1, y))


def _nearer_tail(y: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """Whether points are below the mean, and the probability of the side on which they are.

    `1 - y` rounds small points away.
    """
    below = y * (a + b) < a
    return below, prims.betainc(where(below, a, b), where(below, b, a), where(below, y, 1 - y))


@fused
@documented(**_DOC)
def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the beta distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.beta.logpdf(0.25, 2.0, 3.0):.4f}")
      0.5232
    """
    x, a, b, loc, scale = settled_arguments("beta.logpdf", x, a, b, loc, scale)
    y = (x - loc) / scale
    out = times_log(a - 1, y) + times_log1p(b - 1, -y) - log_beta(a, b) - lax.log(scale)
    out = where((x > loc + scale) | (x < loc), -math.inf, out)
    return where((a <= 0) | (b <= 0) | (scale <= 0), math.nan, out)


@fused
@documented(**_DOC)
def pdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the beta distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.beta.pdf(0.25, 2.0, 3.0):.4f}")
      1.6875
    """
    return lax.exp(logpdf(*settled_arguments("beta.pdf", x, a, b, loc, scale)))


@fused
@documented(**_DOC)
def logcdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the beta distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.beta.logcdf(0.25, 2.0, 3.0):.4f}")
      -1.3405
    """
    x, a, b, loc, scale = settled_arguments("beta.logcdf", x, a, b, loc, scale, ordered=True)
    return lax.log(prims.betainc(a, b, _inside(x, loc, scale)))


@fused
@documented(**_DOC)
def cdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the beta distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.beta.cdf(0.25, 2.0, 3.0):.4f}")
      0.2617
    """
    x, a, b, loc, scale = settled_arguments("beta.cdf", x, a, b, loc, scale, ordered=True)
    return prims.betainc(a, b, _inside(x, loc, scale))


@fused
@documented(**_DOC)
def logsf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the beta distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.beta.logsf(0.25, 2.0, 3.0):.4f}")
      -0.3034
    """
    x, a, b, loc, scale = settled_arguments("beta.logsf", x, a, b, loc, scale, ordered=True)
    below, tail = _nearer_tail(_inside(x, loc, scale), a, b)
    return where(below, lax.log1p(-where(below, tail, 0)), lax.log(where(below, 1, tail)))


@fused
@documented(**_DOC)
def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the beta distribution.

    Args:
      [x]
      [a]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.beta.sf(0.25, 2.0, 3.0):.4f}")
      0.7383
    """
    x, a, b, loc, scale = settled_arguments("beta.sf", x, a, b, loc, scale, ordered=True)
    below, tail = _nearer_tail(_inside(x, loc, scale), a, b)
    return where(below, 1 - tail, tail)
