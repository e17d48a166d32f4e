"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.ir import dtypes
from mjax._engine.ir.types import typeof
from mjax._engine.primitives import arithmetic as lax
from mjax._engine.primitives.elementwise import constant_like
from mjax._engine.primitives.trigonometric import atan2, tan
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import settled_arguments, where
from mjax._scipy.stats.arguments import described

_DOC = described(
    "cauchy", "of density `1 / (pi * scale * (1 + y**2))`",
    q="q: array or scalar, probabilities; ints and booleans become the default float.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


def _lower(x: Any, loc: Any, scale: Any) -> Any:
    """The distribution function as an angle, accurate in the tails."""
    return atan2(constant_like(x, 1), (loc - x) / scale) / math.pi


def _log1p_square(y: Any) -> Any:
    """`log(1 + y**2)`, of real numbers whose square may overflow."""
    if dtypes.is_complex(typeof(y).dtype):
        return lax.log1p(y * y)
    size = lax.abs(y)
    large = size > 1
    log = 2 * lax.log(where(large, size, 1))
    return lax.log1p(lax.square(where(large, 1 / where(large, size, 1), size))) + log


def _log_lower(x: Any, loc: Any, scale: Any) -> Any:
    """`logcdf`, accurate in both tails of real numbers."""
    if dtypes.is_complex(typeof(x).dtype):
        return lax.log(_lower(x, loc, scale))
    right = x > loc
    tail = atan2(constant_like(x, 1), lax.abs((loc - x) / scale)) / math.pi
    return where(right, lax.log1p(-tail), lax.log(tail))


def _cotangent(q: Any) -> Any:
    """The cotangent of `pi * q`, accurate near 0, 1/2 and 1."""
    low, middle = q <= 0.5, lax.abs(q - 0.5) < 0.25
    q = where(q == 0, 1 - (1 - q), q)  # -0 would flip the sign of the result.
    out = tan(math.pi * where(middle, 0.5 - q, where(low, q, 1 - q)))
    inverse = 1 / where(middle, 1, out)
    return where(middle, out, where(low, inverse, -inverse))


@fused
@documented(**_DOC)
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the Cauchy distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.cauchy.logpdf(1.0):.4f}")
      -1.8379
    """
    x, loc, scale = settled_arguments("cauchy.logpdf", x, loc, scale)
    return -(lax.log(math.pi * scale) + _log1p_square((x - loc) / scale))


@fused
@documented(**_DOC)
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the Cauchy distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.cauchy.pdf(1.0):.4f}")
      0.1592
    """
    return lax.exp(logpdf(*settled_arguments("cauchy.pdf", x, loc, scale)))


@fused
@documented(**_DOC)
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the Cauchy distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.cauchy.logcdf(1.0):.4f}")
      -0.2877
    """
    return _log_lower(*settled_arguments("cauchy.logcdf", x, loc, scale))


@fused
@documented(**_DOC)
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the Cauchy distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.cauchy.cdf(1.0):.4f}")
      0.7500
    """
    return _lower(*settled_arguments("cauchy.cdf", x, loc, scale))


@fused
@documented(**_DOC)
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the Cauchy distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.cauchy.logsf(1.0):.4f}")
      -1.3863
    """
    x, loc, scale = settled_arguments("cauchy.logsf", x, loc, scale)
    return _log_lower(-x, -loc, scale)


@fused
@documented(**_DOC)
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the Cauchy distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.cauchy.sf(1.0):.4f}")
      0.2500
    """
    x, loc, scale = settled_arguments("cauchy.sf", x, loc, scale)
    return _lower(-x, -loc, scale)


@fused
@documented(**_DOC)
def ppf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Quantiles of the Cauchy distribution: the inverse of `cdf`.

    Args:
      [q]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.cauchy.ppf(0.75):.4f}")
      1.0000
    """
    q, loc, scale = settled_arguments("cauchy.ppf", q, loc, scale)
    return loc - scale * _cotangent(q)


@fused
@documented(**_DOC)
def isf(q: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Upper quantiles of the Cauchy distribution: the inverse of `sf`.

    Args:
      [q]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.cauchy.isf(0.25):.4f}")
      1.0000
    """
    q, loc, scale = settled_arguments("cauchy.isf", q, loc, scale)
    return loc + scale * _cotangent(q)
