"""The Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, settled_arguments, where
from mjax._scipy.stats.arguments import described, log_one_minus_exp, one_minus_exp

_DOC = described(
    "pareto", "of density `b / y**(b + 1) / scale`",
    "The density is 0 outside the support. The quantile is NaN unless `q` is in [0, 1].",
    q="q: array or scalar, probabilities; ints and booleans become the default float.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    b="b: array or scalar, the shape parameter.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


def _log_ratio(x: Any, loc: Any, scale: Any) -> tuple[Any, Any]:
    """Which points lie below the support; the logarithm of `y`, with derivatives 0 for those."""
    below = x < loc + scale
    return below, lax.log(where(below, 2, (x - loc) / scale))


@fused
@documented(**_DOC)
def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the Pareto distribution.

    Args:
      [x]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.pareto.logpdf(2.0, 2.0):.4f}")
      -1.3863
    """
    x, b, loc, scale = settled_arguments("pareto.logpdf", x, b, loc, scale, ordered=True)
    below, log_ratio = _log_ratio(x, loc, scale)
    return where(below, -math.inf, -(lax.log(scale / b) + (b + 1) * log_ratio))


@fused
@documented(**_DOC)
def pdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the Pareto distribution.

    Args:
      [x]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.pareto.pdf(2.0, 2.0):.4f}")
      0.2500
    """
    return lax.exp(logpdf(*settled_arguments("pareto.pdf", x, b, loc, scale, ordered=True)))


@fused
@documented(**_DOC)
def logcdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the Pareto distribution.

    Args:
      [x]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.pareto.logcdf(2.0, 2.0):.4f}")
      -0.2877
    """
    x, b, loc, scale = inexact_arguments("pareto.logcdf", x, b, loc, scale, ordered=True)
    below, log_ratio = _log_ratio(x, loc, scale)
    return where(below, -math.inf, log_one_minus_exp(b * log_ratio))


@fused
@documented(**_DOC)
def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the Pareto distribution.

    Args:
      [x]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.pareto.cdf(2.0, 2.0):.4f}")
      0.7500
    """
    x, b, loc, scale = settled_arguments("pareto.cdf", x, b, loc, scale, ordered=True)
    below, log_ratio = _log_ratio(x, loc, scale)
    return where(below, 0, one_minus_exp(b * log_ratio))


@fused
@documented(**_DOC)
def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the Pareto distribution.

    Args:
      [x]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.pareto.logsf(2.0, 2.0):.4f}")
      -1.3863
    """
    x, b, loc, scale = settled_arguments("pareto.logsf", x, b, loc, scale, ordered=True)
    below, log_ratio = _log_ratio(x, loc, scale)
    return where(below, 0, -b * log_ratio)


@fused
@documented(**_DOC)
def sf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the Pareto distribution.

    Args:
      [x]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.pareto.sf(2.0, 2.0):.4f}")
      0.2500
    """
    return lax.exp(logsf(*settled_arguments("pareto.sf", x, b, loc, scale, ordered=True)))


@fused
@documented(**_DOC)
def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Quantiles of the Pareto distribution: the inverse of `cdf`.

    Args:
      [q]
      [b]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.pareto.ppf(0.5, 2.0):.4f}")
      1.4142
    """
    q, b, loc, scale = settled_arguments("pareto.ppf", q, b, loc, scale)
    out = loc + scale * lax.exp(-lax.log1p(-q) / b)
    return where((q >= 0) & (q <= 1), out, math.nan)
