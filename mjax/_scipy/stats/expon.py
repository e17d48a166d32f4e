"""The exponential distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, where
from mjax._scipy.stats.arguments import described, log_one_minus_exp, one_minus_exp

_DOC = described(
    "expon", "of density `exp(-y) / scale`",
    "The density is 0 outside the support. The quantile is NaN unless `q` is in [0, 1].",
    q="q: array or scalar, probabilities; ints and booleans become the default float.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


@fused
@documented(**_DOC)
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the exponential distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.expon.logpdf(1.0):.4f}")
      -1.0000
    """
    x, loc, scale = inexact_arguments("expon.logpdf", x, loc, scale, ordered=True)
    return where(x < loc, -math.inf, -((x - loc) / scale + lax.log(scale)))


@fused
@documented(**_DOC)
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the exponential distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.expon.pdf(1.0):.4f}")
      0.3679
    """
    return lax.exp(logpdf(*inexact_arguments("expon.pdf", x, loc, scale, ordered=True)))


@fused
@documented(**_DOC)
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the exponential distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.expon.logcdf(1.0):.4f}")
      -0.4587
    """
    x, loc, scale = inexact_arguments("expon.logcdf", x, loc, scale, ordered=True)
    below = x < loc
    return where(below, -math.inf, log_one_minus_exp(where(below, 1, (x - loc) / scale)))


@fused
@documented(**_DOC)
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the exponential distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.expon.cdf(1.0):.4f}")
      0.6321
    """
    x, loc, scale = inexact_arguments("expon.cdf", x, loc, scale, ordered=True)
    return one_minus_exp(where(x < loc, 0, x - loc) / scale)


@fused
@documented(**_DOC)
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the exponential distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.expon.logsf(1.0):.4f}")
      -1.0000
    """
    x, loc, scale = inexact_arguments("expon.logsf", x, loc, scale, ordered=True)
    return where(x < loc, 0, (loc - x) / scale)


@fused
@documented(**_DOC)
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the exponential distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.expon.sf(1.0):.4f}")
      0.3679
    """
    x, loc, scale = inexact_arguments("expon.sf", x, loc, scale, ordered=True)
    return lax.exp(-where(x < loc, 0, x - loc) / scale)


@fused
@documented(**_DOC)
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Quantiles of the exponential distribution: the inverse of `cdf`.

    Args:
      [q]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.expon.ppf(0.5):.4f}")
      0.6931
    """
    q, loc, scale = inexact_arguments("expon.ppf", q, loc, scale)
    return where((q >= 0) & (q <= 1), loc - scale * lax.log1p(-q), math.nan)
