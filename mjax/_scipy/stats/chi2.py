"""The chi-squared distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives import special as prims
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, where
from mjax._scipy.special.entropy import times_log
from mjax._scipy.stats.arguments import described

_DOC = described(
    "chi2", "of density `y**(df/2 - 1) * exp(-y/2) / (2**(df/2) * gamma(df/2)) / scale`",
    "The density is 0 outside the support.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    df="df: array or scalar, degrees of freedom.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


def _halves(x: Any, loc: Any, scale: Any) -> Any:
    """Half of the standardized points, clamped to the support.

    The clamped values are constants: the incomplete gamma function may lack a slope at 0.
    """
    y = (x - loc) / (2 * scale)
    return where(y <= 0, 0, where(y == math.inf, math.inf, y))


@fused
@documented(**_DOC)
def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the chi-squared distribution.

    Args:
      [x]
      [df]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.chi2.logpdf(1.0, 3.0):.4f}")
      -1.4189
    """
    x, df, loc, scale = settled_arguments("chi2.logpdf", x, df, loc, scale)
    outside = x < loc  # false for NaN, which gives NaN
    y = where(outside, 1, (x - loc) / scale)
    half = df / 2
    constant = prims.lgamma(half) + math.log(2) * half + lax.log(scale)
    return where(outside, -math.inf, times_log(half - 1, y) - y / 2 - constant)


@fused
@documented(**_DOC)
def pdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the chi-squared distribution.

    Args:
      [x]
      [df]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.chi2.pdf(1.0, 3.0):.4f}")
      0.2420
    """
    return lax.exp(logpdf(*settled_arguments("chi2.pdf", x, df, loc, scale)))


@fused
@documented(**_DOC)
def logcdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the chi-squared distribution.

    Args:
      [x]
      [df]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.chi2.logcdf(1.0, 3.0):.4f}")
      -1.6157
    """
    x, df, loc, scale = settled_arguments("chi2.logcdf", x, df, loc, scale, settling=(0, 3))
    return lax.log(prims.igamma(df / 2, _halves(x, loc, scale)))


@fused
@documented(**_DOC)
def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the chi-squared distribution.

    Args:
      [x]
      [df]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.chi2.cdf(1.0, 3.0):.4f}")
      0.1987
    """
    x, df, loc, scale = settled_arguments("chi2.cdf", x, df, loc, scale, settling=(0, 3))
    return prims.igamma(df / 2, _halves(x, loc, scale))


@fused
@documented(**_DOC)
def logsf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the chi-squared distribution.

    Args:
      [x]
      [df]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.chi2.logsf(1.0, 3.0):.4f}")
      -0.2216
    """
    x, df, loc, scale = settled_arguments("chi2.logsf", x, df, loc, scale, settling=(0, 3))
    return lax.log(prims.igammac(df / 2, _halves(x, loc, scale)))


@fused
@documented(**_DOC)
def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the chi-squared distribution.

    Args:
      [x]
      [df]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.chi2.sf(1.0, 3.0):.4f}")
      0.8013
    """
    x, df, loc, scale = settled_arguments("chi2.sf", x, df, loc, scale, settling=(0, 3))
    return prims.igammac(df / 2, _halves(x, loc, scale))
