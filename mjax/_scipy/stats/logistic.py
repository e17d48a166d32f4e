"""The logistic distribution."""

from __future__ import annotations

from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.control.custom.custom_jvp import custom_jvp
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.elementary import logaddexp
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, settled_arguments
from mjax._scipy.special.entropy import log_odds
from mjax._scipy.stats.arguments import described

_DOC = described(
    "logistic", "of density `exp(-y) / (1 + exp(-y))**2 / scale`",
    x="x: array or scalar, points; ints and booleans become the default float.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


@custom_jvp
def _lower(y: Any) -> Any:
    """The logistic function, whose slope keeps its digits for large `y`."""
    return lax.logistic(y)


@_lower.defjvp
def _lower_jvp(primals: Any, tangents: Any) -> Any:
    (y,), (t,) = primals, tangents
    out = _lower(y)
    return out, t * (out * _lower(-y))


@fused
@documented(**_DOC)
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the logistic distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.logistic.logpdf(1.0):.4f}")
      -1.6265
    """
    x, loc, scale = settled_arguments("logistic.logpdf", x, loc, scale, settling=(0, 1, 2))
    half = (x - loc) / scale / 2
    return -2 * logaddexp(half, -half) - lax.log(scale)


@fused
@documented(**_DOC)
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the logistic distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.logistic.pdf(1.0):.4f}")
      0.1966
    """
    return lax.exp(logpdf(*inexact_arguments("logistic.pdf", x, loc, scale)))


@fused
@documented(**_DOC)
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the logistic distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.logistic.cdf(1.0):.4f}")
      0.7311
    """
    x, loc, scale = inexact_arguments("logistic.cdf", x, loc, scale)
    return _lower((x - loc) / scale)


@fused
@documented(**_DOC)
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the logistic distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.logistic.sf(1.0):.4f}")
      0.2689
    """
    x, loc, scale = inexact_arguments("logistic.sf", x, loc, scale)
    return _lower(-((x - loc) / scale))


@fused
@documented(**_DOC)
def ppf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Quantiles of the logistic distribution: the inverse of `cdf`.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.logistic.ppf(0.75):.4f}")
      1.0986
    """
    x, loc, scale = settled_arguments("logistic.ppf", x, loc, scale)
    return log_odds(x) * scale + loc


@fused
@documented(**_DOC)
def isf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Upper quantiles of the logistic distribution: the inverse of `sf`.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.logistic.isf(0.25):.4f}")
      1.0986
    """
    x, loc, scale = settled_arguments("logistic.isf", x, loc, scale)
    return -log_odds(x) * scale + loc
