"""The left-skewed Gumbel distribution."""

from __future__ import annotations

import math
from typing import Any

from mjax._engine.base.docs import documented
from mjax._engine.primitives import arithmetic as lax
from mjax._numpy.fused import fused
from mjax._scipy.special.arguments import inexact_arguments, where
from mjax._scipy.stats.arguments import described, log_one_minus_exp, one_minus_exp

_DOC = described(
    "gumbel_l", "of density `exp(y - exp(y)) / scale`",
    "NaN unless `scale` is positive and, for quantiles, `p` is in [0, 1].",
    p="p: array or scalar, probabilities; ints and booleans become the default float.",
    x="x: array or scalar, points; ints and booleans become the default float.",
    loc="loc: array or scalar, the location, which is added to the variable.",
    scale="scale: array or scalar, the factor of the variable.")


def log_density(y: Any, scale: Any) -> Any:
    """`logpdf` at `y = (x - loc) / scale`; of the right-skewed distribution, at `-y`."""
    # Compiled code may turn inf - inf into either infinity.
    out = where(y == math.inf, 0, y) - lax.exp(y)
    return where(scale > 0, out - lax.log(scale), math.nan)


def density(y: Any, scale: Any) -> Any:
    """`pdf` at `y = (x - loc) / scale`; of the right-skewed distribution, at `-y`."""
    # A constant far out, where the slope of the logarithm is infinite.
    far = (lax.exp(y) == math.inf) & (scale > 0)
    return where(far, 0, lax.exp(log_density(where(far, 0, y), scale)))


def power(y: Any) -> Any:
    """`exp(y)`; a constant where that is infinite, since functions of it are constant there."""
    far = lax.exp(y) == math.inf
    return where(far, math.inf, lax.exp(where(far, 0, y)))


def log_near(y: Any) -> Any:
    """`log(1 - exp(-exp(y)))`, by its series where `exp(y)` is small."""
    small = y < -20
    return where(small, y - 0.5 * lax.exp(where(small, y, -20)),
                 log_one_minus_exp(power(where(small, -20, y))))


@fused
@documented(**_DOC)
def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the density of the left-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_l.logpdf(1.0):.4f}")
      -1.7183
    """
    x, loc, scale = inexact_arguments("gumbel_l.logpdf", x, loc, scale, ordered=True)
    return log_density((x - loc) / scale, scale)


@fused
@documented(**_DOC)
def pdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Density of the left-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_l.pdf(1.0):.4f}")
      0.1794
    """
    x, loc, scale = inexact_arguments("gumbel_l.pdf", x, loc, scale, ordered=True)
    return density((x - loc) / scale, scale)


@fused
@documented(**_DOC)
def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the distribution function of the left-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_l.logcdf(1.0):.4f}")
      -0.0683
    """
    x, loc, scale = inexact_arguments("gumbel_l.logcdf", x, loc, scale, ordered=True)
    return where(scale > 0, log_near((x - loc) / scale), math.nan)


@fused
@documented(**_DOC)
def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Distribution function of the left-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_l.cdf(1.0):.4f}")
      0.9340
    """
    x, loc, scale = inexact_arguments("gumbel_l.cdf", x, loc, scale, ordered=True)
    return where(scale > 0, one_minus_exp(power((x - loc) / scale)), math.nan)


@fused
@documented(**_DOC)
def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Logarithm of the survival function of the left-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_l.logsf(1.0):.4f}")
      -2.7183
    """
    x, loc, scale = inexact_arguments("gumbel_l.logsf", x, loc, scale, ordered=True)
    return where(scale > 0, -lax.exp((x - loc) / scale), math.nan)


@fused
@documented(**_DOC)
def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Survival function, `1 - cdf`, of the left-skewed Gumbel distribution.

    Args:
      [x]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_l.sf(1.0):.4f}")
      0.0660
    """
    x, loc, scale = inexact_arguments("gumbel_l.sf", x, loc, scale, ordered=True)
    return where(scale > 0, lax.exp(-power((x - loc) / scale)), math.nan)


@fused
@documented(**_DOC)
def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """Quantiles of the left-skewed Gumbel distribution: the inverse of `cdf`.

    Args:
      [p]
      [loc]
      [scale]

    [gives]

    Example:
      >>> print(f"{mjax.scipy.stats.gumbel_l.ppf(0.5):.4f}")
      -0.3665
    """
    p, loc, scale = inexact_arguments("gumbel_l.ppf", p, loc, scale, ordered=True)
    return where((p > 0) & (p < 1), loc + scale * lax.log(-lax.log1p(-p)), math.nan)
