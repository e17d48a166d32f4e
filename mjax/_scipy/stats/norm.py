"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.creation import asarray
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import (
    inexact_arguments,
    settled_arguments,
    strong,
    wide_argument,
)
from mjax._scipy.special.normal import distribution, log_distribution, quantile
from mjax._scipy.stats.arguments import described

_DOC = described(
    "norm", "of density `exp(-y**2 / 2) / sqrt(2 * pi) / scale`",
    q="q: array or scalar, probabilities; ints and booleans become the default float.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


#: Terms of the series of the lower tail; the default of `log_ndtr`.
_TERMS = 3


def log_density(x: Any, loc: Any, scale: Any) -> Any:
    """`logpdf` of arrays."""
    y = (x - loc) / scale
    if dtypes.is_complex(typeof(y).dtype):
        return (lax.log(2 * math.pi * lax.square(scale)) + lax.square(y)) / -2
    # The square of the scale may overflow.
    return -0.5 * y * y - (lax.log(lax.abs(scale)) + 0.5 * math.log(2 * math.pi))


def _wide(y: Any) -> Any:
    return strong(wide_argument("norm", y))[0]


def _quantile(q: Any, loc: Any, scale: Any, upper: bool = False) -> Any:
    q, loc, scale = inexact_arguments("norm.ppf", q, loc, scale)
    out = quantile(q)
    return asarray((-out if upper else out) * scale + loc, float)


@fused
@documented(**_DOC)
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the normal distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.norm.logpdf(1.0):.4f}")
      -1.4189
    """
    return log_density(*settled_arguments("norm.logpdf", x, loc, scale))


@fused
@documented(**_DOC)
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the normal distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.norm.pdf(1.0):.4f}")
      0.2420
    """
    return lax.exp(log_density(*settled_arguments("norm.pdf", x, loc, scale)))


@fused
@documented(**_DOC)
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the normal distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.norm.logcdf(1.0):.4f}")
      -0.1728
    """
    x, loc, scale = inexact_arguments("norm.logcdf", x, loc, scale)
    return log_distribution(_TERMS, _wide((x - loc) / scale))


@fused
@documented(**_DOC)
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the normal distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.norm.cdf(1.0):.4f}")
      0.8413
    """
    x, loc, scale = inexact_arguments("norm.cdf", x, loc, scale)
    return distribution(_wide((x - loc) / scale))


@fused
@documented(**_DOC)
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the normal distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.norm.logsf(1.0):.4f}")
      -1.8410
    """
    x, loc, scale = inexact_arguments("norm.logsf", x, loc, scale)
    return log_distribution(_TERMS, _wide((loc - x) / scale))


@fused
@documented(**_DOC)
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the normal distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.norm.sf(1.0):.4f}")
      0.1587
    """
    x, loc, scale = inexact_arguments("norm.sf", x, loc, scale)
    return distribution(_wide((loc - x) / scale))


@fused
@documented(**_DOC)
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Quantiles of the normal distribution: the inverse of `cdf`.

    Args:
      [q]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.norm.ppf(0.75):.4f}")
      0.6745
    """
    return _quantile(wide_argument("norm.ppf", q, "q"), loc, scale)


@fused
@documented(**_DOC)
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Upper quantiles of the normal distribution: the inverse of `sf`.

    Args:
      [q]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.norm.isf(0.25):.4f}")
      0.6745
    """
    return _quantile(wide_argument("norm.isf", q, "q"), loc, scale, upper=True)
